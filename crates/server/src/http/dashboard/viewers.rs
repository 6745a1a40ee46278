//! The viewers of all protocols, those in trouble first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use glassline_service::{Services, ViewerFigures};

use super::rounding::{milliseconds, significant, thousandths};

/// Most viewers that are listed one by one: a person reads the first few, and each costs bytes every
/// second.
const LISTED_MAX: usize = 60;

/// Counts of all viewers, and the ones whose trouble is greatest. Participants of rooms, who hear each
/// other's voices, are not among them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ViewersNow {
    /// Numbers of viewers by protocol.
    count: BTreeMap<&'static str, usize>,
    /// Number of viewers in trouble, listed or not.
    troubled: usize,
    /// Number of viewers through a TURN server.
    relayed: usize,
    /// The listed viewers by protocol, stream and name.
    listed: BTreeMap<String, ViewerRow>,
}

/// A viewer with the figures that tell how well the stream reaches it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct ViewerRow {
    /// `webrtc`, `rtsp` or `moq`.
    protocol: &'static str,
    stream: String,
    /// The name of the viewer in the API: the first letters of a WebRTC session, the address of an RTSP
    /// client, or the number of a QUIC session.
    viewer: String,
    address: String,
    /// `udp`, `tcp`, `tls`, `http`, `multicast` or `quic`.
    transport: &'static str,
    /// Whether a TURN server relays the media.
    relayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    /// Part of the packets that were lost, of 1: as the viewer's latest reports say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    /// Delay of the viewer behind the stream that its path causes: the time by which the round trip
    /// is longer than at its best, or the time that its media waits here.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_ms: Option<f64>,
    /// Bytes of media that wait to be sent or acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<u64>,
    /// Number of times that the viewer skipped to a keyframe, or lost a group, because it was late.
    skips: u64,
    /// The reason why the viewer gets less than the best layer, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited: Option<String>,
    /// How bad it is for the viewer; from 1 on the viewer is in trouble.
    trouble: f64,
}

impl ViewerRow {
    /// Loss, delay and round trip at which a viewer notices, each counted as 1: a percent of loss, a
    /// fifth of a second of queue, half a second of round trip.
    fn judge(mut self) -> Self {
        let loss = self.loss.unwrap_or_default() / 0.01;
        let queue = self.queue_ms.unwrap_or_default() / 200.0;
        let round_trip = self.rtt_ms.unwrap_or_default() / 500.0;
        self.trouble = milliseconds(loss + queue + round_trip);
        self
    }

    fn is_troubled(&self) -> bool {
        self.trouble >= 1.0
    }

    fn name(&self) -> [&str; 3] {
        [self.protocol, &self.stream, &self.viewer]
    }

    fn of(protocol: &'static str, figures: ViewerFigures) -> Self {
        Self {
            protocol,
            stream: figures.stream,
            viewer: figures.viewer,
            address: figures.address,
            transport: figures.transport,
            relayed: figures.relayed,
            rtt_ms: figures.rtt_ms.map(milliseconds),
            loss: figures.loss.map(thousandths),
            queue_ms: figures.queue_ms.map(milliseconds),
            queue_bytes: figures.queue_bytes.map(significant),
            skips: figures.skips,
            limited: figures.limited,
            trouble: 0.0,
        }
        .judge()
    }
}

/// Returns the viewers at `now`.
pub(super) async fn of(services: &Services, now: Instant) -> ViewersNow {
    let mut rows = Vec::new();
    let mut count = BTreeMap::new();
    for service in services.iter() {
        let (name, viewers) = (service.name(), service.viewers(now).await);
        count.insert(name, viewers.len());
        rows.extend(viewers.into_iter().map(|it| ViewerRow::of(name, it)));
    }
    listed(count, rows)
}

/// Keeps the viewers whose trouble is greatest.
fn listed(count: BTreeMap<&'static str, usize>, mut rows: Vec<ViewerRow>) -> ViewersNow {
    let troubled = rows.iter().filter(|it| it.is_troubled()).count();
    let relayed = rows.iter().filter(|it| it.relayed).count();
    // Viewers without trouble keep their order, so that the list does not jump.
    rows.sort_unstable_by(|a, b| worst_first(a, b).then_with(|| a.name().cmp(&b.name())));
    rows.truncate(LISTED_MAX);
    ViewersNow {
        count,
        troubled,
        relayed,
        listed: rows
            .into_iter()
            .map(|row| (row.name().join(" "), row))
            .collect(),
    }
}

fn worst_first(a: &ViewerRow, b: &ViewerRow) -> Ordering {
    match a.is_troubled() || b.is_troubled() {
        true => b.trouble.total_cmp(&a.trouble),
        false => Ordering::Equal,
    }
}
