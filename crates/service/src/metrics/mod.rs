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
mod metric;
mod supervision;

use std::collections::BTreeMap;
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
pub use metric::Metric;
pub use supervision::supervision;

/// Upper bounds of the stage histograms' buckets, in microseconds: stages of a healthy server take
/// less than 10 ms, a viewer's jitter buffer less than 500 ms.
const BUCKETS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];

/// Returns the value of the label `stream` for a stream. All voices of rooms are one value, since
/// every participant that joins has a stream of another name.
fn stream_label(name: &str) -> String {
    match rooms::is_voice(name) {
        true => "call~*".to_owned(),
        false => name.to_owned(),
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
    let mut live = BTreeMap::<String, usize>::new();
    for stream in streams {
        let is_live = matches!(stream.state(), State::Live { .. });
        let label = stream_label(stream.name().as_str());
        *live.entry(label).or_default() += usize::from(is_live);
    }
    let mut metric = Metric::gauge(
        text,
        "stream_live",
        "1 while the stream's source delivers; for `call~*` the number of voices.",
    );
    for (label, live) in live {
        metric.of([("stream", &label)], live);
    }
    // The others leave voices out: people fall silent.
    let is_voice = |stream: &&Arc<Stream>| rooms::is_voice(stream.name().as_str());
    let streams: Vec<_> = streams.iter().filter(|it| !is_voice(it)).collect();
    let mut metric = Metric::gauge(
        text,
        "stream_status",
        "1 for the stream's present status, 0 for the others; without voices of rooms.",
    );
    for stream in &streams {
        let present = stream.status(now);
        for status in Status::ALL {
            let labels = [
                ("stream", stream.name().as_str()),
                ("status", status.as_str()),
            ];
            metric.of(labels, u8::from(status == present));
        }
    }
    let by_stream = |metric: &mut Metric<'_>, read: fn(&Stream) -> u64| {
        for stream in &streams {
            metric.of([("stream", stream.name().as_str())], read(stream));
        }
    };
    by_stream(
        &mut Metric::gauge(
            text,
            "stream_stand_in",
            "1 while a fallback or a placeholder is published in place of the stream's source.",
        ),
        |it| u64::from(it.standing_in().is_some()),
    );
    by_stream(
        &mut Metric::counter(
            text,
            "ingest_bytes_total",
            "RTP payload bytes published, without voices of rooms.",
        ),
        |it| it.totals().bytes,
    );
    by_stream(
        &mut Metric::counter(
            text,
            "ingest_packets_total",
            "RTP packets published, without voices of rooms.",
        ),
        |it| it.totals().packets,
    );
    by_stream(
        &mut Metric::counter(
            text,
            "ingest_oversized_frames_total",
            "Frames of live sources of more than 8 MiB, which are dropped.",
        ),
        |it| it.totals().oversized,
    );
    let mut metric = Metric::histogram(
        text,
        "stage_latency_seconds",
        "Delay of each of the server's stages, without voices of rooms.",
    );
    for stream in streams {
        for (stage, delays) in latencies.server_stages(stream, now).totals() {
            let stage = stage.to_string();
            let labels = [
                ("stage", stage.as_str()),
                ("stream", stream.name().as_str()),
            ];
            let bounds = BUCKETS_US.map(Duration::from_micros).into_iter();
            let buckets = bounds.map(|it| (it.as_secs_f64(), delays.count_at_most(it)));
            let summary = delays.summary();
            metric.buckets(&labels, buckets, summary.count, summary.sum.as_secs_f64());
        }
    }
}

/// Appends the numbers of viewers whose media flows, by stream or file and by protocol.
pub fn viewers(rows: &[(String, &str, usize)], text: &mut String) {
    let mut by_label = BTreeMap::<(String, &str), usize>::new();
    for (name, protocol, viewers) in rows {
        *by_label.entry((stream_label(name), protocol)).or_default() += viewers;
    }
    let mut metric = Metric::gauge(text, "viewers", "Viewers whose media flows.");
    for ((stream, protocol), viewers) in by_label {
        metric.of(
            [("stream", stream.as_str()), ("protocol", protocol)],
            viewers,
        );
    }
}

