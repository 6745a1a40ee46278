//! A file of the library, opened and indexed once for all its readings.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glassline_demux::Demuxer;
use glassline_hub::StreamName;
use glassline_media::{Kind, Track};

/// Estimated bytes of a file's index for a second of media: 16 to 24 bytes for each frame and
/// packet of audio, of which there are about a hundred in a second.
const INDEX_BYTES_PER_SECOND: u64 = 2_400;

/// An open media file whose index was read.
pub struct IndexedFile {
    name: String,
    tracks: Arc<[Track]>,
    duration: Duration,
    /// The open file. It is forked for each reading and never read itself.
    source: Mutex<Demuxer>,
}

impl IndexedFile {
    pub(super) fn new(name: String, source: Demuxer) -> Self {
        Self {
            name,
            tracks: source.tracks().into(),
            duration: source.fork(true).duration(),
            source: Mutex::new(source),
        }
    }

    /// Returns the path of the file below the library's folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tracks of the file.
    pub fn tracks(&self) -> &Arc<[Track]> {
        &self.tracks
    }

    /// Returns the duration of the file.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns whether the file has video, so that [`Play::scale`](super::Play::scale) has an
    /// effect.
    pub fn has_video(&self) -> bool {
        self.tracks.iter().any(|track| track.kind() == Kind::Video)
    }

    /// Returns another reader of the file, at its start.
    pub(super) fn source(&self, once: bool) -> Demuxer {
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

    /// Returns the name of an unlisted stream, for logs. Characters that stream names must not have
    /// become `_`.
    pub(super) fn unlisted_name(&self) -> StreamName {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
        let letters = self.name.chars().map(|c| if allowed(c) { c } else { '_' });
        // A leading `~` is allowed in stream names and makes reserved words valid.
        let text: String = std::iter::once('~').chain(letters).take(64).collect();
        StreamName::parse(&text).expect("the letters are allowed and few")
    }
}

impl fmt::Debug for IndexedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedFile")
            .field("name", &self.name)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
