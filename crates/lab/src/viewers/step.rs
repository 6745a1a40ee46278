//! The figures of one step of a ramp, under the names that tools read.

use serde::{Deserialize, Serialize};

use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::timing::{Delay, Describe, Gap, Join};
use crate::viewers::trouble::Hol;

/// One step: so many viewers, watched for a while.
///
/// `_ratio` is 0–1, `_percent` 0–100 per core (`machine_` ones: of all cores
/// together), `_ms` milliseconds. What was not or could not be measured is
/// `None`, not 0: without a process to watch all of `server_`. A report of an older
/// version, which lacks what came later, can still be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Viewers asked for, misbehaving ones not counted.
    pub viewers: usize,
    /// Of them, those that had media at the end.
    pub connected: usize,
    /// Of them, those that could not join or that ended, with all earlier steps'.
    pub failed: usize,
    /// Why the first of them failed.
    pub first_failure: Option<String>,
    /// Clients beside them that stalled, vanished or sent garbage.
    pub bad_clients: usize,
    /// How long the viewers were watched.
    pub duration_s: f64,
    /// Packets that the server numbered for the viewers: spans of sequence numbers.
    pub packets_expected: u64,
    /// Of them, those received as first sent.
    pub packets_received: u64,
    /// Of them, those received only when asked for again.
    pub packets_recovered: u64,
    /// Packets that viewers asked for again.
    pub packets_nacked: u64,
    /// Bits received per second, in millions, all viewers together.
    pub received_mbps: f64,
    /// RTP time advanced ÷ wall time × (1 − loss), mean of the viewers. A server
    /// that falls behind loses nothing and is still below 1.
    pub delivered_ratio: f64,
    /// The same of the viewer that got least.
    pub slowest_viewer_ratio: f64,
    /// How fast the stream's RTP clock runs, by the first step; 1 unless it cannot be
    /// right. The two ratios above are to be divided by it.
    pub rtp_clock_ratio: f64,
    /// Packets neither received nor recovered.
    pub loss_ratio: f64,
    /// Frames that the verifying viewers took apart.
    pub frames_verified: u64,
    /// Of those viewers' frames, the ones that were incomplete or malformed.
    pub frames_damaged: u64,
    /// From the request until the first media packet, of those who joined in this
    /// step.
    pub join_ms: Join,
    /// Times between frames.
    pub gap_ms: Gap,
    /// The same viewers with clients beside them that do not read as they should.
    pub hol: Option<Hol>,
    /// Answers to DESCRIBE while the viewers were watched.
    pub describe_ms: Option<Describe>,
    /// From capture to arrival, where the sender reports tell the capture time.
    pub delay_ms: Option<Delay>,
    /// The server's own stages, where it is a Glassline that tells.
    pub stages: Option<serde_json::Value>,
    /// All threads of the process tree.
    pub server_cpu_percent: Option<f64>,
    /// Its busiest thread.
    pub server_busiest_thread_percent: Option<f64>,
    /// Per packet that arrived.
    pub server_cpu_us_per_packet: Option<f64>,
    /// Per viewer that was connected.
    pub server_cpu_ms_per_viewer_second: Option<f64>,
    /// Memory of the process tree at the end.
    pub server_rss_bytes: Option<u64>,
    /// What came to it since before the first viewer, per viewer.
    pub server_rss_bytes_per_viewer: Option<u64>,
    /// `server_cpu_ms_per_viewer_second` ÷ the floor's, for the same viewers.
    pub server_cpu_to_floor_ratio: Option<f64>,
    /// All threads of the load generator.
    pub generator_cpu_percent: f64,
    /// Its busiest thread, the one that receives.
    pub generator_busiest_thread_percent: f64,
    /// Of all cores' time.
    pub machine_cpu_percent: f64,
    /// Of the busiest core's time.
    pub machine_busiest_core_percent: f64,
    /// Of all cores' time, what the hypervisor gave to others.
    pub machine_stolen_percent: f64,
    /// Who was at its limit.
    pub bottleneck: Bottleneck,
    /// How that shows, in a sentence.
    pub reason: String,
}

impl Step {
    /// The ratio from which on a step counts as delivered.
    pub const DELIVERED_MIN: f64 = 0.99;

    /// Whether nearly everybody was there and got nearly everything.
    pub fn is_delivered(&self) -> bool {
        delivered(self.delivered_of_clock(), self.connected, self.viewers)
    }

    /// [`Self::delivered_ratio`] as if the stream's clock ran as fast as time.
    pub fn delivered_of_clock(&self) -> f64 {
        if self.rtp_clock_ratio > 0.0 {
            self.delivered_ratio / self.rtp_clock_ratio
        } else {
            self.delivered_ratio
        }
    }
}

/// The clock's ratio of a ramp whose first step delivered `first`: servers exist
/// that stamp every frame a second later than the one before. No server sends much
/// faster than time, so whatever is well above 1 is the clock.
pub(crate) fn rtp_clock_ratio(first: f64) -> f64 {
    const PLAUSIBLE_MAX: f64 = 1.2;
    if first > PLAUSIBLE_MAX { first } else { 1.0 }
}

/// Whether `connected` of `viewers` at this ratio are a server that keeps up.
pub(crate) fn delivered(ratio: f64, connected: usize, viewers: usize) -> bool {
    ratio >= Step::DELIVERED_MIN && connected as f64 >= Step::DELIVERED_MIN * viewers as f64
}

/// A step to make test cases of.
#[cfg(test)]
pub(crate) fn example(viewers: usize) -> Step {
    Step {
        viewers,
        connected: viewers,
        failed: 0,
        first_failure: None,
        bad_clients: 0,
        duration_s: 5.0,
        packets_expected: 411 * 5 * viewers as u64,
        packets_received: 411 * 5 * viewers as u64,
        packets_recovered: 0,
        packets_nacked: 0,
        received_mbps: 3.2 * viewers as f64,
        delivered_ratio: 0.9995,
        rtp_clock_ratio: 1.0,
        slowest_viewer_ratio: 0.998,
        loss_ratio: 0.0,
        frames_verified: 750,
        frames_damaged: 0,
        join_ms: Join {
            p50: Some(12.0),
            p95: Some(20.0),
            max: Some(25.0),
            all: Some(300.0),
        },
        gap_ms: Gap {
            p99: Some(41.0),
            max: Some(60.0),
        },
        hol: None,
        describe_ms: None,
        delay_ms: None,
        stages: None,
        server_cpu_percent: Some(0.1 * viewers as f64),
        server_busiest_thread_percent: Some(0.06 * viewers as f64),
        server_cpu_us_per_packet: Some(2.4),
        server_cpu_ms_per_viewer_second: Some(1.0),
        server_rss_bytes: Some(40_000_000),
        server_rss_bytes_per_viewer: Some(90_000),
        server_cpu_to_floor_ratio: None,
        generator_cpu_percent: 0.12 * viewers as f64,
        generator_busiest_thread_percent: 0.11 * viewers as f64,
        machine_cpu_percent: 0.15 * viewers as f64,
        machine_busiest_core_percent: 0.2 * viewers as f64,
        machine_stolen_percent: 0.0,
        bottleneck: Bottleneck::None,
        reason: "everything was delivered".to_owned(),
    }
}
