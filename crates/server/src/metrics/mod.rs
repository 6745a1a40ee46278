//! `GET /metrics`: Prometheus text format 0.0.4.

pub(crate) mod family;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use glassline_hub::State as StreamState;

use crate::http::App;
use crate::http::api::{quic, rtsp, webrtc};
use crate::ingest::library;
use crate::sessions::Counters;
use family::{Family, head};

/// Upper bounds of the stage histograms, in microseconds: a healthy server's
/// stages lie below 10 ms, a viewer's jitter buffer below 500 ms.
const BUCKETS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];

pub(crate) async fn prometheus(State(app): State<App>) -> Response {
    let mut text = String::with_capacity(8 << 10);
    let rtsp_viewers = rtsp::viewers(&app).await;
    streams(&app, &mut text);
    viewers(&app, rtsp_viewers, &mut text);
    rooms(&app, &mut text);
    shards(&app, &mut text);
    rtsp::metrics(&app, &mut text);
    quic::metrics(&app, &mut text);
    webrtc::metrics(&app, &mut text);
    if let Some(library) = &app.library {
        files(library.counts(), &mut text);
    }
    process(&app, &mut text);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

fn files(counts: library::Counts, text: &mut String) {
    let library::Counts {
        titles,
        opened,
        private,
        readings,
    } = counts;
    let families = [
        (
            "media_files",
            "gauge",
            "Files that are open.",
            titles as u64,
        ),
        (
            "media_files_opened_total",
            "counter",
            "Files opened and read through.",
            opened,
        ),
        (
            "media_readings",
            "gauge",
            "Files being played, shared or not.",
            readings as u64,
        ),
        (
            "media_clients",
            "gauge",
            "Clients that play a file of their own.",
            private as u64,
        ),
    ];
    for (name, kind, help, value) in families {
        head(text, name, kind, help);
        let _ = writeln!(text, "glassline_{name} {value}");
    }
}

fn streams(app: &App, text: &mut String) {
    let now = Instant::now();
    let streams = app.hub.streams();
    head(
        text,
        "stream_live",
        "gauge",
        "1 while the stream's source delivers.",
    );
    for stream in &streams {
        let live = u8::from(matches!(stream.state(), StreamState::Live { .. }));
        let _ = writeln!(
            text,
            "glassline_stream_live{{stream=\"{}\"}} {live}",
            stream.name()
        );
    }
    head(
        text,
        "ingest_bytes_total",
        "counter",
        "RTP payload bytes published.",
    );
    for stream in &streams {
        let _ = writeln!(
            text,
            "glassline_ingest_bytes_total{{stream=\"{}\"}} {}",
            stream.name(),
            stream.totals().bytes
        );
    }
    head(
        text,
        "ingest_packets_total",
        "counter",
        "RTP packets published.",
    );
    for stream in &streams {
        let _ = writeln!(
            text,
            "glassline_ingest_packets_total{{stream=\"{}\"}} {}",
            stream.name(),
            stream.totals().packets
        );
    }
    head(
        text,
        "stage_latency_seconds",
        "histogram",
        "Delay of each of the server's stages.",
    );
    for stream in &streams {
        for (stage, delays) in app.board.server_stages(stream, now).totals() {
            let labels = format!("stage=\"{stage}\",stream=\"{}\"", stream.name());
            for bound in BUCKETS_US {
                let count = delays.count_at_most(Duration::from_micros(bound));
                let le = Duration::from_micros(bound).as_secs_f64();
                let _ = writeln!(
                    text,
                    "glassline_stage_latency_seconds_bucket{{{labels},le=\"{le}\"}} {count}"
                );
            }
            let summary = delays.summary();
            let _ = writeln!(
                text,
                "glassline_stage_latency_seconds_bucket{{{labels},le=\"+Inf\"}} {}",
                summary.count
            );
            let _ = writeln!(
                text,
                "glassline_stage_latency_seconds_sum{{{labels}}} {}",
                summary.sum.as_secs_f64()
            );
            let _ = writeln!(
                text,
                "glassline_stage_latency_seconds_count{{{labels}}} {}",
                summary.count
            );
        }
    }
}

fn rooms(app: &App, text: &mut String) {
    let (rooms, participants) = app.rooms.counts();
    head(text, "rooms", "gauge", "Rooms of voice calls in use.");
    let _ = writeln!(text, "glassline_rooms {rooms}");
    head(text, "room_participants", "gauge", "Participants of them.");
    let _ = writeln!(text, "glassline_room_participants {participants}");
}

fn viewers(app: &App, mut by_rtsp: BTreeMap<String, rtsp::Viewers>, text: &mut String) {
    head(text, "viewers", "gauge", "Viewers whose media flows.");
    let mut row = |name: &str, protocol, viewers: usize| {
        let _ = writeln!(
            text,
            "glassline_viewers{{stream=\"{name}\",protocol=\"{protocol}\"}} {viewers}"
        );
    };
    for stream in app.hub.streams() {
        let name = stream.name().as_str();
        let rtsp = by_rtsp.remove(name).unwrap_or_default();
        // Counted one after the other: somebody may have left in between.
        row(name, "whep", stream.viewers().saturating_sub(rtsp.shared));
        row(name, "rtsp", rtsp.shared + rtsp.private);
    }
    // Files that no stream of the hub's stands for.
    for (name, rtsp) in by_rtsp {
        row(&label_value(&name), "rtsp", rtsp.shared + rtsp.private);
    }
}

/// A text of any letters as the value of a label.
fn label_value(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace('\n', "\\n")
}

/// Counts of the shards.
const FAMILIES: &[Family<Counters>] = &[
    Family::plain(
        "egress_packets_total",
        "Media packets handed to the kernel.",
        |c| &c.send.packets,
    ),
    Family::plain("egress_bytes_total", "Their bytes, sealed.", |c| {
        &c.send.bytes
    }),
    Family::plain("egress_sends_total", "System calls that sent them.", |c| {
        &c.send.sends
    }),
    Family::plain("retransmissions_total", "Packets sent again.", |c| {
        &c.send.retransmissions
    }),
    Family::plain(
        "unrepairable_total",
        "Packets asked for again too late.",
        |c| &c.send.unrepairable,
    ),
    Family::plain(
        "keyframe_requests_total",
        "Keyframes asked for by viewers.",
        |c| &c.keyframe_requests,
    ),
    Family::plain(
        "received_datagrams_total",
        "Datagrams received from viewers.",
        |c| &c.received,
    ),
    Family::plain(
        "voice_packets_total",
        "Packets that participants of rooms said.",
        |c| &c.voice.packets,
    ),
    Family::plain(
        "voice_recovered_total",
        "Packets lost on their way here that a later one brought along (RED).",
        |c| &c.voice.recovered,
    ),
    Family::plain(
        "voice_refused_total",
        "Packets of participants not passed on: too long, no RED, or more than a voice has.",
        |c| &c.voice.refused,
    ),
    Family::plain("joins_total", "Viewers whose media began.", |c| &c.joined),
    Family::plain(
        "viewer_moves_total",
        "Viewers handed over to another shard, because their address changed.",
        |c| &c.moves,
    ),
    Family::plain(
        "handshakes_failed_total",
        "Sessions that ended before their media began.",
        |c| &c.handshakes_failed,
    ),
    Family::plain(
        "send_abandoned_datagrams_total",
        "Datagrams given up because the kernel will never take them.",
        |c| &c.send.abandoned,
    ),
    Family::plain(
        "commands_refused_total",
        "Requests that found a shard's inbox full.",
        |c| &c.inbox_full,
    ),
    Family::by_reason(
        "queue_dropped_frames_total",
        "Frames dropped on the way to a viewer.",
        &[
            ("viewer_slow", |c| &c.send.dropped_slow),
            ("socket_full", |c| &c.send.dropped_backlog),
        ],
    ),
    Family::by_reason(
        "send_errors_total",
        "Times that the kernel did not take what was to be sent.",
        &[
            ("socket_full", |c| &c.send.socket_full),
            ("interface_full", |c| &c.send.interface_full),
            ("peer_refused", |c| &c.send.peer_refused),
            ("too_large", |c| &c.send.too_large),
            ("unreachable", |c| &c.send.unreachable),
            ("other", |c| &c.send.unsendable),
        ],
    ),
    Family::by_reason(
        "dropped_datagrams_total",
        "Datagrams received and not used.",
        &[("stray", |c| &c.stray), ("refused", |c| &c.refused)],
    ),
    Family::plain(
        "data_messages_sent_total",
        "Messages handed to data channels.",
        |c| &c.data.messages_sent,
    ),
    Family::plain("data_bytes_sent_total", "Their bytes.", |c| {
        &c.data.message_bytes_sent
    }),
    Family::plain(
        "data_messages_received_total",
        "Messages that came by data channels.",
        |c| &c.data.messages_received,
    ),
    Family::plain("data_bytes_received_total", "Their bytes.", |c| {
        &c.data.message_bytes_received
    }),
    Family::by_reason(
        "data_messages_dropped_total",
        "Messages that went no further.",
        &[
            ("peer_slow", |c| &c.data.messages_dropped_slow),
            ("expired", |c| &c.data.messages_dropped_expired),
            ("too_large", |c| &c.data.messages_dropped_too_large),
            ("no_channel", |c| &c.data.messages_dropped_no_channel),
            ("not_allowed", |c| &c.data.messages_dropped_not_allowed),
            ("too_fast", |c| &c.data.messages_dropped_too_fast),
        ],
    ),
    Family::plain(
        "data_channels_closed_slow_total",
        "Reliable data channels closed because their peer took too little.",
        |c| &c.data.channels_closed_slow,
    ),
    Family::plain(
        "data_channel_faults_total",
        "Things that peers did on data channels that have no place.",
        |c| &c.data.channel_faults,
    ),
];

fn shards(app: &App, text: &mut String) {
    let shards = app.sessions.shared().shards().iter().enumerate();
    let counting: Vec<(String, &Counters)> = shards
        .map(|(index, shard)| (index.to_string(), shard.counters()))
        .collect();
    for family in FAMILIES {
        family.write("shard", &counting, text);
    }
}

fn process(app: &App, text: &mut String) {
    let (sessions, half_open) = app.sessions.shared().registry.counts();
    head(
        text,
        "sessions",
        "gauge",
        "Sessions, half-open ones included.",
    );
    let _ = writeln!(text, "glassline_sessions {sessions}");
    head(
        text,
        "sessions_half_open",
        "gauge",
        "Sessions whose handshake is not done.",
    );
    let _ = writeln!(text, "glassline_sessions_half_open {half_open}");
    head(
        text,
        "cpu_seconds_total",
        "counter",
        "Processor time of the server.",
    );
    let _ = writeln!(
        text,
        "glassline_cpu_seconds_total {}",
        glassline_net::process_cpu().as_secs_f64()
    );
    if let Some(bytes) = glassline_net::rss_bytes() {
        head(text, "resident_memory_bytes", "gauge", "Memory in use.");
        let _ = writeln!(text, "glassline_resident_memory_bytes {bytes}");
    }
    if let Some(fds) = glassline_net::open_fds() {
        head(text, "open_fds", "gauge", "Open file descriptors.");
        let _ = writeln!(text, "glassline_open_fds {fds}");
    }
}
