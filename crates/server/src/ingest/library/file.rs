//! A file of the library, opened and indexed once for all who play it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassline_demux::Source;
use glassline_hub::StreamName;
use glassline_media::{Kind, Track};

/// An index has 16 to 24 bytes for each frame and packet of audio, of which a file
/// has about a hundred in a second.
const INDEX_BYTES_PER_SECOND: u64 = 2_400;

/// A media file, open and read through.
pub struct MediaFile {
    name: String,
    tracks: Arc<[Track]>,
    duration: Duration,
    /// Never read itself, only forked.
    source: Mutex<Source>,
}

impl MediaFile {
    pub(super) fn new(name: String, source: Source) -> Self {
        Self {
            name,
            tracks: source.tracks().into(),
            duration: source.fork(true).duration(),
            source: Mutex::new(source),
        }
    }

    /// Path of the file below the library's folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tracks of the file.
    pub fn tracks(&self) -> &Arc<[Track]> {
        &self.tracks
    }

    /// How long the file plays.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The file has video, so that [`Play::scale`](super::Play::scale) has an effect.
    pub fn has_video(&self) -> bool {
        self.tracks.iter().any(|track| track.kind() == Kind::Video)
    }

    /// Another reader, at the start of the file.
    pub(super) fn source(&self, once: bool) -> Source {
        let source = self.source.lock();
        source.unwrap_or_else(PoisonError::into_inner).fork(once)
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
}

impl fmt::Debug for MediaFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediaFile")
            .field("name", &self.name)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
