//! The loop that copies one file after another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::bucket::Bucket;

/// How often an empty queue is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// A closed file that waits for its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The local file.
    pub path: PathBuf,
    /// Key of the copy, without the prefix of the bucket.
    pub key: String,
}

/// Files that wait for their copies. The queue lasts longer than the process: a file leaves the queue
/// once it is [`copied`](Self::copied), or [`not_copied`](Self::not_copied) too often. The methods may
/// read and write files; they run on threads for that.
pub trait CopyQueue: Send + Sync + 'static {
    /// Returns the file that is to be copied next; `None` if no file waits.
    ///
    /// # Errors
    /// Returns why the queue cannot be read.
    fn next(&self) -> Result<Option<Pending>, String>;

    /// Notes that a file has a copy which the storage has confirmed.
    ///
    /// # Errors
    /// Returns why the queue cannot be written. The file is then copied again.
    fn copied(&self, pending: &Pending) -> Result<(), String>;

    /// Notes that a file itself could not be copied, since it is gone, cannot be read, or is still
    /// written.
    ///
    /// # Errors
    /// Returns why the queue cannot be written.
    fn not_copied(&self, pending: &Pending) -> Result<(), String>;
}

/// Figures of a copier, for the API and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFigures {
    /// Files that were copied since the start.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Attempts that failed since the start.
    pub failures: u64,
    /// The error of the newest attempt, and the instant of the first failure in a row; `None` after a
    /// success.
    pub trouble: Option<Trouble>,
}

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Instant of the first failure.
    pub since: Instant,
    /// Error of the newest attempt.
    pub reason: String,
}

/// Copies the files of a queue to a bucket, one after another. After a failure the copier waits, from a
/// second on up to a minute, and asks the queue again.
#[derive(Debug)]
pub struct Copier<Q> {
    queue: Arc<Q>,
    bucket: Arc<Bucket>,
    figures: Mutex<CopyFigures>,
}

/// The outcome of one turn.
enum Turn {
    Copied,
    Empty,
    Wait(Duration),
}

impl<Q: CopyQueue> Copier<Q> {
    /// Creates a copier of the files of `queue`.
    pub fn new(queue: Arc<Q>, bucket: Arc<Bucket>) -> Self {
        Self {
            queue,
            bucket,
            figures: Mutex::default(),
        }
    }

    /// Returns the figures so far.
    pub fn figures(&self) -> CopyFigures {
        self.figures.lock().clone()
    }

    /// Copies files for ever. Dropping the future ends the copier between two writes to the queue; a
    /// copy that was under way is begun anew by the next copier.
    pub async fn run(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.turn(&mut backoff).await {
                Turn::Copied => {}
                Turn::Empty => tokio::time::sleep(ASK_AGAIN).await,
                Turn::Wait(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn turn(&self, backoff: &mut Backoff) -> Turn {
        let pending = match self.asked(CopyQueue::next).await {
            Ok(Some(pending)) => pending,
            Ok(None) => {
                // The last failure was of a file that is not tried again.
                self.figures.lock().trouble = None;
                return Turn::Empty;
            }
            Err(reason) => return self.failed(backoff, reason),
        };
        let copied = self.bucket.put_file(&pending.path, &pending.key).await;
        let path = pending.path.display().to_string();
        let done = match copied {
            Ok(copy) => {
                let noted = self.asked(move |queue| queue.copied(&pending)).await;
                noted.map(|()| self.note_copy(copy.bytes))
            }
            Err(error) => {
                if error.is_of_the_file() {
                    // The error of the file is told; an index that fails fails at the next turn, too.
                    let _ = self.asked(move |queue| queue.not_copied(&pending)).await;
                }
                Err(error.to_string())
            }
        };
        match done {
            Ok(()) => {
                backoff.succeeded();
                Turn::Copied
            }
            Err(reason) => self.failed(backoff, format!("{path} waits for its copy: {reason}")),
        }
    }

    /// Asks the queue on a thread that may wait for disks.
    async fn asked<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Q) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let queue = self.queue.clone();
        let asked = tokio::task::spawn_blocking(move || ask(&queue)).await;
        asked.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn note_copy(&self, bytes: u64) {
        let mut figures = self.figures.lock();
        figures.files += 1;
        figures.bytes += bytes;
        if figures.trouble.take().is_some() {
            info!("the object storage takes files again");
        }
    }

    fn failed(&self, backoff: &mut Backoff, reason: String) -> Turn {
        let wait = backoff.failed();
        let mut figures = self.figures.lock();
        figures.failures += 1;
        match &mut figures.trouble {
            Some(trouble) => trouble.reason = reason,
            // The first failure in a row is worth a line, the next ones are in the figures.
            none => {
                warn!("{reason}; the next attempt follows in {} s", wait.as_secs());
                *none = Some(Trouble {
                    since: Instant::now(),
                    reason,
                });
            }
        }
        Turn::Wait(wait)
    }
}

#[cfg(test)]
mod tests;
