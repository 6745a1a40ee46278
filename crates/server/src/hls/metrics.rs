//! Metrics of HLS.

use glassline_service::metrics::Metric;

use super::protocol::Hls;

/// Appends the metrics of the protocol.
pub(super) fn write(hls: &Hls, text: &mut String) {
    let counters = &hls.counters;
    let help = "Times that the segments of a stream began, at the first request for it.";
    Metric::counter(text, "hls_streams_begun_total", help).value(counters.begun.get());
    let help = "Media Playlists sent.";
    Metric::counter(text, "hls_playlists_total", help).value(counters.playlists.get());
    let help = "Initializations, parts and segments sent.";
    Metric::counter(text, "hls_files_total", help).value(counters.files.get());
    let help = "Bytes of these files.";
    Metric::counter(text, "hls_bytes_total", help).value(counters.bytes.get());
    let help = "Requests for which nothing came in three Target Durations.";
    Metric::counter(text, "hls_late_total", help).value(counters.late.get());
    let help = "Requests beyond the number that may wait.";
    Metric::counter(text, "hls_turned_away_total", help).value(counters.turned_away.get());
    let (streams, bytes) = {
        let broadcasts = hls.lock();
        (broadcasts.by_name.len(), broadcasts.bytes())
    };
    let help = "Streams whose segments are kept.";
    Metric::gauge(text, "hls_streams", help).value(streams);
    Metric::gauge(text, "hls_memory_bytes", "Bytes of kept segments.").value(bytes);
}