/// Appends the number of rooms of voice calls, and of the participants of all of them.
pub fn rooms(of: &rooms::Rooms, text: &mut String) {
    let (rooms, participants) = of.counts();
    Metric::gauge(text, "rooms", "Rooms of voice calls in use.").value(rooms);
    Metric::gauge(text, "room_participants", "Participants of them.").value(participants);
}

/// Appends the numbers of viewers of each stream that are reached directly and through relays.
pub fn paths(selected: &[ViewerPath], text: &mut String) {
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for viewer in selected {
        let key = (stream_label(viewer.stream.as_str()), viewer.path.relayed);
        *counts.entry(key).or_default() += 1;
    }
    let mut metric = Metric::gauge(
        text,
        "webrtc_paths",
        "WebRTC viewers by path: direct, or relayed by a TURN server.",
    );
    for ((stream, relayed), count) in counts {
        let path = if relayed { "relayed" } else { "direct" };
        metric.of([("stream", stream.as_str()), ("path", path)], count);
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
    Metric::gauge(text, "media_files", "Files that are open.").value(media_files);
    let help = "Files opened and read through.";
    Metric::counter(text, "media_files_opened_total", help).value(opened);
    let help = "Files being played, shared or not.";
    Metric::gauge(text, "media_readings", help).value(readings);
    let help = "Clients that seek in a file or change its speed.";
    Metric::gauge(text, "media_clients", help).value(private);
}

/// Appends the counts of failed logins, by listener and reason.
pub fn logins(failures: &LoginCounters, text: &mut String) {
    let mut metric = Metric::counter(
        text,
        "login_failures_total",
        "Logins that failed: `wrong` ones, `limited` after too many of an address, `busy` while too many waited.",
    );
    for listener in Listener::ALL {
        let counters = failures.of(listener);
        for (reason, count) in [
            ("wrong", &counters.wrong),
            ("limited", &counters.limited),
            ("busy", &counters.busy),
        ] {
            let labels = [("listener", listener.as_str()), ("reason", reason)];
            metric.of(labels, count.get());
        }
    }
}

/// Appends how the keys of an identity provider are read.
pub fn token_keys(keys: &KeyRing, now: Instant, text: &mut String) {
    let (count, age) = keys.age(now);
    let help = "Keys that tokens of the identity provider are verified with, by algorithm.";
    Metric::gauge(text, "token_keys", help).value(count);
    let help = "Time since these keys were read.";
    let mut metric = Metric::gauge(text, "token_keys_age_seconds", help);
    if let Some(age) = age {
        metric.value(format_args!("{:.1}", age.as_secs_f64()));
    }
    let counters = keys.counters();
    let help = "Readings of these keys, by result: `ok` or `failed`.";
    Metric::counter(text, "token_keys_read_total", help).counts(
        "result",
        [("ok", &counters.read), ("failed", &counters.failed)],
    );
}

/// Appends the number of sessions, how many of them are half-open, and how many were evicted.
pub fn sessions(sessions: usize, half_open: usize, evicted: u64, text: &mut String) {
    let help = "Sessions, half-open ones included.";
    Metric::gauge(text, "sessions", help).value(sessions);
    let help = "Sessions whose handshake is not done.";
    Metric::gauge(text, "sessions_half_open", help).value(half_open);
    let help = "Half-open sessions that ended because others needed their place.";
    Metric::counter(text, "sessions_evicted_total", help).value(evicted);
}

/// Appends the process's use of memory, processor time and descriptors.
pub fn process(text: &mut String) {
    let seconds = glassline_net::process_cpu().as_secs_f64();
    let help = "Processor time of the server.";
    Metric::counter(text, "cpu_seconds_total", help).value(seconds);
    if let Some(bytes) = glassline_net::rss_bytes() {
        Metric::gauge(text, "resident_memory_bytes", "Memory in use.").value(bytes);
    }
    if let Some(fds) = glassline_net::open_fds() {
        Metric::gauge(text, "open_fds", "Open file descriptors.").value(fds);
    }
}
