//! The SSRC, sequence offset and timestamp offset of a track: the same for all clients of a stream.

use std::hash::{BuildHasher, RandomState};

use glassline_hub::StreamName;
use glassline_media::{MediaTime, Ssrc, TrackIndex};

/// Random keys of one run of the server. SSRCs and offsets of streams are derived from them: the
/// same on every thread without a question to another thread, and not predictable from outside (RFC
/// 3550 §5.1).
#[derive(Clone, Debug, Default)]
pub struct NumberKeys(RandomState);

impl NumberKeys {
    /// Returns the numbers of a track. Two streams of one name have equal numbers, which is
    /// harmless: no client has both in one session.
    pub fn track(&self, stream: &str, track: TrackIndex) -> Numbers {
        let hash = |what: &str| self.0.hash_one((stream, track, what));
        Numbers {
            ssrc: Ssrc(low_word(hash("ssrc"))),
            sequence: low_half(hash("sequence")),
            timestamp: low_word(hash("timestamp")),
        }
    }

    /// Returns the SSRC under which the server reports to the publisher of a stream.
    pub fn receiver(&self, stream: &StreamName) -> Ssrc {
        Ssrc(low_word(self.0.hash_one((stream.as_str(), "receiver"))))
    }

    /// Returns the canonical name (CNAME) of all tracks of a stream (RFC 3550 §6.5.1).
    pub fn cname(&self, stream: &StreamName) -> String {
        format!("{:016x}", self.0.hash_one((stream.as_str(), "cname")))
    }
}

/// The numbers that turn a track's packets into RTP headers: SSRC, sequence offset and timestamp
/// offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub ssrc: Ssrc,
    sequence: u16,
    timestamp: u32,
}

impl Numbers {
    /// Returns numbers for another stream that follows this one for one client without a gap: the
    /// packet that would have been number `next` of this stream is packet 0 of the other.
    pub const fn going_on(self, next: u64) -> Self {
        Self {
            sequence: self.sequence(next),
            ..self
        }
    }

    /// Returns the RTP sequence number of the track's packet `number`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bits are asked for"
    )]
    pub const fn sequence(&self, number: u64) -> u16 {
        (number as u16).wrapping_add(self.sequence)
    }

    /// Returns the RTP timestamp of `time` with a clock of `rate` Hz.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "timestamps wrap"
    )]
    pub fn timestamp(&self, time: MediaTime, rate: u32) -> u32 {
        (time.ticks(rate) as u32).wrapping_add(self.timestamp)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are asked for"
)]
const fn low_word(hash: u64) -> u32 {
    hash as u32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are asked for"
)]
const fn low_half(hash: u64) -> u16 {
    hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_on_every_thread_and_differ_by_track_and_run() {
        let keys = NumberKeys::default();
        assert_eq!(
            keys.track("cam", TrackIndex(0)),
            keys.clone().track("cam", TrackIndex(0))
        );
        assert_ne!(
            keys.track("cam", TrackIndex(0)),
            keys.track("cam", TrackIndex(1))
        );
        assert_ne!(
            keys.track("cam", TrackIndex(0)),
            NumberKeys::default().track("cam", TrackIndex(0))
        );
        let numbers = keys.track("cam", TrackIndex(0));
        let start = numbers.sequence(0);
        assert_eq!(numbers.sequence(65_537), start.wrapping_add(1));
        let other = numbers.going_on(70_000);
        assert_eq!(other.sequence(3), numbers.sequence(70_003));
        assert_eq!(other.ssrc, numbers.ssrc);
    }
}
