//! Copies of recordings in object storage: the task that makes them, and deletes them in the end.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_access::audit::{AuditLog, Change};
use glassline_config::RemoteCopy;
use glassline_events::{Event, EventKind, EventLog, Severity};
use glassline_hub::StreamName;
use glassline_object_storage::{self as storage, Bucket, Copier, CopyQueue, Pending, Reader};
use glassline_recording::{Catalogue, Copies, CopiesWaiting, HeldFile, Plan, Retention};
use glassline_runtime::{BlockingPool, calendar};
use glassline_service::Services;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Recording;

/// Interval at which what waits is counted.
const LOOK: Duration = Duration::from_secs(5);

/// Time for which attempts fail before operators are told: a connection that broke once is no event.
const TROUBLE: Duration = Duration::from_secs(30);

/// Interval at which copies are deleted that are not to be kept.
const EXPIRE: Duration = Duration::from_secs(3_600);

/// Name in the audit log of the rules that delete.
const BY_RULE: &str = "(recordings.copy.keep_days)";

/// The copies in one storage.
#[derive(Debug)]
pub(super) struct Copying {
    configured: RemoteCopy,
    bucket: Arc<Bucket>,
    queue: Arc<Queue>,
    copier: Copier<Queue>,
    waiting: Mutex<CopiesWaiting>,
    /// Threads that ask indexes.
    disk: BlockingPool,
}

/// Figures of the copies, for metrics and the dashboard.
#[derive(Clone, Debug)]
pub struct CopyFigures {
    /// Files that have no copy yet.
    pub waiting: CopiesWaiting,
    /// Time since the beginning of the oldest file that waits.
    pub oldest: Duration,
    /// Counts of what was copied and what failed.
    pub copied: storage::CopyFigures,
}

/// The closed files of a catalogue that have no copy, by the index of each folder.
#[derive(Debug)]
struct Queue {
    catalogue: Catalogue,
    plan: Mutex<Plan>,
    /// The file that is copied, which nothing deletes meanwhile.
    copied_now: Mutex<Option<HeldFile>>,
}

impl Copying {
    /// # Errors
    /// Returns a sentence that says which key of the configuration is wrong.
    pub(super) fn new(
        catalogue: &Catalogue,
        configured: &RemoteCopy,
        plan: Plan,
    ) -> Result<Self, String> {
        let bucket = Arc::new(configured.open()?);
        let queue = Arc::new(Queue {
            catalogue: catalogue.clone(),
            plan: Mutex::new(plan),
            copied_now: Mutex::default(),
        });
        Ok(Self {
            configured: configured.clone(),
            copier: Copier::new(Arc::clone(&queue), Arc::clone(&bucket)),
            queue,
            bucket,
            waiting: Mutex::default(),
            disk: BlockingPool::new(1),
        })
    }

    /// Returns whether the copies go to the storage that is `configured`.
    pub(super) fn is_of(&self, configured: &RemoteCopy) -> bool {
        let storage = |it: &RemoteCopy| RemoteCopy {
            streams: Vec::new(),
            keep_days: None,
            ..it.clone()
        };
        storage(&self.configured) == storage(configured)
    }

    /// Puts another plan in force.
    pub(super) fn set_plan(&self, plan: Plan) {
        *lock(&self.queue.plan) = plan;
    }

    /// Returns what reads copies, on any thread. Needs the runtime that has the connections.
    pub(super) fn copies(&self) -> Arc<dyn Copies> {
        Arc::new(RemoteFiles {
            reader: Reader::new(Arc::clone(&self.bucket)),
            runtime: Handle::current(),
        })
    }

    pub(super) fn figures(&self) -> CopyFigures {
        let waiting = *lock(&self.waiting);
        let since = |it| calendar::now().duration_since(it).unwrap_or_default();
        CopyFigures {
            waiting,
            oldest: waiting.oldest.map(since).unwrap_or_default(),
            copied: self.copier.figures(),
        }
    }

    async fn run(&self, log: &EventLog, audit: &Arc<AuditLog>) {
        tokio::join!(self.copier.run(), self.look(log), self.expire(audit));
    }

