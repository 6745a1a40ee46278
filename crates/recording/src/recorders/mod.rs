//! All recordings of a server: their plan, their state and their events.
//!
//! ```text
//! Plan, StreamEvents, wishes ─► Recorders ─► ReadingThread ─► JobQueue ─► FolderThread, one a folder
//!                                  └─ tick ─► RecorderEvent                    └─► Catalogue
//! ```

mod inner;
mod known_folders;
mod plan;
mod recording;
mod status;
mod wishes;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, StreamChange, StreamEvent, StreamName, StreamSummary};
use glassline_runtime::{Clock, Supervisor, calendar};

pub use plan::{FolderPlan, Keep, Layers, Plan, PlanOfStream, StreamPlan};
pub use status::{
    DeletedSum, FolderStatus, Loss, RecorderEvent, RecorderEventKind, RecordingState,
    RecordingStatus,
};

use crate::catalogue::Catalogue;
use crate::disk::SystemDisk;
use crate::recorder::{ReadingThread, RecordedSource, RecorderOptions};
use crate::retention::{Retention, RetentionThread};
use crate::writer::{FolderParts, FolderState, FolderThread, JobQueue, QueueBound};
use inner::{Inner, OpenedFolder};
use known_folders::KnownFolders;
use recording::{Known, Running, layer_recordings};
use wishes::Wishes;

/// Protocol of a stream that is pulled from another server of the cluster, which records it.
const PULLED: &str = "pull";

/// Ending of the file of wishes, beside that of the known folders.
const WISHES_FILE: &str = "wishes.json";

/// Longest time that a folder which left the plan has for its queue.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Everything that recordings need of a server.
#[derive(Clone, Debug)]
pub struct RecorderParts {
    /// The streams of the server.
    pub hub: Arc<Hub>,
    /// The server's clock.
    pub clock: Clock,
    /// Watches the threads.
    pub supervisor: Arc<Supervisor>,
    /// File that keeps which folder is at which path; `None` keeps it as long as the server runs. Wishes have
    /// a file beside it.
    pub known_file: Option<PathBuf>,
}

/// All recordings of a server.
pub struct Recorders {
    parts: RecorderParts,
    catalogue: Catalogue,
    inner: Mutex<Inner>,
}

/// Reason why a stream is not recorded as somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecorded {
    /// No folder is configured for the stream.
    #[error("there is no folder for recordings of '{0}': name one as `recordings.folder`")]
    NoFolder(StreamName),
    /// Another server of the cluster has the stream's source.
    #[error("'{0}' comes from another server of the cluster, which records it")]
    Elsewhere(StreamName),
    /// The wish cannot be kept for the next start.
    #[error("the wish for '{0}' cannot be kept, so nothing was changed: {1}")]
    NotKept(StreamName, String),
}

impl Recorders {
    /// Starts the thread that reads streams. Nothing is recorded before [`Self::set_plan`].
    ///
    /// # Errors
    /// Returns the system's error if it has no thread or descriptor to give.
    pub fn start(parts: RecorderParts) -> io::Result<Self> {
        let reading = ReadingThread::start(parts.clock, &parts.supervisor)?;
        let known_folders = KnownFolders::read(parts.known_file.clone());
        let wishes_file = parts.known_file.as_ref();
        let wishes = Wishes::read(wishes_file.map(|it| it.with_extension(WISHES_FILE)));
        let streams = wishes.all().map(|(name, wish)| (name, Known::wished(wish)));
        let streams = streams.collect();
        let catalogue = Catalogue::default();
        let retention = Retention::new(catalogue.clone());
        let retention = RetentionThread::start(retention, &parts.supervisor)?;
        Ok(Self {
            parts,
            catalogue,
            inner: Mutex::new(Inner {
                plan: Plan::nothing(),
                reading,
                retention,
                folders: BTreeMap::new(),
                known_folders,
                wishes,
                streams,
                events: Vec::new(),
                opened: 0,
            }),
        })
    }

