//! What a frame passed, and when: plain data for tables of stages.
//!
//! A stage is the difference of two neighbouring stamps. Some delay has no stamp,
//! because it is inside the samples: a filter gives out now what it was given a moment
//! ago. [`SignalDelay`] tells of it. Both halves joined by SSRC and timestamp,
//!
//! ```text
//! mouth to ear = heard.played − spoken.captured + spoken.signal + heard.signal
//! ```
//!
//! Times are `Instant`s of this host; between hosts ([`far`](crate::far)) they
//! are nanoseconds since an epoch of the one that stamped.

use std::time::{Duration, Instant};

use glassline_media::Ssrc;

/// By how much signals come out of a chain later than stamps say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalDelay {
    /// The resampler's filter.
    pub resample: Duration,
    /// Overlapping blocks and band splitting of echo and noise suppression.
    pub preprocess: Duration,
    /// The encoder's look-ahead: all that the codec delays, its decoder included.
    pub encode: Duration,
}

impl SignalDelay {
    /// All of it.
    pub fn total(self) -> Duration {
        self.resample + self.preprocess + self.encode
    }
}

/// A frame's way from the microphone into the network.
///
/// What is after [`Self::encoded`] happens outside of the engine; who sends the packet
/// fills it in. `None` is a step that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken<T = Instant> {
    /// RTP timestamp at 48 kHz, wide: its low 32 bits are those on the wire, and it never
    /// wraps.
    pub timestamp: u64,
    /// What it holds.
    pub duration: Duration,
    /// Its first sample was at the microphone.
    pub captured: T,
    /// The device's call that completed it.
    pub delivered: T,
    /// It left the re-framer.
    pub framed: T,
    /// Echo, noise and gain are done with.
    pub preprocessed: T,
    /// Encoding began.
    pub encode_began: T,
    /// And ended.
    pub encoded: T,
    /// Given to whoever sends.
    pub enqueued: Option<T>,
    /// The pacer let it go.
    pub paced: Option<T>,
    /// Given to the network's thread.
    pub handed_over: Option<T>,
    /// Taken by the network's thread.
    pub dequeued: Option<T>,
    /// The socket's call returned.
    pub sent: Option<T>,
    /// What no stamp shows.
    pub signal: SignalDelay,
    /// Whether the encoder ran and made a packet of it. Otherwise it waited for the
    /// packet's other frames, or nobody spoke.
    pub encoded_something: bool,
}

/// A packet's arrival, as whoever received it saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The socket had it.
    pub arrived: Instant,
    /// It was decrypted.
    pub opened: Instant,
    /// The engine was given it.
    pub inserted: Instant,
}

impl<T: Copy> Spoken<T> {
    /// The same by another clock; `None` if `place` has none for one of its times.
    pub fn placed<U>(self, mut place: impl FnMut(T) -> Option<U>) -> Option<Spoken<U>> {
        Some(Spoken {
            timestamp: self.timestamp,
            duration: self.duration,
            captured: place(self.captured)?,
            delivered: place(self.delivered)?,
            framed: place(self.framed)?,
            preprocessed: place(self.preprocessed)?,
            encode_began: place(self.encode_began)?,
            encoded: place(self.encoded)?,
            enqueued: optional(self.enqueued, &mut place)?,
            paced: optional(self.paced, &mut place)?,
            handed_over: optional(self.handed_over, &mut place)?,
            dequeued: optional(self.dequeued, &mut place)?,
            sent: optional(self.sent, &mut place)?,
            signal: self.signal,
            encoded_something: self.encoded_something,
        })
    }
}

/// A step that was not taken has no time by any clock.
fn optional<T, U>(at: Option<T>, place: &mut impl FnMut(T) -> Option<U>) -> Option<Option<U>> {
    match at {
        Some(at) => place(at).map(Some),
        None => Some(None),
    }
}

impl<T: Copy> Heard<T> {
    /// The same by another clock; `None` if `place` has none for one of its times.
    pub fn placed<U>(self, mut place: impl FnMut(T) -> Option<U>) -> Option<Heard<U>> {
        Some(Heard {
            ssrc: self.ssrc,
            timestamp: self.timestamp,
            sequence: self.sequence,
            arrived: place(self.arrived)?,
            opened: place(self.opened)?,
            inserted: place(self.inserted)?,
            pulled: place(self.pulled)?,
            decode: self.decode,
            mix: self.mix,
            resample: self.resample,
            called: place(self.called)?,
            played: place(self.played)?,
            operation: self.operation,
            signal: self.signal,
        })
    }
}

