//! Stamps: the times at which a frame passed each stage of a call, as plain data for tables
//! of stages.
//!
//! A stage's duration is the difference of two neighboring stamps. Delay inside the samples
//! has no stamp, because a filter returns now what it was given a moment ago; [`SignalDelay`]
//! reports that delay. With the records of both halves, joined by SSRC and timestamp:
//!
//! ```text
//! mouth to ear = played.played − sent.captured + sent.signal + played.signal
//! ```
//!
//! Times are `Instant`s of this host. Between hosts ([`far`](crate::far)) they are
//! nanoseconds since an epoch of the host that made the stamp.

use std::time::{Duration, Instant};

use glassline_media::Ssrc;

/// Delay of signals inside a processing chain, which stamps do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalDelay {
    /// Delay of the resampler's filter.
    pub resample: Duration,
    /// Delay of overlapping blocks and band splitting in echo cancellation and noise
    /// suppression.
    pub preprocess: Duration,
    /// The encoder's look-ahead: the delay of the whole codec, its decoder included.
    pub encode: Duration,
}

impl SignalDelay {
    /// Sum of all delays.
    pub fn total(self) -> Duration {
        self.resample + self.preprocess + self.encode
    }
}

/// Stamps of a frame on its way from the microphone to the network.
///
/// The steps after [`Self::encoded`] happen outside of the engine; the code that sends the
/// packet fills them in. `None` is a step that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStamps<T = Instant> {
    /// RTP timestamp at 48 kHz as a 64-bit number that never wraps; its low 32 bits are on
    /// the wire.
    pub timestamp: u64,
    /// Length of the audio.
    pub duration: Duration,
    /// When the first sample was at the microphone.
    pub captured: T,
    /// When the device called back with the last sample.
    pub delivered: T,
    /// When the frame left the reframer.
    pub framed: T,
    /// When echo cancellation, noise suppression and gain control were done.
    pub preprocessed: T,
    /// Time at which encoding began.
    pub encode_began: T,
    /// Time at which encoding ended.
    pub encoded: T,
    /// When the packet was queued for sending.
    pub enqueued: Option<T>,
    /// When the pacer released the packet.
    pub paced: Option<T>,
    /// When the packet was handed to the network thread.
    pub handed_over: Option<T>,
    /// When the network thread took the packet.
    pub dequeued: Option<T>,
    /// When the socket's send call returned.
    pub sent: Option<T>,
    /// Delay inside the sending chain, which no stamp shows.
    pub signal: SignalDelay,
    /// Whether the encoder ran and made a packet of this audio. Otherwise the frame waited
    /// for the packet's other frames, or nobody spoke.
    pub encoded_something: bool,
}

/// Stamps of a packet's arrival, made by the code that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// When the datagram arrived at the socket.
    pub arrived: Instant,
    /// When the packet was decrypted.
    pub opened: Instant,
    /// When the packet was passed to the engine.
    pub inserted: Instant,
}

impl<T: Copy> SendStamps<T> {
    /// Converts all times to another clock by `convert`; `None` if `convert` cannot convert one
    /// of them.
    pub fn map_times<U>(self, mut convert: impl FnMut(T) -> Option<U>) -> Option<SendStamps<U>> {
        Some(SendStamps {
            timestamp: self.timestamp,
            duration: self.duration,
            captured: convert(self.captured)?,
            delivered: convert(self.delivered)?,
            framed: convert(self.framed)?,
            preprocessed: convert(self.preprocessed)?,
            encode_began: convert(self.encode_began)?,
            encoded: convert(self.encoded)?,
            enqueued: optional(self.enqueued, &mut convert)?,
            paced: optional(self.paced, &mut convert)?,
            handed_over: optional(self.handed_over, &mut convert)?,
            dequeued: optional(self.dequeued, &mut convert)?,
            sent: optional(self.sent, &mut convert)?,
            signal: self.signal,
            encoded_something: self.encoded_something,
        })
    }
}

/// Converts an optional time by `convert`; a step that was not taken has no time on any clock.
fn optional<T, U>(at: Option<T>, convert: &mut impl FnMut(T) -> Option<U>) -> Option<Option<U>> {
    match at {
        Some(at) => convert(at).map(Some),
        None => Some(None),
    }
}

impl<T: Copy> PlayoutStamps<T> {
    /// Converts all times to another clock by `convert`; `None` if `convert` cannot convert one
    /// of them.
    pub fn map_times<U>(self, mut convert: impl FnMut(T) -> Option<U>) -> Option<PlayoutStamps<U>> {
        Some(PlayoutStamps {
            ssrc: self.ssrc,
            timestamp: self.timestamp,
            sequence: self.sequence,
            arrived: convert(self.arrived)?,
            opened: convert(self.opened)?,
            inserted: convert(self.inserted)?,
            pulled: convert(self.pulled)?,
            decode: self.decode,
            mix: self.mix,
            resample: self.resample,
            called: convert(self.called)?,
            played: convert(self.played)?,
            operation: self.operation,
            signal: self.signal,
        })
    }
}