    /// Returns where recordings are found.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Puts a plan in force: recordings begin and end as it says. A folder whose plan is another is
    /// opened anew.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give for a folder.
    pub fn set_plan(&self, plan: Plan) -> io::Result<()> {
        let mut inner = self.lock();
        let mut gone = Vec::new();
        let paths: Vec<PathBuf> = inner.folders.keys().cloned().collect();
        for path in paths {
            let same = plan.folders.iter().find(|it| it.path == path);
            match (same, inner.folders.get_mut(&path)) {
                (Some(same), Some(open)) if same.sync == open.plan.sync => {
                    open.plan = same.clone();
                }
                _ => gone.extend(inner.folders.remove(&path).map(|it| (path, it))),
            }
        }
        inner.retention.set_plan(plan.clone());
        inner.plan = plan;
        let names: Vec<StreamName> = inner.streams.keys().cloned().collect();
        if !gone.is_empty() {
            // Their files end before their folder is closed.
            for name in &names {
                let is_gone = |it: &Running| gone.iter().any(|(path, _)| *path == it.plan.folder);
                let is_there = inner.streams.get(name).and_then(|it| it.running.as_ref());
                if is_there.is_some_and(is_gone) {
                    inner.end(name);
                }
            }
            inner.reading.settle();
        }
        for (path, folder) in gone {
            self.catalogue.remove(&path);
            // Writes what is queued. A folder that is opened again waits for its lock.
            let stop = move || folder.thread.stop(Instant::now() + GONE_WITHIN);
            let thread = std::thread::Builder::new().name("folder-end".to_owned());
            thread.spawn(stop)?;
        }
        for folder in inner.plan.folders.clone() {
            if !inner.folders.contains_key(&folder.path) {
                self.open(&mut inner, folder)?;
            }
        }
        for name in names {
            self.reconsider(&mut inner, &name, Some(Instant::now()));
        }
        Ok(())
    }

    /// Follows the events of streams.
    pub fn observe(&self, happened: &[StreamEvent]) {
        let mut inner = self.lock();
        for event in happened {
            match event {
                StreamEvent::Present(present) => {
                    let known: Vec<StreamName> = inner.streams.keys().cloned().collect();
                    let is_there = |name: &StreamName| present.iter().any(|it| it.name == *name);
                    for name in known.iter().filter(|it| !is_there(it)) {
                        self.see(&mut inner, name, None);
                    }
                    for stream in present {
                        self.see(&mut inner, &stream.name, Some(stream));
                    }
                }
                StreamEvent::Changed { change, stream } => {
                    let is_there = *change != StreamChange::Removed;
                    self.see(
                        &mut inner,
                        &stream.name,
                        Some(&**stream).filter(|_| is_there),
                    );
                }
            }
        }
    }

    /// Records a stream from now on, or no more, whatever the configuration says; `None` does what the
    /// configuration says. A restart does not change that.
    ///
    /// # Errors
    /// Returns [`NotRecorded`] if the stream cannot be recorded here.
    pub fn wish(&self, name: &StreamName, wish: Option<bool>) -> Result<(), NotRecorded> {
        let mut inner = self.lock();
        if (inner.plan.of_stream)(name).is_none() {
            return Err(NotRecorded::NoFolder(name.clone()));
        }
        let stream = self.parts.hub.stream(name.as_str());
        let note = stream.and_then(|it| it.source_note());
        if wish == Some(true) && note.is_some_and(|it| it.protocol == PULLED) {
            return Err(NotRecorded::Elsewhere(name.clone()));
        }
        let kept = inner.wishes.set(name, wish);
        kept.map_err(|why| NotRecorded::NotKept(name.clone(), why))?;
        inner.streams.entry(name.clone()).or_default().wish = wish;
        self.reconsider(&mut inner, name, Some(Instant::now()));
        Ok(())
    }

    /// Returns the state of a stream's recording; `None` if nothing is configured for the stream.
    pub fn status(&self, name: &StreamName) -> Option<RecordingStatus> {
        let inner = self.lock();
        let plan = (inner.plan.of_stream)(name)?;
        let unknown = Known::default();
        let known = inner.streams.get(name).unwrap_or(&unknown);
        Some(known.status(name, Some(&plan), &inner.reading))
    }

    /// Returns what all recordings do that go on or went on since the server began.
    pub fn statuses(&self) -> Vec<RecordingStatus> {
        let inner = self.lock();
        let statuses = inner.streams.iter().map(|(name, known)| {
            let plan = (inner.plan.of_stream)(name);
            known.status(name, plan.as_ref(), &inner.reading)
        });
        statuses.collect()
    }

    /// Returns the state of every folder.
    pub fn folders(&self) -> Vec<FolderStatus> {
        let inner = self.lock();
        let now = Instant::now();
        let folders = inner.folders.iter().map(|(path, folder)| {
            let time = folder.thread.disk_time(now);
            FolderStatus {
                path: path.clone(),
                problem: match folder.thread.state() {
                    FolderState::Failed(reason) => Some(reason),
                    _ => None,
                },
                disk_share: folder.thread.disk_share(now),
                write_time: time.writes,
                sync_time: time.syncs,
                lag: folder.thread.queue().lag(now),
            }
        });
        folders.collect()
    }

    /// Returns the counts of deleted files since the server began.
    pub fn deleted(&self) -> DeletedSum {
        let inner = self.lock();
        let deleted = inner.retention.deleted();
        DeletedSum {
            files: deleted.files.get(),
            bytes: deleted.bytes.get(),
            uncopied_files: deleted.uncopied_files.get(),
        }
    }

