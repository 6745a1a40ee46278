//! The media folder: files that become streams when a client asks for them.
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
//! Both kinds of reading are a [`Stream`](glassline_hub::Stream) to the code that sends media, so
//! no thread that serves clients ever reads a file. A file is read through once, when a client
//! first asks for it. All its readings share the index and the descriptor. Each thread reads a
//! little ahead while nothing is due. A slow disk then delays the readings of that thread and
//! nothing else.

mod control;
mod driver;
mod error;
mod file;
mod live;
mod office;
mod place;
mod play;
mod private;
mod reading;
mod reel;
mod run;
mod shelf;
mod timeline;
mod title;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_hub::Hub;

use driver::Driver;
use office::Office;
use shelf::Shelf;

pub use control::{Failure, Started};
pub use error::Error;
pub use file::MediaFile;
pub use live::Live;
pub use office::Limits;
pub use play::Play;
pub use private::{Full, Private};
pub use title::Title;

/// The files of a folder, as streams.
#[derive(Debug)]
pub struct Library {
    shelf: Arc<Shelf>,
}

/// Counts of what a library is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are open, with and without readings.
    pub titles: usize,
    /// Files that were opened and read through since the start, broken ones included.
    pub opened: u64,
    /// Readings that belong to one client each.
    pub private: usize,
    /// All readings, shared ones included.
    pub readings: usize,
}

impl Library {
    /// Creates the library of the files below `folder`, which may come and go. Shared readings are
    /// listed in `hub`. Starts the threads.
    ///
    /// # Errors
    /// Returns the system's error if a thread cannot be started.
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

    /// Returns the file called `name`, which is its path below the folder with `/` between folders.
    /// Returns `None` if there is no such file, or if it may not be played: a name that leads out
    /// of the folder, a hidden file, or an unknown extension.
    ///
    /// The first call for a name opens the file and reads it through on a blocking thread; further
    /// calls wait for that. A broken file is not read again until it changes or some time has
    /// passed. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns what is wrong with the file, the same for all callers.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<Title>>, Error> {
        self.shelf.find(name).await
    }

    /// Returns counts of what the library is doing.
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

#[cfg(test)]
mod operations;
#[cfg(test)]
mod tests;
