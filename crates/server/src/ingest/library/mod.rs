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

#[cfg(test)]
mod operations;
#[cfg(test)]
mod tests;
