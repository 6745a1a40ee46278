use std::ops::Deref;
use std::sync::Arc;

use glassline_demux::Demuxer;
use parking_lot::Mutex;

use super::context::LibraryContext;
use super::indexed_file::IndexedFile;
use super::play::Play;
use super::private_reading::{self, PrivateReading};
use super::readings::Full;
use super::shared_reading::{self, Running, SharedReading};

/// A file of the library, with its readings.
#[derive(Debug)]
pub struct MediaFile {
    file: Arc<IndexedFile>,
    context: Arc<LibraryContext>,
    /// The reading that all viewers share, while there is one.
    running: Mutex<Option<Running>>,
}

impl MediaFile {
    pub(super) fn new(name: String, source: Demuxer, context: Arc<LibraryContext>) -> Self {
        Self {
            file: Arc::new(IndexedFile::new(name, source)),
            context,
            running: Mutex::new(None),
        }
    }

    /// Joins the shared reading, which is looped. It begins at the file's start when the first user
    /// calls [`SharedReading::play`], and ends a while after the last one left.
    ///
    /// While it plays, the hub lists the stream, if the file's name is a valid stream name and no
    /// other stream has it. Viewers of the stream by that name count as users, too.
    pub fn live(&self) -> SharedReading {
        shared_reading::join(&self.context, &self.file, &mut self.running.lock())
    }

    /// Creates a reading for one client, which waits at the file's start unless `play` is given.
    ///
    /// # Errors
    /// Returns [`Full`] if the configured number of such readings is reached.
    pub fn fork(&self, play: Option<Play>) -> Result<PrivateReading, Full> {
        private_reading::open(&self.context.readings, Arc::clone(&self.file) as _, play)
    }
}

impl Deref for MediaFile {
    type Target = IndexedFile;

    fn deref(&self) -> &IndexedFile {
        &self.file
    }
}
