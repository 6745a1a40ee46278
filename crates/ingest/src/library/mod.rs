//! The media folder: files that become streams when a client asks for them.
//!
//! ```text
//!  name ─ resolved_path ─► path below the folder ─ FileCache ─► MediaFile, opened once
//!                                                       │
//!          MediaFile::live ─────────────────────────────┼── MediaFile::fork
//!                ▼                                      ▼
//!   SharedReading: looped, for all clients,   PrivateReading: for one client,
//!   listed in the hub by the file's name      with seek, scale and pause
//!                ▼                                      ▼
//!   hub::Stream ◄── Reading (PlaybackCursor, Pace) ◄── Driver: two threads, next due first
//! ```
//!
//! Whatever is [`Playable`] has private readings on threads of its own, too: [`Readings`].
//!
//! Both kinds of reading are a [`Stream`](glassline_hub::Stream) to the code that sends media, so
//! no thread that serves clients ever reads a file. A file is read through once, when a client
//! first asks for it. All its readings share the index and the descriptor. Each thread reads a
//! little ahead while nothing is due. A slow disk then delays the readings of that thread and
//! nothing else. `inspection` reads the files that nobody has asked for, to list those that cannot
//! be played.

mod context;
mod control;
mod driver;
mod error;
mod file_cache;
mod frame_source;
mod indexed_file;
mod inspection;
mod listing;
mod media_file;
mod play;
mod playback;
mod playback_cursor;
mod private_reading;
mod reading;
mod readings;
mod resolved_path;
mod shared_reading;
mod timeline;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_demux::Format;
use glassline_hub::Hub;

use context::LibraryContext;
use file_cache::FileCache;
use glassline_runtime::Supervisor;
use inspection::Inspection;

pub use context::Limits;
pub use control::{Failure, Started};
pub use error::Error;
pub use frame_source::{FrameSource, NextFrame, Playable, SourceError};
pub use indexed_file::IndexedFile;
pub use listing::Listing;
pub use media_file::MediaFile;
pub use play::Play;
pub use private_reading::PrivateReading;
pub use readings::{Full, Readings};
pub use shared_reading::SharedReading;

/// The files of a folder, as streams.
#[derive(Debug)]
pub struct Library {
    cache: Arc<FileCache>,
    inspection: Arc<Inspection>,
    listed: Arc<LatestListing>,
}

/// The latest list of files, and when it was made; locked while one is made.
type LatestListing = tokio::sync::Mutex<Option<(Instant, Arc<Listing>)>>;

/// Time for which a list of files is not made again.
const LISTING_SPAN: Duration = Duration::from_secs(2);

/// Counts of what a library is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are open, with and without readings.
    pub media_files: usize,
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
    pub fn new(
        folder: PathBuf,
        hub: Arc<Hub>,
        limits: Limits,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<Self> {
        let readings = Readings::start("library", limits.threads, limits.private, supervisor)?;
        let context = LibraryContext {
            hub,
            limits,
            readings: Arc::new(readings),
        };
        let inspection = Inspection::new(folder.clone(), supervisor);
        Ok(Self {
            inspection: Arc::new(inspection),
            cache: Arc::new(FileCache::new(folder, Arc::new(context), supervisor)),
            listed: Arc::default(),
        })
    }

    /// Returns the file called `name`, which is its path below the folder with `/` between folders.
    /// Returns `None` if there is no such file, or if it may not be played: a name that leads out
    /// of the folder, a hidden file, or an extension of no media.
    ///
    /// The first call for a name opens the file and reads it through on a blocking thread; further
    /// calls wait for that. A broken file is not read again until it changes or some time has
    /// passed. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns what is wrong with the file, the same for all callers.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<MediaFile>>, Error> {
        self.cache.find(name).await
    }

    /// Returns whether `find` would find a file called `name`, without opening the file. Needs a
    /// tokio runtime.
    pub async fn has(&self, name: &str) -> bool {
        if !resolved_path::is_media_name(name) {
            return false;
        }
        let (folder, name) = (self.cache.folder(), name.to_owned());
        let look = move || resolved_path::resolve(&folder, &name).is_some();
        self.cache.looking().run(look).await.unwrap_or(false)
    }

    /// Returns the files of the folder, as they were at most `LISTING_SPAN` ago. Those that are
    /// new or have changed are inspected in the background ([`refusal`](Self::refusal)). Needs a
    /// tokio runtime.
    pub async fn list(&self) -> Arc<Listing> {
        // Whoever comes while the folder is read waits for that, so that it is read once. The lock goes
        // with the work, which ends even if nobody waits any more.
        let mut listed = Arc::clone(&self.listed).lock_owned().await;
        if let Some((at, listing)) = &*listed
            && at.elapsed() < LISTING_SPAN
        {
            return Arc::clone(listing);
        }
        let (folder, inspection) = (self.cache.folder(), Arc::clone(&self.inspection));
        let reading = self.cache.looking().run(move || {
            let listing = Arc::new(listing::list(&folder));
            inspection.begin(listing.names.clone());
            *listed = Some((Instant::now(), Arc::clone(&listing)));
            listing
        });
        reading.await.unwrap_or_default()
    }

    /// Looks for files below `folder` from now on. Files of the folder before are played to their end
    /// by those who have them; nobody else gets them.
    pub async fn set_folder(&self, folder: &Path) {
        // A list that is being made is of the folder before.
        let mut listed = self.listed.lock().await;
        if self.cache.set_folder(folder) {
            self.inspection.set_folder(folder);
            *listed = None;
        }
    }

    /// Replaces the most readings that belong to one client each; those that run go on.
    pub fn set_private_max(&self, max: usize) {
        self.cache.context().readings.set_private_max(max);
    }

    /// Returns why the file called `name` is not played: its format is not read, or it was broken
    /// when it was last opened or inspected. `None` if nothing is known against it. Does not read
    /// the disk.
    pub fn refusal(&self, name: &str) -> Option<String> {
        let unread = Format::unread(Path::new(name)).map(|reason| reason.to_string());
        let opened = || self.cache.refusal(name);
        unread
            .or_else(opened)
            .or_else(|| self.inspection.refusal(name))
    }

    /// Returns counts of what the library is doing.
    pub fn counts(&self) -> Counts {
        let context = self.cache.context();
        Counts {
            media_files: self.cache.len(),
            opened: self.cache.opened(),
            private: context.readings.private(),
            readings: context.readings.count(),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.cache.context().readings.close();
    }
}

#[cfg(test)]
mod operations;
#[cfg(test)]
mod tests;
