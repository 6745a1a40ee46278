//! The two threads of a folder: one opens the folder and writes, one brings files to the disk.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_runtime::{Heartbeat, Part, Supervisor};

use super::disk_meter::DiskMeter;
use super::folder_writer::{FolderWriter, WriterOptions};
use super::job_queue::JobQueue;
use super::sync_job::SyncJob;
use crate::catalogue::Catalogue;
use crate::disk::{Disk, Failure, FailureKind};
use crate::folder::{Folder, FolderError, FolderId};

/// Longest wait for a job: syncs are due, and the thread shows that it lives.
const TURN: Duration = Duration::from_millis(250);

/// Interval at which a thread that should end is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Time after which a folder that cannot be opened is tried again.
const RETRY: Duration = Duration::from_secs(3);

/// State of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FolderState {
    /// The folder is being opened.
    Opening,
    /// The folder is written to.
    Ready(FolderId),
    /// The folder cannot be written to, for the reason as people read it.
    Failed(String),
}

/// The threads of a folder.
pub(crate) struct FolderThread {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share with others.
#[derive(Debug)]
struct Shared {
    queue: Arc<JobQueue>,
    state: Mutex<FolderState>,
    of_writes: Mutex<DiskMeter>,
    of_syncs: Mutex<DiskMeter>,
}

/// The parts that a folder's threads begin with.
#[derive(Debug)]
pub(crate) struct FolderParts {
    pub(crate) path: std::path::PathBuf,
    /// Identity that the folder had before.
    pub(crate) known: Option<FolderId>,
    pub(crate) sync: Duration,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) catalogue: Catalogue,
}

impl FolderThread {
    /// Starts the threads; `name` tells those of several folders apart.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give.
    pub(crate) fn start(
        parts: FolderParts,
        queue: Arc<JobQueue>,
        name: &str,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let shared = Arc::new(Shared {
            queue,
            state: Mutex::new(FolderState::Opening),
            of_writes: Mutex::new(DiskMeter::new(now)),
            of_syncs: Mutex::new(DiskMeter::new(now)),
        });
        let (syncs, due) = channel();
        let opening = Opening {
            parts,
            shared: Arc::clone(&shared),
            syncs,
        };
        let named = format!("record-{name}");
        let (watching, thread_name) = (Arc::clone(supervisor), named.clone());
        let writing = std::thread::Builder::new().name(named).spawn(move || {
            let heartbeat = watching.register(Part::Recording, &thread_name);
            opening.run(&watching, &heartbeat);
        })?;
        let named = format!("sync-{name}");
        let (watching, thread_name) = (Arc::clone(supervisor), named.clone());
        let of_syncs = Arc::clone(&shared);
        let syncing = std::thread::Builder::new().name(named).spawn(move || {
            let heartbeat = watching.register(Part::Recording, &thread_name);
            sync(&due, &of_syncs.of_syncs, &watching, &heartbeat);
        })?;
        Ok(Self {
            shared,
            threads: vec![writing, syncing],
        })
    }

    /// Returns the queue of the folder's jobs.
    pub(crate) fn queue(&self) -> &Arc<JobQueue> {
        &self.shared.queue
    }

    /// Returns the state of the folder.
    pub(crate) fn state(&self) -> FolderState {
        lock(&self.shared.state).clone()
    }

    /// Returns the part of the last ten seconds, of 1, in which the disk worked: by writes or by syncs,
    /// whichever is more.
    pub(crate) fn disk_share(&self, now: Instant) -> f64 {
        let shares = [&self.shared.of_writes, &self.shared.of_syncs];
        let shares = shares.map(|it| lock(it).share(now));
        shares.into_iter().fold(0.0, f64::max)
    }

    /// Returns the sum of the time for which each thread waited for the disk.
    pub(crate) fn disk_time(&self, now: Instant) -> DiskTime {
        DiskTime {
            writes: lock(&self.shared.of_writes).total(now),
            syncs: lock(&self.shared.of_syncs).total(now),
        }
    }

    /// Writes the queue, ends all files, and returns by `deadline`, also if the disk hangs.
    pub(crate) fn stop(self, deadline: Instant) {
        self.shared.queue.close();
        for thread in self.threads {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::warn!(
                    "a disk with recordings does not answer: its newest files end as after a crash"
                );
            }
        }
    }
}

/// Time for which threads waited for a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskTime {
    pub(crate) writes: Duration,
    pub(crate) syncs: Duration,
}

/// The thread that opens the folder, and writes.
struct Opening {
    parts: FolderParts,
    shared: Arc<Shared>,
    syncs: Sender<SyncJob>,
}