    /// Looks at folders and recordings, and returns the events since the last call. Call this about
    /// once a second.
    pub fn tick(&self) -> Vec<RecorderEvent> {
        let mut inner = self.lock();
        inner.look_at_folders();
        inner.look_at_streams();
        std::mem::take(&mut inner.events)
    }

    /// Ends all recordings. Returns within about `grace`: a disk that hangs keeps nobody.
    pub fn stop(&self, grace: Duration) {
        let mut inner = self.lock();
        inner.reading.stop();
        let deadline = Instant::now() + grace;
        for (_, folder) in std::mem::take(&mut inner.folders) {
            folder.thread.stop(deadline);
        }
        inner.retention.stop(deadline);
    }

    fn open(&self, inner: &mut Inner, plan: FolderPlan) -> io::Result<()> {
        let parts = FolderParts {
            path: plan.path.clone(),
            known: inner.known_folders.at(&plan.path),
            sync: plan.sync,
            disk: Arc::new(SystemDisk),
            catalogue: self.catalogue.clone(),
        };
        let name = inner.opened.to_string();
        inner.opened += 1;
        let queue = Arc::new(JobQueue::new(QueueBound::default()));
        let thread = FolderThread::start(parts, queue, &name, &self.parts.supervisor)?;
        let folder = OpenedFolder {
            thread,
            seen: FolderState::Opening,
            is_busy: false,
            plan,
        };
        inner.folders.insert(folder.plan.path.clone(), folder);
        Ok(())
    }

    fn see(&self, inner: &mut Inner, name: &StreamName, stream: Option<&StreamSummary>) {
        let source = stream.and_then(|it| {
            let is_here = it.protocol != Some(PULLED);
            it.source.filter(|_| is_here)
        });
        let is_demanded = |it: StreamPlan| it.is_demanded && it.is_automatic;
        let is_demanded = || (inner.plan.of_stream)(name).is_some_and(is_demanded);
        if source.is_none() && !inner.streams.contains_key(name) && !is_demanded() {
            return;
        }
        let known = inner.streams.entry(name.clone()).or_default();
        let before = std::mem::replace(&mut known.source, source);
        let from = (before == source).then(Instant::now);
        self.reconsider(inner, name, from);
    }

    /// Begins or ends the recording of a stream, as plan, source and wish are now. What was published
    /// before `from` is not recorded; `None` records a source from its beginning.
    fn reconsider(&self, inner: &mut Inner, name: &StreamName, from: Option<Instant>) {
        let plan = (inner.plan.of_stream)(name);
        let Some(known) = inner.streams.get(name) else {
            return;
        };
        let wanted = plan.filter(|it| known.wish.unwrap_or(it.is_automatic));
        let is_demanded = wanted.as_ref().is_some_and(|it| it.is_demanded);
        let wanted = wanted.zip(known.source);
        self.demand(inner, name, is_demanded);
        let Some(known) = inner.streams.get(name) else {
            return;
        };
        let is_same = match (&wanted, &known.running) {
            (None, None) => return,
            (Some((plan, source)), Some(running)) => {
                let is_same = StreamPlan {
                    keep: running.plan.keep,
                    is_automatic: running.plan.is_automatic,
                    ..plan.clone()
                } == running.plan;
                is_same && *source == running.source
            }
            _ => false,
        };
        if is_same {
            return;
        }
        inner.end(name);
        let stream = self.parts.hub.stream(name.as_str());
        let (Some((plan, source)), Some(stream)) = (wanted, stream) else {
            return;
        };
        let Some(folder) = inner.folders.get(&plan.folder) else {
            return;
        };
        let layer_recordings = layer_recordings(&stream, &plan.layers);
        for layer_recording in &layer_recordings {
            let begun = inner.reading.begin(RecordedSource {
                stream: Arc::clone(&stream),
                layer_recording: Arc::clone(layer_recording),
                queue: Arc::clone(folder.thread.queue()),
                options: RecorderOptions { file: plan.file },
                from,
            });
            if !begun {
                tracing::error!(stream = %name, "a recording did not begin: its thread is busy");
            }
        }
        let running = Running {
            plan,
            source,
            since: calendar::now(),
            layer_recordings,
        };
        inner.tell(RecorderEventKind::Started, name.as_str(), None);
        inner.streams.entry(name.clone()).or_default().running = Some(running);
    }

    /// Keeps the source of a stream running, or does not any more.
    fn demand(&self, inner: &mut Inner, name: &StreamName, is_demanded: bool) {
        let stream = self.parts.hub.stream(name.as_str());
        let stream = stream.filter(|_| is_demanded);
        let Some(known) = inner.streams.get_mut(name) else {
            return;
        };
        match (stream, &known.demand) {
            (Some(stream), Some(demand)) if Arc::ptr_eq(&stream, demand.stream()) => {}
            (stream, _) => known.demand = stream.map(|it| it.demand()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorders").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
