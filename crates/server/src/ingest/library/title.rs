use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glassline_demux::Source;
use glassline_hub::StreamName;
use glassline_media::{Kind, Track};

use super::live::{Live, Running};
use super::private::{Full, Play, Private};
use super::{Office, live, private};

/// An index has 16 to 24 bytes for each picture and packet of sound, of which a file
/// has about a hundred in a second.
const INDEX_BYTES_PER_SECOND: u64 = 2_400;

/// One file of the library, open and read through.
pub struct Title {
    name: String,
    tracks: Arc<[Track]>,
    duration: Duration,
    /// Never read itself, only forked.
    source: Mutex<Source>,
    office: Arc<Office>,
    /// The reading of those who watch together.
    running: Mutex<Option<Running>>,
}

impl Title {
    pub(super) fn new(name: String, source: Source, office: Arc<Office>) -> Self {
        Self {
            name,
            tracks: source.tracks().into(),
            duration: source.fork(true).duration(),
            source: Mutex::new(source),
            office,
            running: Mutex::new(None),
        }
    }

    /// Its path below the folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn tracks(&self) -> &Arc<[Track]> {
        &self.tracks
    }

    /// How long it plays.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// It has pictures, so that [`Play::scale`] has an effect.
    pub fn has_pictures(&self) -> bool {
        self.tracks.iter().any(|track| track.kind() == Kind::Video)
    }

    /// Joins the reading that all share, which is looped. It begins at the file's
    /// start when the first of them calls [`Live::play`], and ends a while after the
    /// last one left.
    ///
    /// While it plays the hub lists the stream, if the file's name can be a stream's
    /// and no other stream has it; those who watch it by that name count too.
    pub fn live(self: &Arc<Self>) -> Live {
        live::join(self, &mut self.lock(&self.running))
    }

    /// A reading of one client's own, waiting where the file starts.
    ///
    /// # Errors
    /// [`Full`] if there are as many as configured.
    pub fn fork(self: &Arc<Self>, play: Option<Play>) -> Result<Private, Full> {
        private::open(self, play)
    }

    /// Another reader, at the start of the file.
    pub(super) fn source(&self, once: bool) -> Source {
        self.lock(&self.source).fork(once)
    }

    pub(super) fn office(&self) -> &Arc<Office> {
        &self.office
    }

    pub(super) fn index_bytes(&self) -> usize {
        let bytes = self
            .duration
            .as_secs()
            .saturating_mul(INDEX_BYTES_PER_SECOND);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The name of an unlisted stream, for logs: letters that no stream has become `_`.
    pub(super) fn unlisted_name(&self) -> StreamName {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
        let letters = self.name.chars().map(|c| if allowed(c) { c } else { '_' });
        // A `~` in front is allowed and keeps the words that are not.
        let text: String = std::iter::once('~').chain(letters).take(64).collect();
        StreamName::parse(&text).expect("the letters are allowed and few")
    }

    fn lock<'a, T>(&self, what: &'a Mutex<T>) -> MutexGuard<'a, T> {
        what.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Title")
            .field("name", &self.name)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
