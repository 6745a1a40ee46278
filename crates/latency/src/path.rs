//! The state of the path to one viewer, and the selected candidate pair.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_webrtc::{Path, PathEnd, PathReport};
use schemars::JsonSchema;
use serde::Serialize;

/// The path to a viewer, as its congestion control sees it through the viewer's feedback.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathView {
    /// Name of the congestion controller.
    pub pacing: &'static str,
    /// Smoothed round-trip time in ms.
    pub rtt_ms: Option<f64>,
    /// Shortest round-trip time of the last ten seconds in ms: the path without a queue.
    pub rtt_min_ms: Option<f64>,
    /// Highest rate at which packets leave, in bits a second.
    pub pacing_bps: Option<u64>,
    /// Estimate of the rate that the path can carry, in bits a second; a lower bound if
    /// `app_limited`.
    pub deliverable_bps: Option<u64>,
    /// Whether the stream sends too little to measure more.
    pub app_limited: bool,
    /// Bytes sent and not yet acknowledged or lost.
    pub in_flight_bytes: u64,
    /// Bytes sent so far, retransmissions included.
    pub sent_bytes: u64,
    /// Bytes of `sent_bytes` that were reported missing.
    pub lost_bytes: u64,
    /// Layer of the video that the viewer gets; `null` where the stream has a single one.
    pub layer: Option<LayerView>,
}

/// The layer of a video that a viewer gets by what its path carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LayerView {
    /// Identifier of the layer as its publisher names it.
    pub rid: Option<String>,
    /// Number of temporal layers that the viewer gets; `null` for all.
    pub temporal_layers: Option<u8>,
    /// Rate that the path carries, measured on packets that arrived behind each other, in bits a
    /// second.
    pub estimate_bps: Option<u64>,
    /// The reason why the viewer gets this layer.
    pub reason: String,
    /// Seconds since this layer was chosen.
    pub seconds: u64,
    /// Identification tag of the video's `m=` line.
    #[serde(skip)]
    pub mid: String,
}

impl PathView {
    /// Converts the report to the form of the API.
    pub fn of(report: &PathReport) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            pacing: report.algorithm.as_str(),
            rtt_ms: report.round_trip.map(ms),
            rtt_min_ms: report.least_round_trip.map(ms),
            pacing_bps: report.pacing.map(Bitrate::bps),
            deliverable_bps: report.deliverable.map(Bitrate::bps),
            app_limited: report.app_limited,
            in_flight_bytes: report.in_flight,
            sent_bytes: report.sent_bytes,
            lost_bytes: report.lost_bytes,
            layer: None,
        }
    }
}

/// The candidate pair that ICE selected. It contains a viewer's address and is for operators only.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SelectedPath {
    /// Candidate of the server: its type, protocol and address.
    pub local: SelectedEnd,
    /// Candidate of the viewer: its type, protocol and address.
    pub remote: SelectedEnd,
    /// Whether a TURN server relays the datagrams; `remote.address` is then an address of that
    /// server.
    pub relayed: bool,
    /// Latest round-trip time in ms, from the server's sender reports and the viewer's answers (RFC
    /// 3550 §6.4.1).
    pub rtt_ms: Option<f64>,
    /// Part of the packets, of 1, that was lost between the viewer's latest two reports: the largest
    /// of its streams (RFC 3550 §6.4.1).
    pub loss: Option<f64>,
    /// Size of the repairs that leave ahead of losses (FEC), in percent of the video; null where the
    /// viewer needs none.
    pub fec_percent: Option<u32>,
}

/// One end of the selected path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SelectedEnd {
    /// Candidate type: `host`, `srflx`, `prflx` or `relay`. A viewer's type is the one that it
    /// signaled, or `prflx` for an address that it did not signal.
    pub r#type: String,
    /// Transport protocol between the server and this address: `udp` or `tcp`.
    pub protocol: &'static str,
    /// IP address and port.
    pub address: String,
}

impl SelectedPath {
    /// Converts the path to the form of the API. `lost` is the part of the packets that was lost, in
    /// 256ths.
    pub fn of(path: &Path, rtt: Option<Duration>, lost: Option<u8>) -> Self {
        let end = |end: &PathEnd| SelectedEnd {
            r#type: end.kind.as_str().to_owned(),
            protocol: path.transport.as_str(),
            address: end.address.to_string(),
        };
        let rtt = rtt.or(path.round_trip);
        Self {
            local: end(&path.local),
            remote: end(&path.remote),
            relayed: path.is_relayed(),
            rtt_ms: rtt.map(|time| time.as_secs_f64() * 1e3),
            loss: lost.map(|part| f64::from(part) / 256.0),
            fec_percent: None,
        }
    }
}
