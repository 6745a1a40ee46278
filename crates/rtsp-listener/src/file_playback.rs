//! The playback of a file of the media folder in one session, and the ranges that PLAY may ask of a
//! file.

use std::sync::Arc;
use std::time::Duration;

use glassline_ingest::library::{MediaFile, Play, SharedReading};
use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::replay::Replay;
use glassline_rtsp::server::Refusal;

use super::own_reading::OwnReading;

/// A session's part in the playback of a file.
#[derive(Debug)]
pub(super) struct FilePlayback {
    pub(super) media_file: Arc<MediaFile>,
    /// The reading that all clients share.
    live: SharedReading,
    /// The session's own reading, once it asked for one.
    own: Option<OwnReading>,
}

impl FilePlayback {
    pub(super) fn new(media_file: Arc<MediaFile>, live: SharedReading) -> Self {
        Self {
            media_file,
            live,
            own: None,
        }
    }

    /// Returns whether the session has a reading of its own.
    pub(super) fn is_private(&self) -> bool {
        self.own.is_some()
    }

    /// Returns the session's own reading.
    pub(super) fn own_mut(&mut self) -> Option<&mut OwnReading> {
        self.own.as_mut()
    }

    /// Gives the session a reading of its own.
    pub(super) fn set_own(&mut self, own: OwnReading) {
        self.own = Some(own);
    }

    /// Starts the shared reading, or continues with it.
    pub(super) fn play_live(&self) {
        self.live.play();
    }

    /// Pauses the session's own reading and returns the range that is left of it. The shared
    /// reading continues.
    pub(super) fn pause(&self) -> Option<Range> {
        let own = self.own.as_ref()?;
        Some(Range::Npt {
            start: Some(Npt::At(own.reading().pause())),
            end: None,
        })
    }
}

/// The range, scale and speed that a client asks for with PLAY.
#[derive(Clone, Debug, Default)]
pub(super) struct PlayRequest {
    pub(super) range: Option<Range>,
    pub(super) scale: Option<f64>,
    pub(super) speed: Option<f64>,
    /// Further wishes for a recording.
    pub(super) replay: Option<Replay>,
}

impl PlayRequest {
    /// Returns whether the request is for playback from the start or from now on at normal speed,
    /// which all clients can share.
    pub(super) fn is_plain(&self) -> bool {
        let from_start = match &self.range {
            None => true,
            Some(range) => range.is_live() || *range == Range::ALL,
        };
        let is_one = |factor: Option<f64>| factor.is_none_or(|it| (it - 1.0).abs() < 1e-3);
        from_start && is_one(self.scale) && is_one(self.speed)
    }

    /// Converts the request to settings for a file of this duration.
    ///
    /// # Errors
    /// Returns the refusal of a range that no file has.
    pub(super) fn play(&self, duration: Duration) -> Result<Play, Refusal> {
        let (from, until) = match &self.range {
            None => (None, None),
            Some(Range::Npt { start, end }) => {
                let at = |npt: &Option<Npt>| match npt {
                    Some(Npt::At(at)) => Some(*at),
                    Some(Npt::Now) | None => None,
                };
                // A negative time counts from the end (RFC 2326 §3.6 leaves this open).
                match (at(start), at(end)) {
                    (None, Some(last)) if start.is_none() => {
                        (Some(duration.saturating_sub(last)), None)
                    }
                    both => both,
                }
            }
            Some(_) => return Err(Refusal::InvalidRange),
        };
        if from.is_some_and(|from| from > duration) {
            return Err(Refusal::InvalidRange);
        }
        Ok(Play {
            from,
            until,
            scale: self.scale.unwrap_or(1.0),
            speed: self.speed.unwrap_or(1.0),
            keyframes: None,
            once: true,
        })
    }
}
