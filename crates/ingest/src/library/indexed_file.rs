//! A file of the library, opened and indexed once for all its readings.

use std::sync::Arc;
use std::time::Duration;

use glassline_demux::Demuxer;
use glassline_media::{MediaTime, Track};
use parking_lot::Mutex;

use super::frame_source::{FrameSource, NextFrame, Playable, SourceError};

/// Estimated bytes of a file's index for a second of media: 16 to 24 bytes for each frame and
/// packet of audio, of which there are about a hundred in a second.
const INDEX_BYTES_PER_SECOND: u64 = 2_400;

/// An open media file whose index was read.
#[derive(derive_more::Debug)]
#[debug("IndexedFile {{ name: {name:?}, duration: {duration:?}, .. }}")]
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

    pub(super) fn index_bytes(&self) -> usize {
        let bytes = self
            .duration
            .as_secs()
            .saturating_mul(INDEX_BYTES_PER_SECOND);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Playable for IndexedFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn end(&self) -> Duration {
        self.duration
    }

    fn frames(&self, once: bool) -> Box<dyn FrameSource> {
        let source = self.source.lock().fork(once);
        Box::new(FileFrames { source, once })
    }
}

/// The frames of a file.
struct FileFrames {
    source: Demuxer,
    once: bool,
}

impl FrameSource for FileFrames {
    fn end(&self) -> MediaTime {
        MediaTime::ZERO + self.source.duration()
    }

    fn keyframe_at_or_before(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        Ok(self.source.keyframe_at_or_before(at))
    }

    fn keyframe_after(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        Ok(self.source.keyframe_after(at))
    }

    fn seek(&mut self, to: MediaTime) -> Result<(), SourceError> {
        Ok(self.source.seek(to)?)
    }

    fn next_frame(&mut self) -> Result<NextFrame, SourceError> {
        let Some(frame) = self.source.next_frame()? else {
            return Ok(NextFrame::End);
        };
        // When the file is played once, the last frame may lie at its very end.
        let position = match self.once {
            true => frame.time,
            false => {
                let length = self.end().nanos().max(1);
                MediaTime::from_nanos(frame.time.nanos().rem_euclid(length))
            }
        };
        Ok(NextFrame::Frame { frame, position })
    }
}
