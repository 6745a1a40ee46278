//! What a reading plays: a file, or anything else with frames at positions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassline_demux::Frame;
use glassline_media::{Kind, MediaTime, Track};

/// Something that readings play, each with frames of its own.
pub trait Playable: fmt::Debug + Send + Sync {
    /// Returns the name for logs.
    fn name(&self) -> &str;

    /// Returns the tracks of the frames.
    fn tracks(&self) -> &[Track];

    /// Returns the position of the end.
    fn end(&self) -> Duration;

    /// Returns the frames, which end after one pass if `once`. Does not read.
    fn frames(&self, once: bool) -> Box<dyn FrameSource>;

    /// Returns whether positions are wall-clock times since 1970, at which something was recorded.
    fn is_of_calendar(&self) -> bool {
        false
    }

    /// Returns whether there is video, so that [`Play::scale`](super::Play::scale) has an effect.
    fn has_video(&self) -> bool {
        self.tracks().iter().any(|it| it.kind() == Kind::Video)
    }
}

/// Frames in decoding order from any keyframe on. Calls may read a disk.
///
/// A position says where a frame is; the frame's own times run without a gap from one
/// [`seek`](Self::seek) to the next, and begin at the position that was sought.
pub trait FrameSource: Send {
    /// Returns the position of the end, as it is now.
    fn end(&self) -> MediaTime;

    /// Returns the keyframe to begin with for a playback from `at`; `None` without video. `backwards`:
    /// whether earlier frames follow.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn beginning(
        &mut self,
        at: MediaTime,
        backwards: bool,
    ) -> Result<Option<MediaTime>, SourceError> {
        let _ = backwards;
        self.keyframe_at_or_before(at)
    }

    /// Returns the position of the last keyframe at or before `at`.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn keyframe_at_or_before(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError>;

    /// Returns the position of the first keyframe after `at`.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn keyframe_after(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError>;

    /// Returns how long the part from one position to a later one plays: gaps are skipped.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn played_between(&mut self, from: MediaTime, to: MediaTime) -> Result<Duration, SourceError> {
        Ok(to.saturating_since(from))
    }

    /// Continues with the frame at a keyframe's position.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn seek(&mut self, to: MediaTime) -> Result<(), SourceError>;

    /// Returns the next frame.
    ///
    /// # Errors
    /// Returns [`SourceError`]; the source has ended then.
    fn next_frame(&mut self) -> Result<NextFrame, SourceError>;
}

/// The next frame of a source.
#[derive(Clone, Debug)]
pub enum NextFrame {
    /// The frame, and its position.
    Frame {
        /// The frame, with times of the playback.
        frame: Frame,
        /// Position at which the frame is presented.
        position: MediaTime,
    },
    /// The frame is not there yet: what is played still grows.
    Later,
    /// No frame follows.
    End,
}

/// The reason why nothing more can be played.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// Nothing is there to be played; the text says what is missing.
    #[error("{0}")]
    Nothing(String),
    /// The frames are somewhere else, and do not come from there; the text says from where.
    #[error("{0}")]
    Away(String),
    /// The bytes cannot be read, or are damaged.
    #[error("{0}")]
    Broken(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl From<glassline_demux::Error> for SourceError {
    fn from(error: glassline_demux::Error) -> Self {
        Self::Broken(Arc::new(error))
    }
}
