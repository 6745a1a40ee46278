//! Counters and figures as Prometheus text, format 0.0.4.
//!
//! ```text
//!  threads ─ Counter ─► Family: one metric, a row for each thread ─┐
//!  hub, latency, ingest ─ figures ─────────────────────────────────┴► text
//! ```
//!
//! This module does not know which server shows the text, nor which protocols exist: the modules
//! above hand over their counters.

mod family;
mod log;
mod supervision;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::auth::{KeyRing, Listener, LoginCounters};
use glassline_hub::{State, Status, Stream};
use glassline_rooms as rooms;

pub use family::Family;
use glassline_ingest::library;
use glassline_latency::{LatencyRegistry, ViewerPath};
pub use log::log;
pub use log::{LOG, LogCounters};
pub use supervision::supervision;

/// Upper bounds of the stage histograms' buckets, in microseconds: stages of a healthy server take
/// less than 10 ms, a viewer's jitter buffer less than 500 ms.
const BUCKETS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];

/// Reads one count of a stream for a metric.
type ReadStream = fn(&Stream) -> u64;

/// Appends the `HELP` and `TYPE` lines of a metric.
pub fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP glassline_{name} {help}\n# TYPE glassline_{name} {kind}"
    );
}

/// Returns the value of the label `stream` for a stream. All voices of rooms are one value, since
/// every participant that joins has a stream of another name.
pub(crate) fn stream_label(name: &str) -> String {
    match rooms::is_voice(name) {
        true => "call~*".to_owned(),
        false => label_value(name),
    }
}

