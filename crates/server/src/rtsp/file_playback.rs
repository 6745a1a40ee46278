//! The playback of a file of the media folder in one session, and the ranges that PLAY may ask of a
//! file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::server::{Refusal, RequestId};

use glassline_ingest::library::{MediaFile, Play, PrivateReading, SharedReading, Started};

/// Longest time until a reading begins; a sleeping disk wakes up in this time.
const START_LIMIT: Duration = Duration::from_secs(8);

/// A session's part in the playback of a file.
#[derive(Debug)]
pub(super) struct FilePlayback {
    pub(super) media_file: Arc<MediaFile>,
    /// The reading that all clients share.
    live: SharedReading,
    /// The session's own reading, once it asked for one.
    private: Option<PrivateReading>,
    /// A PLAY request whose reading has not begun yet, and the time by which it must begin.
    starting: Option<(RequestId, Instant)>,
}

/// The result of a PLAY request whose reading had not begun.
pub(super) enum FileStart {
    /// The reading has begun.
    Begun(Started),
    /// The file cannot be read, or not in time.
    Failed(Refusal),
}

impl FilePlayback {
    pub(super) fn new(media_file: Arc<MediaFile>, live: SharedReading) -> Self {
        Self {
            media_file,
            live,
            private: None,
            starting: None,
        }
    }

    /// Returns whether the session has a reading of its own.
    pub(super) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// Returns the session's own reading.
    pub(super) fn private(&self) -> Option<&PrivateReading> {
        self.private.as_ref()
    }

    /// Gives the session a reading of its own.
    pub(super) fn set_private(&mut self, private: PrivateReading) {
        self.private = Some(private);
    }

    /// Starts the shared reading, or continues with it.
    pub(super) fn play_live(&self) {
        self.live.play();
    }

    /// Notes that request `id` is answered when the session's own reading has begun.
    pub(super) fn await_start(&mut self, id: RequestId, now: Instant) {
        self.starting = Some((id, now + START_LIMIT));
    }

    /// Returns the request that waited for the reading, once the reading has begun or failed.
    pub(super) fn take_start(&mut self, now: Instant) -> Option<(RequestId, FileStart)> {
        let (id, until) = self.starting?;
        let start = match self.private.as_ref().and_then(PrivateReading::started) {
            Some(Ok(started)) => FileStart::Begun(started),
            Some(Err(failure)) => {
                tracing::warn!(file = self.media_file.name(), %failure, "file cannot be played");
                FileStart::Failed(Refusal::Internal)
            }
            None if until <= now => FileStart::Failed(Refusal::Unavailable { retry_after: None }),
            None => return None,
        };
        self.starting = None;
        Some((id, start))
    }

    /// Pauses the session's own reading and returns the range that is left of it. The shared
    /// reading continues.
    pub(super) fn pause(&self) -> Option<Range> {
        let private = self.private.as_ref()?;
        Some(Range::Npt {
            start: Some(Npt::At(private.pause())),
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
            once: true,
        })
    }
}
