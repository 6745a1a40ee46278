//! Metrics of HLS.

use std::fmt::Write as _;

use glassline_runtime::Counter;
use glassline_service::metrics::head;

use super::protocol::{Counters, Hls};

/// A counter with its name and help.
type Row = (&'static str, &'static str, fn(&Counters) -> &Counter);

const COUNTERS: [Row; 6] = [
    (
        "hls_streams_begun_total",
        "Times that the segments of a stream began, at the first request for it.",
        |it| &it.begun,
    ),
    ("hls_playlists_total", "Media Playlists sent.", |it| {
        &it.playlists
    }),
    (
        "hls_files_total",
        "Initializations, parts and segments sent.",
        |it| &it.files,
    ),
    ("hls_bytes_total", "Bytes of these files.", |it| &it.bytes),
    (
        "hls_late_total",
        "Requests for which nothing came in three Target Durations.",
        |it| &it.late,
    ),
    (
        "hls_turned_away_total",
        "Requests beyond the number that may wait.",
        |it| &it.turned_away,
    ),
];

/// Appends the metrics of the protocol.
pub(super) fn write(hls: &Hls, text: &mut String) {
    for (name, help, read) in COUNTERS {
        head(text, name, "counter", help);
        let _ = writeln!(text, "glassline_{name} {}", read(&hls.counters).get());
    }
    let (streams, bytes) = {
        let broadcasts = hls.lock();
        (broadcasts.by_name.len(), broadcasts.bytes())
    };
    let gauges = [
        ("hls_streams", "Streams whose segments are kept.", streams),
        ("hls_memory_bytes", "Bytes of kept segments.", bytes),
    ];
    for (name, help, value) in gauges {
        head(text, name, "gauge", help);
        let _ = writeln!(text, "glassline_{name} {value}");
    }
}
