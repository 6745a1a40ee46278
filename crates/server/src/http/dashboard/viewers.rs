//! The viewers of all protocols, those in trouble first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Instant;

use glassline_latency::{PathView, WatchedPath};
use glassline_rooms::is_voice;
use schemars::JsonSchema;
use serde::Serialize;

use super::rounding::{milliseconds, significant, thousandths};
use crate::app::App;
use crate::http::api;
use crate::quic::SessionView;
use crate::rtsp::ClientView;

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
    /// What the API calls the viewer: the first letters of a WebRTC session, the address of an RTSP
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

    fn of_webrtc(path: WatchedPath) -> Self {
        let WatchedPath {
            stream,
            viewer,
            selected,
            congestion,
        } = path;
        let queue = congestion.as_ref().and_then(queue);
        Self {
            protocol: "webrtc",
            stream: stream.to_string(),
            viewer,
            transport: selected.remote.protocol,
            relayed: selected.relayed,
            address: selected.remote.address,
            rtt_ms: selected.rtt_ms.map(milliseconds),
            loss: selected.loss.map(thousandths),
            queue_ms: queue.map(milliseconds),
            queue_bytes: congestion.map(|it| significant(it.in_flight_bytes)),
            skips: 0,
            trouble: 0.0,
        }
        .judge()
    }

    fn of_rtsp(client: ClientView) -> Self {
        let address = client.address.to_string();
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let lag = client.lag_ms as f64;
        Self {
            protocol: "rtsp",
            stream: client.stream,
            viewer: address.clone(),
            address,
            transport: client.transport,
            relayed: false,
            rtt_ms: None,
            loss: None,
            queue_ms: Some(milliseconds(lag)),
            queue_bytes: None,
            skips: client.skips.into(),
            trouble: 0.0,
        }
        .judge()
    }

    fn of_moq(session: &SessionView) -> Self {
        let sender = &session.sender;
        Self {
            protocol: "moq",
            // A session may read any number of streams.
            stream: String::new(),
            viewer: session.id.to_string(),
            address: session.peer.clone(),
            transport: "quic",
            relayed: false,
            rtt_ms: sender.transport_rtt_ms.map(milliseconds),
            // Known only over the whole session.
            loss: None,
            queue_ms: None,
            queue_bytes: sender.backlog_bytes.map(significant),
            skips: sender.late_groups.unwrap_or_default(),
            trouble: 0.0,
        }
        .judge()
    }
}

/// Returns the delay of the queue that the path keeps now, in ms.
fn queue(path: &PathView) -> Option<f64> {
    Some((path.rtt_ms? - path.rtt_min_ms?).max(0.0))
}

/// Returns the viewers at `now`.
pub(super) async fn of(app: &App, now: Instant) -> ViewersNow {
    let watched = app.latencies.watched(now).into_iter();
    let watched = watched.filter(|it| !is_voice(it.stream.as_str()));
    let mut rows: Vec<ViewerRow> = watched.map(ViewerRow::of_webrtc).collect();
    let clients = api::rtsp::all(app).await.into_iter();
    let players = clients.filter(|it| it.state == "playing");
    rows.extend(players.map(ViewerRow::of_rtsp));
    let sessions = app.quic.iter().flat_map(|quic| quic.sessions(now));
    let readers = sessions.filter(|it| it.publishes.is_empty());
    rows.extend(readers.map(|it| ViewerRow::of_moq(&it)));
    listed(rows)
}

/// Counts the viewers, and keeps the ones whose trouble is greatest.
fn listed(mut rows: Vec<ViewerRow>) -> ViewersNow {
    let mut count = BTreeMap::from(["webrtc", "rtsp", "moq"].map(|it| (it, 0)));
    for row in &rows {
        *count.entry(row.protocol).or_default() += 1;
    }
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