impl Received {
    /// All at once, where nobody looks closer.
    pub const fn at(now: Instant) -> Self {
        Self {
            arrived: now,
            opened: now,
            inserted: now,
        }
    }
}

/// A packet's way from the network to the loudspeaker; made when its first sample
/// left. A packet that was not played has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<T = Instant> {
    /// Whose.
    pub ssrc: Ssrc,
    /// RTP timestamp, wide: its low 32 bits are those on the wire. Its high bits count
    /// from the first packet that came, [`Spoken`]'s from the first that was sent.
    pub timestamp: u64,
    /// RTP sequence number; a redundant copy has none.
    pub sequence: Option<u16>,
    /// The socket had it.
    pub arrived: T,
    /// It was decrypted.
    pub opened: T,
    /// The jitter buffer had it.
    pub inserted: T,
    /// Its first sample left the jitter buffer.
    pub pulled: T,
    /// What decoding, stretching and concealing took in that pull.
    pub decode: Duration,
    /// What mixing took.
    pub mix: Duration,
    /// What resampling took.
    pub resample: Duration,
    /// The device's call that took its first sample.
    pub called: T,
    /// Its first sample was at the loudspeaker.
    pub played: T,
    /// What was done to play it.
    pub operation: Operation,
    /// What no stamp shows.
    pub signal: SignalDelay,
}

/// How a packet came to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Decoded, in its turn.
    Normal,
    /// Decoded after what had been made up in its place for a while.
    Late,
    /// Played from a redundant copy (RED).
    Repeated,
}

/// A packet whose number was here before, or which nobody will hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameAgain<T = Instant> {
    /// Whose.
    pub ssrc: Ssrc,
    /// RTP timestamp, as on the wire.
    pub timestamp: u32,
    /// When it came.
    pub at: T,
    /// Why it is not counted as a frame.
    pub why: Again,
}

/// Why a packet's number came once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// The network made two of it.
    Duplicate,
    /// It was sent again on request.
    Retransmission,
    /// A later packet carried it along (RED, RFC 2198).
    Redundant,
    /// It came too late to be played, or too much was waiting with it.
    Late,
}

impl Again {
    /// What tables call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Retransmission => "retransmission",
            Self::Redundant => "redundant",
            Self::Late => "late",
        }
    }
}

/// All that an end of a call has to tell of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<T = Instant> {
    /// It said a frame under this number.
    Spoken(Ssrc, Spoken<T>),
    /// It heard a packet.
    Heard(Heard<T>),
    /// A packet was here before, or came too late.
    CameAgain(CameAgain<T>),
    /// Its recording device called.
    CaptureCalled(T),
    /// Its playing device called.
    PlayoutCalled(T),
}

impl<T: Copy> Record<T> {
    /// The same by another clock; `None` if `place` has none for one of its times.
    pub fn placed<U>(self, mut place: impl FnMut(T) -> Option<U>) -> Option<Record<U>> {
        Some(match self {
            Self::Spoken(ssrc, it) => Record::Spoken(ssrc, it.placed(place)?),
            Self::Heard(it) => Record::Heard(it.placed(place)?),
            Self::CameAgain(it) => Record::CameAgain(CameAgain {
                ssrc: it.ssrc,
                timestamp: it.timestamp,
                at: place(it.at)?,
                why: it.why,
            }),
            Self::CaptureCalled(at) => Record::CaptureCalled(place(at)?),
            Self::PlayoutCalled(at) => Record::PlayoutCalled(place(at)?),
        })
    }

    /// When what crossed the network did, or else when it was: what clocks are compared
    /// at.
    pub fn at(&self) -> T {
        match self {
            Self::Spoken(_, it) => it.sent.unwrap_or(it.encoded),
            Self::Heard(it) => it.arrived,
            Self::CameAgain(it) => it.at,
            Self::CaptureCalled(at) | Self::PlayoutCalled(at) => *at,
        }
    }
}
