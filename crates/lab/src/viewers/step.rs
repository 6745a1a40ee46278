//! Figures of one step of a ramp, under the names that tools read.

use serde::{Deserialize, Serialize};

use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::timing::{Delay, Describe, Gap, Hls, Join};
use crate::viewers::trouble::Hol;

/// One step: a number of viewers, measured for some time.
///
/// `_ratio` is 0–1, `_percent` is 0–100 of one core (with `machine_`: of all cores), `_ms` is
/// milliseconds. A figure that was not or could not be measured is `None`, not 0; without a
/// process to measure, that is every figure with `server_`. Reports of older versions, without
/// newer fields, can still be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Number of viewers, without misbehaving clients.
    pub viewers: usize,
    /// Viewers that received media at the end.
    pub connected: usize,
    /// Viewers that could not join or that ended, including all earlier steps.
    pub failed: usize,
    /// Reason of the first failure.
    pub first_failure: Option<String>,
    /// Additional clients that stalled, vanished or sent garbage.
    pub bad_clients: usize,
    /// Time of the measurement, in seconds.
    pub duration_s: f64,
    /// Packets that the server numbered for the viewers: spans of sequence numbers.
    pub packets_expected: u64,
    /// Expected packets that were received as first sent.
    pub packets_received: u64,
    /// Expected packets that were received only after a NACK.
    pub packets_recovered: u64,
    /// Packets that viewers requested again by NACK.
    pub packets_nacked: u64,
    /// Bitrate received by all viewers together, in 10⁶ bit/s.
    pub received_mbps: f64,
    /// Advance of RTP time ÷ wall time × (1 − loss), mean over the viewers. A server that falls
    /// behind is below 1 even without losses.
    pub delivered_ratio: f64,
    /// Delivered ratio of the viewer that received least.
    pub slowest_viewer_ratio: f64,
    /// Speed of the stream's RTP clock, measured in the first step; 1 unless the measured speed
    /// is impossible. The two ratios above must be divided by it.
    pub rtp_clock_ratio: f64,
    /// Share of packets that were neither received nor recovered.
    pub loss_ratio: f64,
    /// Frames that the verifying viewers reassembled.
    pub frames_verified: u64,
    /// Frames of those viewers that were incomplete or malformed.
    pub frames_damaged: u64,
    /// Times from the request until the first media packet, of viewers that joined in this step.
    pub join_ms: Join,
    /// Intervals between frames of a viewer, in ms.
    pub gap_ms: Gap,
    /// Results of the same viewers together with clients that hinder others.
    pub hol: Option<Hol>,
    /// Times of answers to DESCRIBE during the measurement.
    pub describe_ms: Option<Describe>,
    /// Delays from capture to arrival, where sender reports have the capture time.
    pub delay_ms: Option<Delay>,
    /// Requests, stalls and distance from live, of viewers of HLS.
    pub hls: Option<Hls>,
    /// Stage delays of the server, if it is a Glassline with such a table.
    pub stages: Option<serde_json::Value>,
    /// Processor time of all threads of the server's process tree.
    pub server_cpu_percent: Option<f64>,
    /// Processor time of the server's busiest thread.
    pub server_busiest_thread_percent: Option<f64>,
    /// Processor time of the server per packet that arrived, in µs.
    pub server_cpu_us_per_packet: Option<f64>,
    /// Processor time of the server per connected viewer and second, in ms.
    pub server_cpu_ms_per_viewer_second: Option<f64>,
    /// Resident memory of the process tree at the end.
    pub server_rss_bytes: Option<u64>,
    /// Growth of the server's memory since before the first viewer, per viewer.
    pub server_rss_bytes_per_viewer: Option<u64>,
    /// `server_cpu_ms_per_viewer_second` divided by the floor's value for the same viewers.
    pub server_cpu_to_floor_ratio: Option<f64>,
    /// Processor time of all threads of the load generator.
    pub generator_cpu_percent: f64,
    /// Processor time of the generator's busiest thread, which receives.
    pub generator_busiest_thread_percent: f64,
    /// Busy share of all cores' time.
    pub machine_cpu_percent: f64,
    /// Busy share of the busiest core's time.
    pub machine_busiest_core_percent: f64,
    /// Share of all cores' time that the hypervisor gave to other machines.
    pub machine_stolen_percent: f64,
    /// Side that was at its limit.
    pub bottleneck: Bottleneck,
    /// Evidence for the bottleneck, in a sentence.
    pub reason: String,
}

impl Step {
    /// Least ratio of a step that counts as delivered.
    pub const DELIVERED_MIN: f64 = 0.99;

    /// Whether nearly all viewers received nearly everything.
    pub fn is_delivered(&self) -> bool {
        delivered(self.delivered_of_clock(), self.connected, self.viewers)
    }

    /// [`Self::delivered_ratio`], corrected for the speed of the stream's clock.
    pub fn delivered_of_clock(&self) -> f64 {
        if self.rtp_clock_ratio > 0.0 {
            self.delivered_ratio / self.rtp_clock_ratio
        } else {
            self.delivered_ratio
        }
    }
}

/// Clock ratio of a ramp whose first step delivered `first`. Some servers stamp every frame a
/// second later than the one before. No server sends much faster than real time, so a ratio well
/// above 1 is due to the clock.
pub(crate) fn rtp_clock_ratio(first: f64) -> f64 {
    const PLAUSIBLE_MAX: f64 = 1.2;
    if first > PLAUSIBLE_MAX { first } else { 1.0 }
}

/// Whether a server that delivers `ratio` to `connected` of `viewers` keeps up.
pub(crate) fn delivered(ratio: f64, connected: usize, viewers: usize) -> bool {
    ratio >= Step::DELIVERED_MIN && connected as f64 >= Step::DELIVERED_MIN * viewers as f64
}

/// A step for test cases.
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
        hls: None,
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
