//! The playback of a stream's recordings in one session (RFC 2326 §3.7, §12.29).
//!
//! The past is a private stream of the session, like a file that a client seeks in. A client names an
//! instant in `Range: clock=`, or in the URL, `?at=`, from which normal play time then counts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_hub::{Stream, StreamName};
use glassline_ingest::library::Play;
use glassline_playback::{PastReading, instant_of};
use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::replay::Frames;
use glassline_rtsp::server::{Answer, Refusal};
use glassline_runtime::{ConnectionPermit, calendar};

use super::file_playback::PlayRequest;
use super::own_reading::OwnReading;

/// Speed for a client that wants no pace: the fastest one.
const UNPACED: f64 = 8.0;

/// A session's part in the recordings of a stream.
#[derive(Debug)]
pub(super) struct PastPlayback {
    stream: StreamName,
    own: OwnReading,
    /// The instant that the URL names.
    at: Option<SystemTime>,
    /// The instant at which the latest playback was asked to begin.
    from: SystemTime,
    /// The live stream that the session has set up, if its URL names no instant, and whether PLAY
    /// interrupted it.
    live: Option<(Arc<Stream>, bool)>,
    /// Whether something was asked for, and whether something was played.
    was_asked: bool,
    has_begun: bool,
    /// Whether the client counts in calendar time, not in normal play time.
    is_by_calendar: bool,
    _place: ConnectionPermit,
}

impl PastPlayback {
    /// Creates the part of a session whose URL names the instant `at`.
    pub(super) fn at(stream: StreamName, reading: PastReading, at: SystemTime) -> Self {
        Self::new(stream, reading, Some(at), None)
    }

    /// Creates the part of a session of all recordings, which `begins` with the oldest one. The client counts in
    /// calendar time.
    pub(super) fn from_the_beginning(
        stream: StreamName,
        reading: PastReading,
        begins: SystemTime,
    ) -> Self {
        Self {
            from: begins,
            ..Self::new(stream, reading, None, None)
        }
    }

    /// Creates the part of a session that has set up `live`, and plays it if `is_playing`.
    pub(super) fn beside(live: &Arc<Stream>, is_playing: bool, reading: PastReading) -> Self {
        let name = live.name().clone();
        Self::new(name, reading, None, Some((Arc::clone(live), is_playing)))
    }

    fn new(
        stream: StreamName,
        reading: PastReading,
        at: Option<SystemTime>,
        live: Option<(Arc<Stream>, bool)>,
    ) -> Self {
        Self {
            stream,
            own: OwnReading::new(reading.reading),
            at,
            from: at.unwrap_or(UNIX_EPOCH),
            live,
            was_asked: false,
            has_begun: false,
            is_by_calendar: at.is_none(),
            _place: reading.place,
        }
    }

    pub(super) const fn stream(&self) -> &StreamName {
        &self.stream
    }

    pub(super) const fn own(&self) -> &OwnReading {
        &self.own
    }

    pub(super) const fn own_mut(&mut self) -> &mut OwnReading {
        &mut self.own
    }

    /// Returns the live stream that the session has set up.
    pub(super) fn live(&self) -> Option<&Arc<Stream>> {
        self.live.as_ref().map(|(live, _)| live)
    }

    /// Returns whether the live stream was played before.
    pub(super) fn interrupted_live(&self) -> bool {
        self.live
            .as_ref()
            .is_some_and(|(_, was_playing)| *was_playing)
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Notes that something is played.
    pub(super) const fn note_begun(&mut self) {
        self.has_begun = true;
    }

    /// Returns whether PLAY asks for the live stream, which the session was set up with.
    pub(super) fn is_left_by(&self, request: &PlayRequest) -> bool {
        self.live.is_some() && request.range.as_ref().is_some_and(Range::is_live)
    }

    /// Returns the settings of a PLAY request.
    ///
    /// # Errors
    /// Returns the answer to a range that cannot be played.
    pub(super) fn play(&mut self, request: &PlayRequest) -> Result<Play, Answer> {
        let asked = self.asked(request)?;
        let begins = self.own.reading().is_over() || !std::mem::replace(&mut self.was_asked, true);
        // Playing on behind the end begins anew.
        let from = asked.from.or(begins.then_some(self.from));
        self.from = from.unwrap_or(self.from);
        if let Some(range) = &request.range {
            self.is_by_calendar = matches!(range, Range::Clock { .. });
        }
        Ok(Play {
            from: from.map(since_1970),
            until: asked.until.map(since_1970),
            scale: request.scale.unwrap_or(1.0),
            speed: match request.replay {
                Some(replay) if !replay.is_paced => UNPACED,
                _ => request.speed.unwrap_or(1.0),
            },
            keyframes: match request.replay.map(|it| it.frames) {
                Some(Frames::Intra(apart)) => Some(apart),
                _ => None,
            },
            once: true,
        })
    }

    fn asked(&self, request: &PlayRequest) -> Result<PlayedPart, Answer> {
        let asked = match (&request.range, self.at) {
            (None, _) => return Ok(PlayedPart::default()),
            (Some(Range::Clock { start, end }), _) => PlayedPart {
                from: UNIX_EPOCH.checked_add(*start),
                until: end.and_then(|end| UNIX_EPOCH.checked_add(end)),
            },
            (Some(Range::Npt { start, end }), Some(at)) => {
                let instant = |npt: &Option<Npt>| match npt {
                    Some(Npt::At(time)) => at.checked_add(*time),
                    Some(Npt::Now) | None => None,
                };
                PlayedPart {
                    from: Some(instant(start).unwrap_or(at)),
                    until: instant(end),
                }
            }
            (Some(_), _) => {
                return Err(refused(
                    "a session of recordings takes Range: clock=19961108T142300Z- in UTC, or npt=now- for \
                     the live stream",
                ));
            }
        };
        let is_backwards = request.scale.is_some_and(|scale| scale < 0.0);
        if asked.from.is_some_and(|from| from > calendar::now()) {
            return Err(refused(
                "the range begins in the future: nothing is recorded yet",
            ));
        }
        match (asked.from, asked.until) {
            (Some(from), Some(until)) if (until <= from) != is_backwards || until == from => {
                Err(refused(
                    "the end of the range lies before its beginning; a negative Scale plays backwards, from \
                 the beginning to an earlier end",
                ))
            }
            _ => Ok(asked),
        }
    }

    /// Pauses, and returns the range that is left.
    pub(super) fn pause(&self) -> Range {
        self.range(self.own.reading().pause(), None)
    }

    /// Returns a range of positions as the client counts.
    pub(super) fn range(&self, from: Duration, until: Option<Duration>) -> Range {
        match self.at.filter(|_| !self.is_by_calendar) {
            None => Range::Clock {
                start: from,
                end: until,
            },
            Some(at) => {
                let npt = |position: Duration| {
                    Npt::At(instant_of(position).duration_since(at).unwrap_or_default())
                };
                Range::Npt {
                    start: Some(npt(from)),
                    end: until.map(npt),
                }
            }
        }
    }
}

/// The part that a request asks for.
#[derive(Clone, Copy, Debug, Default)]
struct PlayedPart {
    from: Option<SystemTime>,
    until: Option<SystemTime>,
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn refused(why: &str) -> Answer {
    Answer::Explained {
        refusal: Refusal::InvalidRange,
        why: why.to_owned(),
    }
}
