//! What a frame passed, and when: plain data for tables of stages.
//!
//! A stage is the difference of two neighbouring stamps. Some delay has no stamp,
//! because it is inside the samples: a filter gives out now what it was given a moment
//! ago. [`SignalDelay`] tells of it. Both halves joined by SSRC and timestamp,
//!
//! ```text
//! mouth to ear = heard.played − spoken.captured + spoken.signal + heard.signal
//! ```

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
pub struct Spoken {
    /// RTP timestamp at 48 kHz, wide: its low 32 bits are those on the wire, and it never
    /// wraps.
    pub timestamp: u64,
    /// What it holds.
    pub duration: Duration,
    /// Its first sample was at the microphone.
    pub captured: Instant,
    /// The device's call that completed it.
    pub delivered: Instant,
    /// It left the re-framer.
    pub framed: Instant,
    /// Echo, noise and gain are done with.
    pub preprocessed: Instant,
    /// Encoding began.
    pub encode_began: Instant,
    /// And ended.
    pub encoded: Instant,
    /// Given to whoever sends.
    pub enqueued: Option<Instant>,
    /// The pacer let it go.
    pub paced: Option<Instant>,
    /// Given to the network's thread.
    pub handed_over: Option<Instant>,
    /// Taken by the network's thread.
    pub dequeued: Option<Instant>,
    /// The socket's call returned.
    pub sent: Option<Instant>,
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
pub struct Heard {
    /// Whose.
    pub ssrc: Ssrc,
    /// RTP timestamp, wide: its low 32 bits are those on the wire. Its high bits count
    /// from the first packet that came, [`Spoken`]'s from the first that was sent.
    pub timestamp: u64,
    /// RTP sequence number; a redundant copy has none.
    pub sequence: Option<u16>,
    /// The socket had it.
    pub arrived: Instant,
    /// It was decrypted.
    pub opened: Instant,
    /// The jitter buffer had it.
    pub inserted: Instant,
    /// Its first sample left the jitter buffer.
    pub pulled: Instant,
    /// What decoding, stretching and concealing took in that pull.
    pub decode: Duration,
    /// What mixing took.
    pub mix: Duration,
    /// What resampling took.
    pub resample: Duration,
    /// The device's call that took its first sample.
    pub called: Instant,
    /// Its first sample was at the loudspeaker.
    pub played: Instant,
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
