//! How the way to one viewer stands, and which it is.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_webrtc::{Path, PathEnd, PathReport};
use serde::Serialize;

/// The way to a viewer, as its congestion control sees it by the viewer's feedback.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathView {
    /// The controller.
    pub pacing: &'static str,
    /// Smoothed.
    pub rtt_ms: Option<f64>,
    /// The least of the last ten seconds: the path without a queue.
    pub rtt_min_ms: Option<f64>,
    /// How fast packets leave at the most.
    pub pacing_bps: Option<u64>,
    /// What the path is believed to carry; a lower bound if `app_limited`.
    pub deliverable_bps: Option<u64>,
    /// The stream is not enough to know more.
    pub app_limited: bool,
    /// On their way.
    pub in_flight_bytes: u64,
    /// Sent so far, repairs counted.
    pub sent_bytes: u64,
    /// Of those, reported missing.
    pub lost_bytes: u64,
}

impl PathView {
    /// As the API shows it.
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
        }
    }
}

/// The pair of candidates that ICE chose. It has a viewer's address: for operators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectedPath {
    /// Ours.
    pub local: SelectedEnd,
    /// The viewer's.
    pub remote: SelectedEnd,
    /// Through a TURN server: then `remote.address` is on it.
    pub relayed: bool,
    /// From our sender reports and the viewer's answers (RFC 3550 §6.4.1), the latest.
    pub rtt_ms: Option<f64>,
}

/// One end of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectedEnd {
    /// `host`, `srflx`, `prflx` or `relay`; a viewer's as its own words have it, `prflx`
    /// where it said nothing of the address.
    pub r#type: String,
    /// Between the server and there.
    pub protocol: &'static str,
    /// Address and port.
    pub address: String,
}

impl SelectedPath {
    /// As the API shows it.
    pub fn of(path: &Path, rtt: Option<Duration>) -> Self {
        let end = |end: &PathEnd| SelectedEnd {
            r#type: end.kind.as_str().to_owned(),
            protocol: "udp",
            address: end.address.to_string(),
        };
        let rtt = rtt.or(path.round_trip);
        Self {
            local: end(&path.local),
            remote: end(&path.remote),
            relayed: path.is_relayed(),
            rtt_ms: rtt.map(|time| time.as_secs_f64() * 1e3),
        }
    }
}
