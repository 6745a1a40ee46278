use std::time::Duration;

use glassline_media::Ssrc;

use crate::jitter;

/// State of one stream of a [`Listener`](super::Listener).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamReport {
    /// SSRC of the stream.
    pub ssrc: Ssrc,
    /// Counts and delays of its jitter buffer.
    pub jitter: jitter::Report,
    /// Level in −dBov, 0 (loudest) to 127 (silence); falls slowly.
    pub level_dbov: u8,
    /// Whether the stream is among the loudest, which are mixed.
    pub is_mixed: bool,
}

/// State of a [`Listener`](super::Listener).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// State of each stream, in the order in which they began.
    pub streams: Vec<StreamReport>,
    /// Level of the mix in −dBov, 0 (loudest) to 127 (silence); falls slowly.
    pub level_dbov: u8,
    /// Audio that was pulled from the jitter buffers and is not yet played.
    pub waiting: Duration,
    /// Packets that were refused because there was no room for their stream, which is
    /// therefore not heard.
    pub refused: u64,
    /// Records that were dropped because nobody polled them in time.
    pub stamps_dropped: u64,
}
