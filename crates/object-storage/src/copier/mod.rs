//! The loop that copies one file after another.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::bucket::{Bucket, Copied};
use crate::fault::CopyError;

/// How often an empty queue is asked again, should nobody have woken the copier.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// A closed file that waits for its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The local file.
    pub path: PathBuf,
    /// Key of the copy, without the prefix of the bucket.
    pub key: String,
}

/// Files that wait for their copies. The queue lasts longer than the process: a file leaves the queue
/// by [`copied`](Self::copied) or [`given_up`](Self::given_up) only. The methods may read and write
/// files; they run on threads for that.
pub trait CopyQueue: Send + Sync + 'static {
    /// Returns the file that is to be copied next; `None` if no file waits. The answer stays the same
    /// until the file leaves the queue.
    ///
    /// # Errors
    /// Returns why the queue cannot be read.
    fn next(&self) -> Result<Option<Pending>, String>;

    /// Notes that a file has a copy which the storage has confirmed.
    ///
    /// # Errors
    /// Returns why the queue cannot be written. The file is then copied again.
    fn copied(&self, pending: &Pending, copy: &Copied) -> Result<(), String>;

    /// Takes a file out of the queue that cannot be copied, since it is gone or is still written.
    ///
    /// # Errors
    /// Returns why the queue cannot be written.
    fn given_up(&self, pending: &Pending, reason: &CopyError) -> Result<(), String>;
}

/// Figures of a copier, for the API and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFigures {
    /// Files that were copied since the start.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Time that the copies took.
    pub busy: Duration,
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
/// second on up to a minute, and goes on with the same file.
#[derive(Debug)]
pub struct Copier<Q> {
    queue: Arc<Q>,
    bucket: Arc<Bucket>,
    figures: Arc<Mutex<CopyFigures>>,
    arrival: Arc<Notify>,
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
            figures: Arc::default(),
            arrival: Arc::default(),
        }
    }

    /// Returns the figures so far.
    pub fn figures(&self) -> CopyFigures {
        let figures = self.figures.lock();
        figures.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the copier that a file was put into the queue.
    pub fn wake(&self) {
        self.arrival.notify_one();
    }

    /// Copies files for ever. Dropping the future ends the copier between two writes to the queue; a
    /// copy that was under way is begun anew by the next copier.
    pub async fn run(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.turn(&mut backoff).await {
                Turn::Copied => {}
                Turn::Empty => {
                    let arrival = self.arrival.notified();
                    let _ = tokio::time::timeout(ASK_AGAIN, arrival).await;
                }
                Turn::Wait(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn turn(&self, backoff: &mut Backoff) -> Turn {
        let pending = match self.asked(CopyQueue::next).await {
            Ok(Some(pending)) => pending,
            Ok(None) => return Turn::Empty,
            Err(reason) => return self.failed(backoff, reason),
        };
        let begin = Instant::now();
        let copied = self.bucket.put_file(&pending.path, &pending.key).await;
        let path = pending.path.display().to_string();
        let noted = match copied {
            Ok(copy) => {
                let bytes = copy.bytes;
                let noted = self.asked(move |queue| queue.copied(&pending, &copy)).await;
                if noted.is_ok() {
                    self.note_copy(bytes, begin.elapsed());
                }
                noted
            }
            Err(error) if error.is_of_the_file() => {
                warn!(%error, "a file is not copied to the object storage");
                self.asked(move |queue| queue.given_up(&pending, &error))
                    .await
            }
            Err(error) => Err(error.to_string()),
        };
        match noted {
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

    fn note_copy(&self, bytes: u64, took: Duration) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.files += 1;
        figures.bytes += bytes;
        figures.busy += took;
        if figures.trouble.take().is_some() {
            info!("the object storage takes files again");
        }
    }

    fn failed(&self, backoff: &mut Backoff, reason: String) -> Turn {
        let wait = backoff.failed();
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
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