impl Received {
    /// Stamps of a packet for which one time stands for all steps, as in simulations.
    pub const fn at(now: Instant) -> Self {
        Self {
            arrived: now,
            opened: now,
            inserted: now,
        }
    }
}

/// Stamps of a packet on its way from the network to the loudspeaker, made when its first
/// sample is played. A packet that was not played has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutStamps<T = Instant> {
    /// SSRC of the voice.
    pub ssrc: Ssrc,
    /// RTP timestamp as a 64-bit number that never wraps; its low 32 bits are on the wire.
    /// Its high bits count from the first packet that arrived, [`SendStamps`]'s from the first
    /// that was sent.
    pub timestamp: u64,
    /// RTP sequence number; `None` for a redundant copy.
    pub sequence: Option<u16>,
    /// When the datagram arrived at the socket.
    pub arrived: T,
    /// When the packet was decrypted.
    pub opened: T,
    /// When the packet was inserted into the jitter buffer.
    pub inserted: T,
    /// When the packet's first sample was pulled from the jitter buffer.
    pub pulled: T,
    /// Time that decoding, stretching and concealment took in that pull.
    pub decode: Duration,
    /// Time that mixing took.
    pub mix: Duration,
    /// Time that resampling took.
    pub resample: Duration,
    /// When the device called back for the packet's first sample.
    pub called: T,
    /// When the packet's first sample was at the loudspeaker.
    pub played: T,
    /// How the packet came to be played.
    pub operation: Operation,
    /// Delay inside the receiving chain, which no stamp shows.
    pub signal: SignalDelay,
}

/// How a packet came to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The packet was decoded in order.
    Normal,
    /// The packet was decoded after its beginning had been concealed.
    Late,
    /// The packet was played from a redundant copy (RED).
    Repeated,
}

/// Record of a packet that is not counted as a frame: its number arrived before, or it is
/// never played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateRecord<T = Instant> {
    /// SSRC of the voice.
    pub ssrc: Ssrc,
    /// RTP timestamp, as on the wire.
    pub timestamp: u32,
    /// When the packet arrived.
    pub at: T,
    /// The reason why the packet is not counted as a frame.
    pub why: DuplicateReason,
}

/// The reason why a packet is not counted as a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DuplicateReason {
    /// The network duplicated the packet.
    Duplicate,
    /// The packet was retransmitted on request.
    Retransmission,
    /// A later packet carried a copy (RED, RFC 2198).
    Redundant,
    /// The packet arrived too late to be played, or was discarded because too much audio was
    /// waiting.
    Late,
}

impl DuplicateReason {
    /// Name of the reason in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Retransmission => "retransmission",
            Self::Redundant => "redundant",
            Self::Late => "late",
        }
    }
}

/// A record of one end of a call, for tables of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<T = Instant> {
    /// The end sent a frame with this SSRC.
    Sent(Ssrc, SendStamps<T>),
    /// The end played a packet.
    Played(PlayoutStamps<T>),
    /// A packet arrived once more, or too late.
    Duplicate(DuplicateRecord<T>),
    /// When the recording device called back.
    CaptureCalled(T),
    /// When the playback device called back.
    PlayoutCalled(T),
}

impl<T: Copy> Record<T> {
    /// Converts all times to another clock by `convert`; `None` if `convert` cannot convert one
    /// of them.
    pub fn map_times<U>(self, mut convert: impl FnMut(T) -> Option<U>) -> Option<Record<U>> {
        Some(match self {
            Self::Sent(ssrc, it) => Record::Sent(ssrc, it.map_times(convert)?),
            Self::Played(it) => Record::Played(it.map_times(convert)?),
            Self::Duplicate(it) => Record::Duplicate(DuplicateRecord {
                ssrc: it.ssrc,
                timestamp: it.timestamp,
                at: convert(it.at)?,
                why: it.why,
            }),
            Self::CaptureCalled(at) => Record::CaptureCalled(convert(at)?),
            Self::PlayoutCalled(at) => Record::PlayoutCalled(convert(at)?),
        })
    }