/// A folder that is open for writing.
struct OpenFolder {
    writer: FolderWriter,
    /// Holds the folder's lock.
    folder: Folder,
}

impl Opening {
    fn run(mut self, supervisor: &Supervisor, heartbeat: &Heartbeat) {
        loop {
            heartbeat.beat();
            let opened = supervisor.catch(Part::Recording, || self.open());
            let reason = match opened {
                Ok(Ok(open)) => {
                    self.parts.known = Some(open.folder.id());
                    self.set(FolderState::Ready(open.folder.id()));
                    if self.write(open, supervisor, heartbeat) {
                        return;
                    }
                    self.parts.catalogue.remove(&self.parts.path);
                    "its disk does not answer as before".to_owned()
                }
                Ok(Err(reason)) => reason,
                Err(_) => "the recorder failed while it opened the folder".to_owned(),
            };
            self.set(FolderState::Failed(reason.clone()));
            if self.refuse(&reason, heartbeat) {
                return;
            }
        }
    }

    /// Opens the folder, and finds files that a crash left open.
    fn open(&self) -> Result<OpenFolder, String> {
        let parts = &self.parts;
        lock(&self.shared.of_writes).begin(Instant::now());
        let opened = Folder::open(&parts.path, parts.known);
        let folder = opened.map_err(|error: FolderError| error.to_string());
        let writer = folder.and_then(|folder| {
            let added = parts.catalogue.add(&folder);
            added.map_err(|error| error.to_string())?;
            let index = parts.catalogue.folder(&parts.path);
            let index = index.ok_or_else(|| "its index is gone".to_owned())?;
            let found = crate::catalogue::find_after_crash(&index);
            found.map_err(|error| error.to_string())?;
            let options = WriterOptions {
                sync: parts.sync,
                identity: Some(folder.id()),
            };
            let writer = FolderWriter::new(Arc::clone(&parts.disk), index, options);
            Ok(OpenFolder { writer, folder })
        });
        lock(&self.shared.of_writes).end(Instant::now());
        writer
    }

    /// Writes jobs. Returns true when nothing comes any more, and false if the folder is better opened
    /// anew.
    fn write(&self, mut open: OpenFolder, supervisor: &Supervisor, heartbeat: &Heartbeat) -> bool {
        let (queue, meter) = (&self.shared.queue, &self.shared.of_writes);
        let writer = &mut open.writer;
        loop {
            heartbeat.beat();
            let job = queue.take(TURN);
            lock(meter).begin(Instant::now());
            // A panic costs the files that it leaves open: they end as after a crash.
            let done = supervisor.catch(Part::Recording, || {
                if let Some(job) = job {
                    writer.run(job);
                }
                writer.tick();
            });
            let (is_over, is_lost) = (queue.is_over(), writer.is_lost());
            if is_over || is_lost || done.is_err() {
                let _ = supervisor.catch(Part::Recording, || writer.end_all());
            }
            lock(meter).end(Instant::now());
            for sync in writer.take_syncs() {
                // The other thread lives as long as this one.
                let _ = self.syncs.send(sync);
            }
            if is_over || is_lost {
                return is_over;
            }
        }
    }

    /// Refuses jobs until the folder is tried again. Returns whether nothing comes any more.
    fn refuse(&self, reason: &str, heartbeat: &Heartbeat) -> bool {
        let until = Instant::now() + RETRY;
        while Instant::now() < until {
            heartbeat.beat();
            if let Some(job) = self.shared.queue.take(TURN) {
                job.layer_recording().fail(Failure {
                    kind: FailureKind::Away,
                    text: reason.to_owned(),
                });
            }
            if self.shared.queue.is_over() {
                return true;
            }
        }
        false
    }

    fn set(&self, state: FolderState) {
        if let FolderState::Failed(reason) = &state
            && *lock(&self.shared.state) != state
        {
            let folder = self.parts.path.display();
            tracing::error!(%folder, reason, "nothing is recorded into a folder");
        }
        *lock(&self.shared.state) = state;
    }
}

/// Brings files to the disk until the other thread has ended.
fn sync(
    due: &Receiver<SyncJob>,
    meter: &Mutex<DiskMeter>,
    supervisor: &Supervisor,
    heartbeat: &Heartbeat,
) {
    loop {
        heartbeat.beat();
        match due.recv_timeout(TURN) {
            Ok(job) => {
                lock(meter).begin(Instant::now());
                let _ = supervisor.catch(Part::Recording, || job.run());
                lock(meter).end(Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl fmt::Debug for FolderThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderThread")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
