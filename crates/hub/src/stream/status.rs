//! What viewers can expect of a stream, in one word.

use std::time::{Duration, Instant};

use super::{Inner, State, Stream, StreamLifetime};

/// Time without a unit after which a source that publishes counts as hanging.
pub(super) const SILENCE: Duration = Duration::from_secs(8);

/// The status of a stream as viewers see it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The source publishes, and its latest unit is younger than 8 s.
    Live,
    /// The source is connected and has sent nothing for 8 s.
    Hangs,
    /// Nobody publishes the stream now, its source has just begun or has ended, or the source comes
    /// when somebody watches.
    Waiting,
    /// The server fetches the stream from a source, and the source fails.
    Unreachable,
}

impl Status {
    /// All statuses, for metrics that have a row for each.
    pub const ALL: [Self; 4] = [Self::Live, Self::Hangs, Self::Waiting, Self::Unreachable];

    /// Returns the word in JSON, in metrics and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Hangs => "hangs",
            Self::Waiting => "waiting",
            Self::Unreachable => "unreachable",
        }
    }
}

impl Inner {
    /// Returns the status of the stream, whose source `is_silent` or is not.
    pub(super) const fn status(&self, is_silent: bool) -> Status {
        let is_configured = matches!(self.listing.lifetime, StreamLifetime::Configured);
        match &self.state {
            State::Live { .. } if is_silent => Status::Hangs,
            State::Live { .. } => Status::Live,
            State::Down { .. } if is_configured => Status::Unreachable,
            State::Connecting | State::Idle | State::Down { .. } | State::Ended { .. } => {
                Status::Waiting
            }
        }
    }
}

impl Stream {
    /// Returns the present status of the stream, for viewers.
    pub fn status(&self, now: Instant) -> Status {
        let inner = self.inner.lock();
        let silence = inner.source.as_ref().map(|it| it.silent_for(now));
        inner.status(silence.is_some_and(|silence| silence >= SILENCE))
    }

    /// Returns the time since the present source sent its latest unit, or since it began if it has
    /// sent none; `None` if there is no source. Units of what stands in for the source do not count.
    pub fn silent_for(&self, now: Instant) -> Option<Duration> {
        let inner = self.inner.lock();
        Some(inner.source.as_ref()?.silent_for(now))
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};

    use super::*;
    use crate::{Hub, StreamName};

    #[test]
    fn a_status_says_what_to_expect_of_a_source() {
        let hub = Hub::default();
        let name = |name: &str| StreamName::parse(name).expect("good");
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let camera = hub.create(name("cam")).expect("room");
        assert_eq!(camera.status(start), Status::Waiting, "it is dialed");
        let detail = || "no route to host".to_owned();
        camera.set_state(State::Down { detail: detail() });
        assert_eq!(camera.status(start), Status::Unreachable);
        let tracks = vec![Track::audio(Codec::Opus, 1)];
        let mut publisher = camera.publish(tracks, start).expect("free");
        assert_eq!(camera.status(start + second * 7), Status::Live);
        assert_eq!(camera.status(start + second * 8), Status::Hangs);
        let at = start + second * 9;
        let mut builder = UnitBuilder::default();
        builder.push(b"payload");
        let stamps = Stamps::arrived(at);
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
        publisher
            .push(unit.expect("a packet"), at)
            .expect("track 0");
        assert_eq!(camera.status(at + second), Status::Live);
        assert_eq!(camera.silent_for(at + second), Some(second));
        assert_eq!(camera.status(at + second * 8), Status::Hangs);
        publisher.finish(State::Ended { detail: detail() });
        assert_eq!(camera.status(at), Status::Waiting);
        assert_eq!(camera.silent_for(at), None);

        // A publisher that left may come back: nothing is wrong with the way to it.
        let published = hub.admit(name("obs")).expect("room");
        published.set_state(State::Down { detail: detail() });
        assert_eq!(published.status(start), Status::Waiting);
    }
}