    /// The time at which clocks are compared: when the packet crossed the network, else when
    /// the event happened.
    pub fn at(&self) -> T {
        match self {
            Self::Sent(_, it) => it.sent.unwrap_or(it.encoded),
            Self::Played(it) => it.arrived,
            Self::Duplicate(it) => it.at,
            Self::CaptureCalled(at) | Self::PlayoutCalled(at) => *at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> SendStamps<u32> {
        SendStamps {
            timestamp: 77,
            duration: Duration::from_millis(20),
            captured: 1,
            delivered: 2,
            framed: 3,
            preprocessed: 4,
            encode_began: 5,
            encoded: 6,
            enqueued: Some(7),
            paced: Some(8),
            handed_over: Some(9),
            dequeued: None,
            sent: Some(11),
            signal: SignalDelay {
                resample: Duration::from_millis(1),
                preprocess: Duration::from_millis(2),
                encode: Duration::from_millis(4),
            },
            encoded_something: true,
        }
    }

    fn played() -> PlayoutStamps<u32> {
        PlayoutStamps {
            ssrc: Ssrc(5),
            timestamp: 78,
            sequence: Some(9),
            arrived: 1,
            opened: 2,
            inserted: 3,
            pulled: 4,
            decode: Duration::from_millis(1),
            mix: Duration::from_millis(2),
            resample: Duration::from_millis(3),
            called: 5,
            played: 6,
            operation: Operation::Late,
            signal: SignalDelay::default(),
        }
    }

    fn again() -> DuplicateRecord<u32> {
        DuplicateRecord {
            ssrc: Ssrc(3),
            timestamp: 4,
            at: 12,
            why: DuplicateReason::Redundant,
        }
    }

    #[test]
    fn every_time_is_converted_and_nothing_else() {
        let ten_later = |at: u32| Some(u64::from(at) + 10);
        let wanted = SendStamps {
            timestamp: 77,
            duration: Duration::from_millis(20),
            captured: 11,
            delivered: 12,
            framed: 13,
            preprocessed: 14,
            encode_began: 15,
            encoded: 16,
            enqueued: Some(17),
            paced: Some(18),
            handed_over: Some(19),
            dequeued: None,
            sent: Some(21),
            signal: sent().signal,
            encoded_something: true,
        };
        assert_eq!(sent().map_times(ten_later), Some(wanted));
        let record = Record::Sent(Ssrc(1), sent());
        assert_eq!(
            record.map_times(ten_later),
            Some(Record::Sent(Ssrc(1), wanted))
        );
        let wanted = PlayoutStamps {
            ssrc: Ssrc(5),
            timestamp: 78,
            sequence: Some(9),
            arrived: 11,
            opened: 12,
            inserted: 13,
            pulled: 14,
            decode: played().decode,
            mix: played().mix,
            resample: played().resample,
            called: 15,
            played: 16,
            operation: Operation::Late,
            signal: SignalDelay::default(),
        };
        assert_eq!(played().map_times(ten_later), Some(wanted));
        let record = Record::Played(played());
        assert_eq!(record.map_times(ten_later), Some(Record::Played(wanted)));
        let wanted = DuplicateRecord {
            ssrc: Ssrc(3),
            timestamp: 4,
            at: 22,
            why: DuplicateReason::Redundant,
        };
        let record = Record::Duplicate(again());
        assert_eq!(record.map_times(ten_later), Some(Record::Duplicate(wanted)));
        for (record, wanted) in [
            (Record::CaptureCalled(1), Record::CaptureCalled(11)),
            (Record::PlayoutCalled(2), Record::PlayoutCalled(12)),
        ] {
            assert_eq!(record.map_times(ten_later), Some(wanted));
        }
    }

    #[test]
    fn a_time_that_cannot_be_converted_takes_the_record_with_it() {
        for missing in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11] {
            let convert = |at: u32| (at != missing).then_some(at);
            assert_eq!(sent().map_times(convert), None, "{missing}");
        }
        for missing in 1..=6 {
            let convert = |at: u32| (at != missing).then_some(at);
            assert_eq!(played().map_times(convert), None, "{missing}");
        }
        assert_eq!(Record::Duplicate(again()).map_times(|_| None::<u32>), None);
        assert_eq!(Record::CaptureCalled(1).map_times(|_| None::<u32>), None);
    }

    #[test]
    fn clocks_are_compared_where_the_packet_crossed_the_network() {
        let unsent = SendStamps {
            sent: None,
            ..sent()
        };
        let records = [
            (Record::Sent(Ssrc(1), sent()), 11),
            (Record::Sent(Ssrc(1), unsent), 6),
            (Record::Played(played()), 1),
            (Record::Duplicate(again()), 12),
            (Record::CaptureCalled(31), 31),
            (Record::PlayoutCalled(32), 32),
        ];
        for (record, at) in records {
            assert_eq!(record.at(), at, "{record:?}");
        }
        assert_eq!(sent().signal.total(), Duration::from_millis(7));
    }

    #[test]
    fn reasons_have_names_and_one_time_may_stand_for_all() {
        let reasons = [
            DuplicateReason::Duplicate,
            DuplicateReason::Retransmission,
            DuplicateReason::Redundant,
            DuplicateReason::Late,
        ];
        let names = ["duplicate", "retransmission", "redundant", "late"];
        assert_eq!(reasons.map(DuplicateReason::as_str), names);
        let now = Instant::now();
        let Received {
            arrived,
            opened,
            inserted,
        } = Received::at(now);
        assert_eq!([arrived, opened, inserted], [now; 3]);
    }
}
