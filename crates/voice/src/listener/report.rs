use std::time::Duration;

use glassline_media::Ssrc;

use crate::jitter;

/// How a stream stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamReport {
    /// Whose.
    pub ssrc: Ssrc,
    /// Its jitter buffer.
    pub jitter: jitter::Report,
    /// How loud it is, −dBov, falling slowly.
    pub level_dbov: u8,
    /// Whether it is among those that are heard.
    pub is_mixed: bool,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each stream, in the order in which they began.
    pub streams: Vec<StreamReport>,
    /// How loud the mix is, −dBov, falling slowly.
    pub level_dbov: u8,
    /// What was pulled and not played.
    pub waiting: Duration,
    /// Packets of streams that there was no room for: somebody is not heard.
    pub refused: u64,
    /// Records that nobody polled in time.
    pub heard_dropped: u64,
}
