//! A session's own reading, and the PLAY request that waits for its first frame.

use std::time::{Duration, Instant};

use glassline_ingest::library::{Failure, Play, PrivateReading, SourceError, Started};
use glassline_rtsp::server::{Answer, Refusal, RequestId};

/// Longest time until a reading begins; a sleeping disk wakes up in this time.
const START_LIMIT: Duration = Duration::from_secs(8);

/// A session's own reading of a file, or of the past of a stream.
#[derive(Debug)]
pub(super) struct OwnReading {
    reading: PrivateReading,
    /// A PLAY request whose reading has not begun yet, and the time by which it must begin.
    starting: Option<(RequestId, Instant)>,
}

/// The result of a PLAY request whose reading had not begun.
pub(super) enum ReadingStart {
    /// The reading has begun.
    Begun(Started),
    /// Nothing can be read, or not in time.
    Failed(Answer),
}

impl OwnReading {
    pub(super) const fn new(reading: PrivateReading) -> Self {
        Self {
            reading,
            starting: None,
        }
    }

    pub(super) const fn reading(&self) -> &PrivateReading {
        &self.reading
    }

    /// Plays for request `id`, which is answered when the reading has begun.
    pub(super) fn play(&mut self, play: Play, id: RequestId, now: Instant) {
        self.reading.play(play);
        self.starting = Some((id, now + START_LIMIT));
    }

    /// Returns the request that waited for the reading, once the reading has begun or failed.
    pub(super) fn take_start(&mut self, now: Instant) -> Option<(RequestId, ReadingStart)> {
        let (id, until) = self.starting?;
        let start = match self.reading.started() {
            Some(Ok(started)) => ReadingStart::Begun(started),
            Some(Err(failure)) => ReadingStart::Failed(refused(&failure)),
            None if until <= now => {
                ReadingStart::Failed(Answer::Refused(Refusal::Unavailable { retry_after: None }))
            }
            None => return None,
        };
        self.starting = None;
        Some((id, start))
    }
}

/// Returns the answer to a request for what cannot be read. The reading has told the log of it.
fn refused(failure: &Failure) -> Answer {
    match failure {
        Failure::Source(SourceError::Nothing(why)) => Answer::Explained {
            refusal: Refusal::InvalidRange,
            why: why.clone(),
        },
        Failure::Source(SourceError::Away(why)) => Answer::Explained {
            refusal: Refusal::Unavailable { retry_after: None },
            why: why.clone(),
        },
        _ => Answer::Refused(Refusal::Internal),
    }
}
