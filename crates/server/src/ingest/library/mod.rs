//! Files that are played when somebody asks for them.
//!
//! ```text
//!  name ─ place ─► path below the folder ─ shelf ─► Title: opened and indexed once
//!                                                     │
//!   Title::live ──► Live: one looped reading for all ┤ Title::fork ─► Private: one
//!        │ listed in the hub under the file's name    │ client's own: seek, scale, pause
//!        ▼                                            ▼
//!      hub::Stream ◄── Reading (Reel, Pace) ◄── Driver: two threads, next due first
//! ```
//!
//! To whoever sends media both are a [`Stream`](glassline_hub::Stream), so no thread
//! that serves clients ever reads a file. A file is read through once, when it is
//! first asked for; all readings of it share what was learned and its descriptor.
//! Each thread reads a little ahead while nothing is due. A disk that is slow all the
//! same delays the readings of that thread and nothing else.

mod control;
mod driver;
mod live;
mod place;
mod private;
mod reading;
mod reel;
mod run;
mod shelf;
mod title;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use glassline_hub::Hub;

use driver::Driver;
use shelf::Shelf;

pub use control::{Failure, Started};
pub use live::Live;
pub use private::{Full, Play, Private};
pub use title::Title;

/// Bounds on what a library takes on. All are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Readings for one client each, at once.
    pub private: usize,
    /// Files kept open though nobody reads them now.
    pub idle: usize,
    /// Bytes that the indexes of those may take, as estimated from their length.
    pub idle_bytes: usize,
    /// How long they are kept.
    pub idle_span: Duration,
    /// How long a shared reading goes on without readers: long enough for one who
    /// comes back, and for the next of several who come one after the other.
    pub linger: Duration,
    /// Threads that read and pace.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            private: 1_000,
            idle: 64,
            idle_bytes: 64 << 20,
            idle_span: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            // One goes on while the other waits for its disk.
            threads: 2,
        }
    }
}

/// The files of a folder, as streams.
#[derive(Debug)]
pub struct Library {
    shelf: Arc<Shelf>,
}

/// What all of a library's readings share.
#[derive(Debug)]
struct Office {
    hub: Arc<Hub>,
    limits: Limits,
    driver: Driver,
    private: AtomicUsize,
}

/// What a library is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are open, read or not.
    pub titles: usize,
    /// Files opened and read through since the start, the broken ones included.
    pub opened: u64,
    /// Readings for one client each.
    pub private: usize,
    /// Readings altogether, the shared ones included.
    pub readings: usize,
}

impl Library {
    /// The files below `folder`, which may come and go. Shared readings are listed
    /// in `hub`. Starts the threads.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn new(folder: PathBuf, hub: Arc<Hub>, limits: Limits) -> io::Result<Self> {
        let office = Office {
            hub,
            limits,
            driver: Driver::start(limits.threads)?,
            private: AtomicUsize::new(0),
        };
        Ok(Self {
            shelf: Arc::new(Shelf::new(folder, Arc::new(office))),
        })
    }

    /// The file called `name`: its path below the folder, with `/` between folders.
    /// `None` if there is none, or none that may be played: names that lead out of
    /// the folder, hidden files, extensions that are not known.
    ///
    /// The first who asks has the file opened and read through, on a blocking thread;
    /// who asks meanwhile waits for that. A broken file is not read again until it
    /// changes or some time has passed. Needs a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the file, the same for all who ask.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<Title>>, Error> {
        self.shelf.find(name).await
    }

    /// What it is doing.
    pub fn counts(&self) -> Counts {
        let office = self.shelf.office();
        Counts {
            titles: self.shelf.len(),
            opened: self.shelf.opened(),
            private: office.private.load(Ordering::Relaxed),
            readings: office.driver.readings(),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.shelf.office().driver.close();
    }
}

/// Why a file cannot be played, shared by all who ask for it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("media file '{name}': {reason}")]
pub struct Error {
    /// As it was asked for.
    pub name: String,
    /// What is wrong, and where.
    #[source]
    pub reason: Arc<glassline_demux::Error>,
}

#[cfg(test)]
mod operations;
#[cfg(test)]
mod tests;
