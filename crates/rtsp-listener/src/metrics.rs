//! Metrics of the RTSP threads and their clients.

use glassline_service::metrics::{Family, Metric};

use super::{Counters, Shared};

/// The metrics of the RTSP threads.
const FAMILIES: &[Family<Counters>] = &[
    Family::plain("rtsp_accepted_total", "RTSP connections accepted.", |c| {
        &c.accepted
    }),
    Family::plain(
        "rtsp_turned_away_total",
        "RTSP connections beyond the limit.",
        |c| &c.turned_away,
    ),
    Family::by_reason(
        "rtsp_connections_refused_total",
        "RTSP connections closed at once: too many of their address, or no descriptor left.",
        &[
            ("rate", |c| &c.refused_rate),
            ("descriptors", |c| &c.refused_descriptors),
        ],
    ),
    Family::plain(
        "rtsp_packets_total",
        "Media and report packets handed to the kernel for RTSP clients.",
        |c| &c.sent.packets,
    ),
    Family::plain(
        "rtsp_bytes_total",
        "Bytes handed to the kernel for RTSP clients, responses included.",
        |c| &c.sent.bytes,
    ),
    Family::plain("rtsp_sends_total", "System calls that sent them.", |c| {
        &c.sent.sends
    }),
    Family::plain(
        "rtsp_skips_total",
        "Times that a lagging client skipped to a keyframe.",
        |c| &c.sent.skips,
    ),
    Family::plain(
        "rtsp_keyframe_requests_total",
        "Keyframes requested from RTSP publishers.",
        |c| &c.recorded.keyframe_requests,
    ),
    Family::plain(
        "rtsp_late_packets_total",
        "Packets of RTSP publishers that were duplicates, or too late to be put in order.",
        |c| &c.recorded.late,
    ),
    Family::plain(
        "rtsp_srtp_refused_total",
        "SRTP packets of RTSP publishers that were not authentic.",
        |c| &c.srtp_refused,
    ),
    Family::by_reason(
        "rtsp_frames_skipped_total",
        "Frames and packets of audio that lagging RTSP clients skipped.",
        &[("lagging", |c| &c.sent.skipped_lagging)],
    ),
    Family::by_reason(
        "rtsp_clients_closed_total",
        "RTSP clients that the server closed.",
        &[
            ("stalled", |c| &c.closed_stalled),
            ("token", |c| &c.closed_expired),
            ("hopeless", |c| &c.closed_too_slow),
            ("tls", |c| &c.closed_tls),
            ("tracks_changed", |c| &c.closed_tracks_changed),
            ("deleted", |c| &c.closed_deleted),
            ("no_session", |c| &c.closed_for_others),
        ],
    ),
    Family::by_reason(
        "rtsp_srtcp_total",
        "SRTCP reports of RTSP clients, by whether they were authentic.",
        &[
            ("opened", |c| &c.srtcp_opened),
            ("refused", |c| &c.srtcp_refused),
        ],
    ),
    Family::by_reason(
        "rtsp_send_errors_total",
        "Times that the kernel did not take datagrams for RTSP clients.",
        &[
            ("socket_full", |c| &c.sent.socket_full),
            ("peer_refused", |c| &c.sent.peer_refused),
            ("other", |c| &c.sent.unsendable),
        ],
    ),
];

/// Writes the counters of the RTSP threads.
pub(super) fn write(rtsp: &Shared, text: &mut String) {
    let threads = rtsp.threads().iter().enumerate();
    let mut counting: Vec<(String, &Counters)> = threads
        .map(|(index, thread)| (index.to_string(), thread.counters()))
        .collect();
    counting.extend(rtsp.multicast().map(|it| ("multicast".to_owned(), it)));
    let mut open = Metric::gauge(text, "rtsp_connections", "RTSP connections.");
    for (who, counters) in &counting {
        open.of([("thread", who)], counters.open.get());
    }
    for family in FAMILIES {
        family.write("thread", &counting, text);
    }
    let mut metric = Metric::counter(text, "rtsp_requests_total", "RTSP requests answered.");
    for (index, thread) in rtsp.threads().iter().enumerate() {
        let index = index.to_string();
        for (method, status, count) in thread.counters().requests.iter() {
            let (method, status) = (method.to_string(), status.to_string());
            let labels = [
                ("method", method.as_str()),
                ("status", status.as_str()),
                ("thread", index.as_str()),
            ];
            metric.of(labels, count);
        }
    }
}
