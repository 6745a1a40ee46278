use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use glassline_demux::Source;

use super::file::MediaFile;
use super::live::{self, Live, Running};
use super::office::Office;
use super::play::Play;
use super::private::{self, Full, Private};

/// A file of the library and those who play it.
#[derive(Debug)]
pub struct Title {
    file: Arc<MediaFile>,
    office: Arc<Office>,
    /// The reading of those who watch together.
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

    /// Joins the reading that all share, which is looped. It begins at the file's
    /// start when the first of them calls [`Live::play`], and ends a while after the
    /// last one left.
    ///
    /// While it plays the hub lists the stream, if the file's name can be a stream's
    /// and no other stream has it; those who watch it by that name count too.
    pub fn live(&self) -> Live {
        let running = self.running.lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        live::join(&self.office, &self.file, &mut running)
    }

    /// A reading of one client's own, waiting where the file starts.
    ///
    /// # Errors
    /// [`Full`] if there are as many as configured.
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
