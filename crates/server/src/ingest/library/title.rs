use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use glassline_demux::Source;

use super::file::MediaFile;
use super::live::{self, Live, Running};
use super::office::Office;
use super::play::Play;
use super::private::{self, Full, Private};

/// A file of the library, with its readings.
#[derive(Debug)]
pub struct Title {
    file: Arc<MediaFile>,
    office: Arc<Office>,
    /// The reading that all viewers share, while there is one.
    running: Mutex<Option<Running>>,
}

impl Title {
    pub(super) fn new(name: String, source: Source, office: Arc<Office>) -> Self {
        Self {
            file: Arc::new(MediaFile::new(name, source)),
            office,
            running: Mutex::new(None),
        }
    }

    /// Joins the shared reading, which is looped. It begins at the file's start when the first user
    /// calls [`Live::play`], and ends a while after the last one left.
    ///
    /// While it plays, the hub lists the stream, if the file's name is a valid stream name and no
    /// other stream has it. Viewers of the stream by that name count as users, too.
    pub fn live(&self) -> Live {
        let running = self.running.lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        live::join(&self.office, &self.file, &mut running)
    }

    /// Creates a reading for one client, which waits at the file's start unless `play` is given.
    ///
    /// # Errors
    /// Returns [`Full`] if the configured number of such readings is reached.
    pub fn fork(&self, play: Option<Play>) -> Result<Private, Full> {
        private::open(&self.office, &self.file, play)
    }
}

impl Deref for Title {
    type Target = MediaFile;

    fn deref(&self) -> &MediaFile {
        &self.file
    }
}
