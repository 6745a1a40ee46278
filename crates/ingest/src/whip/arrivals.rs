//! What arrived of a publisher so far, for the API.

use glassline_webrtc::Receiver;
use schemars::JsonSchema;
use serde::Serialize;

/// The media that arrived of a publisher so far, and the questions to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Arrivals {
    /// Seconds since the handshake was done.
    pub connected_s: f64,
    /// The `m=` lines on which media is received.
    pub lines: Vec<ArrivedLine>,
    /// Packets that were requested again because they were missing, each counted once a request.
    pub packets_requested: u64,
    /// Keyframes that were requested.
    pub keyframes_requested: u64,
    /// Whether the publisher makes keyframes when asked, as its last answer shows; null before the
    /// first request.
    pub keyframes_on_request: Option<bool>,
}

/// One `m=` line on which a publisher sends.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ArrivedLine {
    /// Kind of media.
    pub kind: &'static str,
    /// Codec that arrives, or is expected to.
    pub codec: &'static str,
    /// RID of the simulcast layer that is the best one now; null without simulcast.
    pub rid: Option<String>,
    /// RIDs of the other simulcast layers.
    pub other_rids: Vec<String>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Packets that arrived, without repetitions.
    pub packets: u64,
    /// Packets that were lost on the way.
    pub lost: u64,
    /// Packets of `lost` that arrived when they were requested again.
    pub repaired: u64,
    /// Interarrival jitter in ms (RFC 3550 §6.4.1).
    pub jitter_ms: f64,
}

impl ArrivedLine {
    pub(super) fn of(receiver: &Receiver) -> Self {
        let totals = receiver.totals();
        let selected = receiver.selected();
        let rid = receiver.rids().nth(selected.0).unwrap_or_default();
        let others = receiver.rids().filter(|it| *it != rid);
        Self {
            kind: receiver.kind.as_str(),
            codec: receiver.codec().encoding_name(),
            other_rids: others.map(str::to_owned).collect(),
            rid: (!rid.is_empty()).then(|| rid.to_owned()),
            bytes: totals.payload_bytes,
            packets: totals.received,
            lost: totals.lost(),
            repaired: totals.recovered,
            jitter_ms: receiver.jitter().as_secs_f64() * 1e3,
        }
    }
}
