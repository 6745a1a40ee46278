//! Counters of QUIC, and figures that its publishers report.

use std::time::Instant;

use glassline_service::metrics::Metric;

use super::{Reason, SessionView, Shared};

/// Reads one figure of a publisher for a metric.
type Read = fn(&SessionView) -> Option<f64>;

/// Writes the counters, and the figures of each stream's publisher.
// Prometheus has doubles.
pub(super) fn write(quic: &Shared, text: &mut String) {
    let help = "Sessions and handshakes over QUIC.";
    Metric::gauge(text, "quic_sessions", help).value(quic.taken());
    let help = "Sessions opened over QUIC.";
    Metric::counter(text, "quic_accepted_total", help).value(quic.counters().accepted());
    let help = "Groups of publishers given up for newer ones.";
    Metric::counter(text, "quic_late_groups_total", help)
        .value(quic.counters().late_groups().get());
    let help = "Frames that could not be sent to readers.";
    Metric::counter(text, "quic_left_out_total", help).value(quic.counters().left_out().get());
    let help = "First packets that came too fast and were answered by a Retry packet.";
    Metric::counter(text, "quic_retried_total", help).value(quic.address_validation().retried());
    let help = "First packets that came too fast and were dropped.";
    Metric::counter(text, "quic_dropped_total", help).value(quic.address_validation().dropped());
    let help = "Sessions refused or closed, by reason.";
    let mut refused = Metric::counter(text, "quic_refused_total", help);
    for reason in Reason::ALL {
        refused.of(
            [("reason", reason.as_str())],
            quic.counters().refused(reason),
        );
    }
    let figures: [(&str, &str, Read); 7] = [
        (
            "quic_app_rtt_seconds",
            "Time of a frame from the publisher's send queue to its acknowledgment.",
            |it| Some(it.sender.app_rtt_ms? / 1e3),
        ),
        (
            "quic_transport_rtt_seconds",
            "Smoothed round trip of the publisher's packets.",
            |it| Some(it.sender.transport_rtt_ms? / 1e3),
        ),
        (
            "quic_goodput_bits_per_second",
            "Useful bits received over the last second.",
            |it| it.goodput_bps.map(|bps| bps as f64),
        ),
        (
            "quic_rtx_overhead_ratio",
            "Bytes that the publisher sent again, divided by bytes acknowledged.",
            |it| it.sender.rtx_overhead_ratio,
        ),
        (
            "quic_bitrate_bits_per_second",
            "Bit rate that the publisher's encoder was last set to.",
            |it| it.sender.bitrate_bps.map(|bps| bps as f64),
        ),
        (
            "quic_deliverable_bits_per_second",
            "Publisher's estimate of the rate that its path can carry.",
            |it| it.sender.deliverable_bps.map(|bps| bps as f64),
        ),
        (
            "quic_backlog_bytes",
            "Bytes that wait at the publisher.",
            |it| it.sender.backlog_bytes.map(|bytes| bytes as f64),
        ),
    ];
    let sessions = quic.sessions(Instant::now());
    for (name, help, read) in figures {
        let mut metric = Metric::gauge(text, name, help);
        for session in &sessions {
            let Some(value) = read(session) else { continue };
            for stream in &session.publishes {
                metric.of([("stream", stream.as_str())], value);
            }
        }
    }
}
