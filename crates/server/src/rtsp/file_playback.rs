//! A session that plays a file of the media folder, and what PLAY may ask of a file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::server::{Refusal, RequestId};

use crate::ingest::library::{Live, Play, Private, Started, Title};

/// How long a reading may take to begin: a disk that sleeps wakes up in this time.
const START_LIMIT: Duration = Duration::from_secs(8);

/// A session's part in a file.
#[derive(Debug)]
pub(super) struct FilePlayback {
    pub(super) title: Arc<Title>,
    /// The reading that all share.
    live: Live,
    /// The session's own reading, once it asked for one.
    private: Option<Private>,
    /// A PLAY whose reading has not begun yet, and until when it may begin.
    starting: Option<(RequestId, Instant)>,
}

/// What came of a PLAY whose reading had not begun.
pub(super) enum FileStart {
    /// The reading has begun.
    Begun(Started),
    /// The file cannot be read, or not in time.
    Failed(Refusal),
}

impl FilePlayback {
    pub(super) fn new(title: Arc<Title>, live: Live) -> Self {
        Self {
            title,
            live,
            private: None,
            starting: None,
        }
    }

    /// Whether the session has a reading of its own.
    pub(super) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// The session's own reading.
    pub(super) fn private(&self) -> Option<&Private> {
        self.private.as_ref()
    }

    /// Gives the session a reading of its own.
    pub(super) fn set_private(&mut self, private: Private) {
        self.private = Some(private);
    }

    /// Has the reading that all share begin, or go on.
    pub(super) fn play_live(&self) {
        self.live.play();
    }

    /// Notes that request `id` is answered when the session's own reading has begun.
    pub(super) fn await_start(&mut self, id: RequestId, now: Instant) {
        self.starting = Some((id, now + START_LIMIT));
    }

    /// The request that waited for the reading, once that has begun or failed.
    pub(super) fn take_start(&mut self, now: Instant) -> Option<(RequestId, FileStart)> {
        let (id, until) = self.starting?;
        let start = match self.private.as_ref().and_then(Private::started) {
            Some(Ok(started)) => FileStart::Begun(started),
            Some(Err(failure)) => {
                tracing::warn!(file = self.title.name(), %failure, "cannot be played");
                FileStart::Failed(Refusal::Internal)
            }
            None if until <= now => FileStart::Failed(Refusal::Unavailable { retry_after: None }),
            None => return None,
        };
        self.starting = None;
        Some((id, start))
    }

    /// Holds a reading of the session's own; the range that is left of it then. The shared
    /// reading goes on.
    pub(super) fn pause(&self) -> Option<Range> {
        let private = self.private.as_ref()?;
        Some(Range::Npt {
            start: Some(Npt::At(private.pause())),
            end: None,
        })
    }
}

/// What a client asks PLAY for.
#[derive(Clone, Debug, Default)]
pub(super) struct PlayRequest {
    pub(super) range: Option<Range>,
    pub(super) scale: Option<f64>,
    pub(super) speed: Option<f64>,
}

impl PlayRequest {
    /// From the start, or from now on, as it comes: what all can share.
    pub(super) fn is_plain(&self) -> bool {
        let from_start = match &self.range {
            None => true,
            Some(range) => range.is_live() || *range == Range::ALL,
        };
        let is_one = |factor: Option<f64>| factor.is_none_or(|it| (it - 1.0).abs() < 1e-3);
        from_start && is_one(self.scale) && is_one(self.speed)
    }

    /// # Errors
    /// A range that no file has.
    pub(super) fn play(&self, duration: Duration) -> Result<Play, Refusal> {
        let (from, until) = match &self.range {
            None => (None, None),
            Some(Range::Npt { start, end }) => {
                let at = |npt: &Option<Npt>| match npt {
                    Some(Npt::At(at)) => Some(*at),
                    Some(Npt::Now) | None => None,
                };
                // "The end minus" what is said (RFC 2326 §3.6 leaves it open).
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