/// Appends state, bytes and stages of every stream. Voices of rooms are counted together, and in
/// gauges only: a sum over participants that leave would fall, which no counter may.
pub fn streams(
    streams: &[Arc<Stream>],
    latencies: &LatencyRegistry,
    now: Instant,
    text: &mut String,
) {
    head(
        text,
        "stream_live",
        "gauge",
        "1 while the stream's source delivers; for `call~*` the number of voices.",
    );
    let mut live = BTreeMap::<String, usize>::new();
    for stream in streams {
        let is_live = matches!(stream.state(), State::Live { .. });
        let label = stream_label(stream.name().as_str());
        *live.entry(label).or_default() += usize::from(is_live);
    }
    for (label, live) in live {
        let _ = writeln!(text, "glassline_stream_live{{stream=\"{label}\"}} {live}");
    }
    statuses(streams, now, text);
    stand_ins(streams, text);
    let is_voice = |stream: &&Arc<Stream>| rooms::is_voice(stream.name().as_str());
    let streams: Vec<_> = streams.iter().filter(|it| !is_voice(it)).collect();
    let plain: [(&str, &str, ReadStream); 3] = [
        (
            "ingest_bytes_total",
            "RTP payload bytes published, without voices of rooms.",
            |it| it.totals().bytes,
        ),
        (
            "ingest_packets_total",
            "RTP packets published, without voices of rooms.",
            |it| it.totals().packets,
        ),
        (
            "ingest_oversized_frames_total",
            "Frames of live sources of more than 8 MiB, which are dropped.",
            |it| it.totals().oversized,
        ),
    ];
    for (name, help, value) in plain {
        head(text, name, "counter", help);
        for stream in &streams {
            let (label, value) = (stream_label(stream.name().as_str()), value(stream));
            let _ = writeln!(text, "glassline_{name}{{stream=\"{label}\"}} {value}");
        }
    }
    head(
        text,
        "stage_latency_seconds",
        "histogram",
        "Delay of each of the server's stages, without voices of rooms.",
    );
    for stream in &streams {
        let label = stream_label(stream.name().as_str());
        for (stage, delays) in latencies.server_stages(stream, now).totals() {
            let labels = format!("stage=\"{stage}\",stream=\"{label}\"");
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

/// Appends what viewers can expect of each stream. Voices of rooms are left out: people fall silent.
fn statuses(streams: &[Arc<Stream>], now: Instant, text: &mut String) {
    head(
        text,
        "stream_status",
        "gauge",
        "1 for the stream's present status, 0 for the others; without voices of rooms.",
    );
    let is_voice = |stream: &&Arc<Stream>| rooms::is_voice(stream.name().as_str());
    for stream in streams.iter().filter(|it| !is_voice(it)) {
        let label = stream_label(stream.name().as_str());
        let present = stream.status(now);
        for status in Status::ALL {
            let value = u8::from(status == present);
            let status = status.as_str();
            let _ = writeln!(
                text,
                "glassline_stream_status{{stream=\"{label}\",status=\"{status}\"}} {value}"
            );
        }
    }
}

/// Appends whether something is published in place of each stream's source.
fn stand_ins(streams: &[Arc<Stream>], text: &mut String) {
    head(
        text,
        "stream_stand_in",
        "gauge",
        "1 while a fallback or a placeholder is published in place of the stream's source.",
    );
    let is_voice = |stream: &&Arc<Stream>| rooms::is_voice(stream.name().as_str());
    for stream in streams.iter().filter(|it| !is_voice(it)) {
        let label = stream_label(stream.name().as_str());
        let value = u8::from(stream.standing_in().is_some());
        let _ = writeln!(
            text,
            "glassline_stream_stand_in{{stream=\"{label}\"}} {value}"
        );
    }
}

/// Appends the numbers of viewers whose media flows, by stream or file and by protocol.
pub fn viewers(rows: &[(String, &str, usize)], text: &mut String) {
    head(text, "viewers", "gauge", "Viewers whose media flows.");
    let mut by_label = BTreeMap::<(String, &str), usize>::new();
    for (name, protocol, viewers) in rows {
        *by_label.entry((stream_label(name), protocol)).or_default() += viewers;
    }
    for ((name, protocol), viewers) in by_label {
        let _ = writeln!(
            text,
            "glassline_viewers{{stream=\"{name}\",protocol=\"{protocol}\"}} {viewers}"
        );
    }
}

/// Appends the number of rooms of voice calls, and of the participants of all of them.
pub fn rooms(of: &rooms::Rooms, text: &mut String) {
    let (rooms, participants) = of.counts();
    head(text, "rooms", "gauge", "Rooms of voice calls in use.");
    let _ = writeln!(text, "glassline_rooms {rooms}");
    head(text, "room_participants", "gauge", "Participants of them.");
    let _ = writeln!(text, "glassline_room_participants {participants}");
}

/// Appends the numbers of viewers of each stream that are reached directly and through relays.
pub fn paths(selected: &[ViewerPath], text: &mut String) {
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for viewer in selected {
        let key = (stream_label(viewer.stream.as_str()), viewer.path.relayed);
        *counts.entry(key).or_default() += 1;
    }
    head(
        text,
        "webrtc_paths",
        "gauge",
        "WebRTC viewers by path: direct, or relayed by a TURN server.",
    );
    for ((stream, relayed), count) in counts {
        let path = if relayed { "relayed" } else { "direct" };
        let _ = writeln!(
            text,
            "glassline_webrtc_paths{{stream=\"{stream}\",path=\"{path}\"}} {count}"
        );
    }
}

/// Appends the metrics of the media folder.
pub fn files(counts: library::Counts, text: &mut String) {
    let library::Counts {
        media_files,
        opened,
        private,
        readings,
    } = counts;
    let families = [
        (
            "media_files",
            "gauge",
            "Files that are open.",
            media_files as u64,
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
            "Clients that seek in a file or change its speed.",
            private as u64,
        ),
    ];
    for (name, kind, help, value) in families {
        head(text, name, kind, help);
        let _ = writeln!(text, "glassline_{name} {value}");
    }
}

/// Appends the counts of failed logins, by listener and reason.
pub fn logins(failures: &LoginCounters, text: &mut String) {
    head(
        text,
        "login_failures_total",
        "counter",
        "Logins that failed: `wrong` ones, `limited` after too many of an address, `busy` while too many waited.",
    );
    for listener in Listener::ALL {
        let counters = failures.of(listener);
        let rows = [
            ("wrong", &counters.wrong),
            ("limited", &counters.limited),
            ("busy", &counters.busy),
        ];
        let listener = listener.as_str();
        for (reason, count) in rows {
            let count = count.get();
            let _ = writeln!(
                text,
                "glassline_login_failures_total{{listener=\"{listener}\",reason=\"{reason}\"}} {count}"
            );
        }
    }
}

/// Appends how the keys of an identity provider are read.
pub fn token_keys(keys: &KeyRing, now: Instant, text: &mut String) {
    let (count, age) = keys.age(now);
    head(
        text,
        "token_keys",
        "gauge",
        "Keys that tokens of the identity provider are verified with, by algorithm.",
    );
    let _ = writeln!(text, "glassline_token_keys {count}");
    head(
        text,
        "token_keys_age_seconds",
        "gauge",
        "Time since these keys were read.",
    );
    if let Some(age) = age {
        let age = age.as_secs_f64();
        let _ = writeln!(text, "glassline_token_keys_age_seconds {age:.1}");
    }
    head(
        text,
        "token_keys_read_total",
        "counter",
        "Readings of these keys, by result: `ok` or `failed`.",
    );
    let counters = keys.counters();
    for (result, count) in [("ok", &counters.read), ("failed", &counters.failed)] {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_token_keys_read_total{{result=\"{result}\"}} {count}"
        );
    }
}

/// Appends the number of sessions, how many of them are half-open, and how many were evicted.
pub fn sessions(sessions: usize, half_open: usize, evicted: u64, text: &mut String) {
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
        "sessions_evicted_total",
        "counter",
        "Half-open sessions that ended because others needed their place.",
    );
    let _ = writeln!(text, "glassline_sessions_evicted_total {evicted}");
}

/// Appends the process's use of memory, processor time and descriptors.
pub fn process(text: &mut String) {
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

/// Escapes a text for use as the value of a label.
pub fn label_value(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace('\n', "\\n")
}