    /// Counts what waits, and tells operators when copies fail and when they are made again.
    async fn look(&self, log: &EventLog) {
        let mut told = false;
        loop {
            let queue = Arc::clone(&self.queue);
            let counted = self.disk.run(move || queue.waiting()).await;
            if let Ok(Ok(waiting)) = counted {
                *lock(&self.waiting) = waiting;
            }
            let trouble = self.copier.figures().trouble;
            let trouble = trouble.filter(|it| told || it.since.elapsed() >= TROUBLE);
            if trouble.is_some() != told {
                told = trouble.is_some();
                let event = self.event(trouble.map(|it| it.reason));
                log.note(event, Instant::now(), calendar::now());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn event(&self, reason: Option<String>) -> Event {
        let (severity, text) = match reason {
            Some(_) => (Severity::Bad, "takes no copies of recordings"),
            None => (Severity::Good, "takes copies of recordings again"),
        };
        Event {
            kind: EventKind::Recording,
            severity,
            subject: self.configured.bucket.clone(),
            text: text.to_owned(),
            reason,
        }
    }

    /// Deletes copies that are not to be kept, and notes that in the audit log.
    async fn expire(&self, audit: &Arc<AuditLog>) {
        loop {
            let mut count = 0;
            let deleted = self.delete_expired(&mut count).await;
            if let Err(error) = &deleted {
                tracing::warn!(%error, "copies of recordings are not deleted");
            }
            if count > 0 {
                let change = Change {
                    who: BY_RULE.to_owned(),
                    role: None,
                    from: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    action: "deleteCopies",
                    target: format!("{count} of bucket {}", self.configured.bucket),
                    status: 204,
                    reason: deleted.err(),
                };
                audit.note(change, calendar::now()).await;
            }
            tokio::time::sleep(EXPIRE).await;
        }
    }

    async fn delete_expired(&self, count: &mut u64) -> Result<(), String> {
        loop {
            let queue = Arc::clone(&self.queue);
            let expired = self.disk.run(move || queue.expired()).await;
            let expired = expired.map_err(|error| error.to_string())??;
            if expired.is_empty() {
                return Ok(());
            }
            for Pending { path, key } in expired {
                let deleted = self.bucket.delete(&key).await;
                deleted.map_err(|error| error.to_string())?;
                let catalogue = self.queue.catalogue.clone();
                let forgotten = self.disk.run(move || catalogue.forget_copy(&path)).await;
                let forgotten = forgotten.map_err(|error| error.to_string())?;
                forgotten.map_err(|error| error.to_string())?;
                *count += 1;
            }
        }
    }
}

impl Queue {
    /// Returns whether the files of a stream are copied, by the plan in force.
    fn wanted(&self) -> impl Fn(&StreamName) -> bool + use<> {
        let of_stream = Arc::clone(&lock(&self.plan).of_stream);
        move |name| of_stream(name).is_some_and(|it| it.keep.is_copied)
    }

    fn waiting(&self) -> Result<CopiesWaiting, String> {
        let waiting = self.catalogue.copies_waiting(&self.wanted());
        waiting.map_err(|error| error.to_string())
    }

    fn expired(&self) -> Result<Vec<Pending>, String> {
        let plan = lock(&self.plan).clone();
        let retention = Retention::new(self.catalogue.clone());
        let expired = retention.expired_copies(&plan, calendar::now());
        let expired = expired.map_err(|error| error.to_string())?;
        let expired = expired.into_iter().map(|it| self.pending(it.path));
        expired.collect()
    }

    fn pending(&self, path: PathBuf) -> Result<Pending, String> {
        let key = self.catalogue.key_of_copy(&path);
        let key = key.ok_or_else(|| format!("{}: its folder is away", path.display()))?;
        Ok(Pending { path, key })
    }
}

impl CopyQueue for Queue {
    fn next(&self) -> Result<Option<Pending>, String> {
        let next = self.catalogue.next_to_copy(&self.wanted());
        let next = next.map_err(|error| error.to_string())?;
        *lock(&self.copied_now) = next.as_ref().and_then(|it| self.catalogue.hold(it));
        next.map(|it| self.pending(it.path)).transpose()
    }

    fn copied(&self, pending: &Pending) -> Result<(), String> {
        let noted = self.catalogue.note_copied(&pending.path);
        noted.map_err(|error| error.to_string())
    }

    fn not_copied(&self, pending: &Pending) -> Result<(), String> {
        let noted = self.catalogue.note_not_copied(&pending.path);
        noted.map_err(|error| error.to_string())
    }
}

/// Reads copies for threads that may wait.
#[derive(Debug)]
struct RemoteFiles {
    reader: Reader,
    runtime: Handle,
}

impl Copies for RemoteFiles {
    fn read_at(&self, key: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self
            .runtime
            .block_on(self.reader.read_at(key, offset, buffer));
        read.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Copies recordings to the storage that is configured, until `stopped` becomes true.
pub async fn copy(
    services: Services,
    log: Arc<EventLog>,
    audit: Arc<AuditLog>,
    mut stopped: watch::Receiver<bool>,
) {
    let Some(recording) = services.get::<Recording>() else {
        return;
    };
    let mut current = recording.copying.subscribe();
    loop {
        let copying = current.borrow_and_update().clone();
        let run = async {
            match &copying {
                Some(copying) => copying.run(&log, &audit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = run => {}
            _ = current.changed() => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
