//! Lines that a process of good viewers prints: two JSON objects a second.

use glassline_media::Histogram;
use serde::{Deserialize, Serialize};

/// Observations of half a second, by all viewers of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Begin of the sample, in ms since 1970.
    pub from_ms: u64,
    /// End of the sample, in ms since 1970.
    pub to_ms: u64,
    /// Video frames that each viewer received in this time.
    pub frames: Vec<u64>,
    /// Packets that were sent to all viewers, by their sequence numbers.
    pub expected: u64,
    /// Packets that arrived, retransmitted ones included.
    pub received: u64,
    /// Frames that lacked packets.
    pub damaged: u64,
    /// Times between frames: upper bound of a bucket in µs, and the number of times in it.
    pub gaps: Vec<(u64, u64)>,
    /// Interruptions that ended in this time.
    pub freezes: Vec<Freeze>,
    /// Viewers without a frame for longer than [`super::FREEZE_MIN`] at the end of the sample.
    pub frozen: usize,
    /// Joins that were begun because nothing came any more.
    pub rejoins: u64,
    /// Reason of the last join that failed.
    pub failure: Option<String>,
    /// Longest time that the machine kept this process from running, in ms.
    pub starved_ms: u64,
}

/// Interruption of one viewer's video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Number of the viewer in its process.
    pub viewer: usize,
    /// Arrival of the last frame before the interruption, in ms since 1970.
    pub from_ms: u64,
    /// Arrival of the first frame after the interruption, in ms since 1970.
    pub to_ms: u64,
}

impl Sample {
    /// Adds the gaps of a histogram.
    pub(super) fn set_gaps(&mut self, gaps: &Histogram) {
        let buckets = gaps.buckets();
        self.gaps = buckets
            .map(|(limit, count)| (u64::try_from(limit.as_micros()).unwrap_or(u64::MAX), count))
            .collect();
    }
}
