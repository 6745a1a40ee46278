//! Metrics of messages between servers, and of the cluster that agrees through NATS.

use std::fmt::Write;

use glassline_messages::ServerCounters;
use glassline_service::metrics::{head, label_value};

use crate::app::App;

/// States of servers that have a row each.
const STATES: [&str; 5] = ["serving", "draining", "dead", "stranger", "unheard"];

/// Writes what this server knows of its cluster, if it is in one.
pub(super) fn metrics(app: &App, text: &mut String) {
    if app.sessions.directory().is_some() {
        messages(&app.sessions.messages().counters, text);
    }
    let member = app.sessions.directory().and_then(|it| it.member());
    let Some(view) = member.map(|member| member.nodes_view()) else {
        return;
    };
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let own = view.nodes.iter().find(|it| it.name == view.node);
    let pulled = view.nodes.iter().map(|it| it.pulled).sum();
    let plain = [
        (
            "cluster_engine_up",
            "gauge",
            "Whether NATS can be used.",
            u64::from(view.engine.state == "connected"),
        ),
        (
            "cluster_engine_connects_total",
            "counter",
            "Times that a connection to NATS was made.",
            view.engine.connects,
        ),
        (
            "cluster_engine_dropped_total",
            "counter",
            "Notices of NATS that this server read too slowly.",
            view.engine.dropped,
        ),
        (
            "cluster_streams_owned",
            "gauge",
            "Streams that this server has claimed.",
            number(own.map_or(0, |it| it.owned)),
        ),
        (
            "cluster_streams_pulled",
            "gauge",
            "Streams that this server pulls from another one.",
            number(pulled),
        ),
        (
            "cluster_pulls_total",
            "counter",
            "Pulls that began.",
            view.counts.pulls,
        ),
        (
            "cluster_pulled_bytes_total",
            "counter",
            "Bytes of media that pulls brought.",
            view.pulled.bytes,
        ),
        (
            "cluster_path_nodes",
            "gauge",
            "Most servers that a stream passes which this server pulls, its owner and this server \
             included; 0 without pulls.",
            number(view.pulled.path_nodes),
        ),
        (
            "cluster_takeovers_total",
            "counter",
            "Streams taken over from a server that was gone or silent.",
            view.takeovers,
        ),
        (
            "cluster_viewers_redirected_total",
            "counter",
            "Viewers that were sent to another server.",
            view.counts.redirected,
        ),
        (
            "cluster_viewers_moved_total",
            "counter",
            "Viewers that were sent away, because another server had fewer.",
            view.counts.moved,
        ),
        (
            "cluster_publishers_admitted_total",
            "counter",
            "Publishers that got the names of their streams.",
            view.counts.admitted,
        ),
        (
            "cluster_publishers_refused_total",
            "counter",
            "Publishers refused: their stream has another one, or the server drains.",
            view.counts.refused,
        ),
        (
            "cluster_publishers_superseded_total",
            "counter",
            "Publishers sent away for another one of the stream.",
            view.counts.superseded,
        ),
    ];
    for (name, kind, help, value) in plain {
        head(text, name, kind, help);
        let _ = writeln!(text, "glassline_{name} {value}");
    }
    let help = "Longest way of a pulled stream's frame from its owner.";
    head(text, "cluster_pull_delay_seconds", "gauge", help);
    if let Some(longest) = view.pulled.delay_ms {
        let seconds = longest / 1_000.0;
        let _ = writeln!(text, "glassline_cluster_pull_delay_seconds {seconds}");
    }
    head(
        text,
        "cluster_nodes",
        "gauge",
        "Servers of the cluster by state.",
    );
    for state in STATES {
        let count = view.nodes.iter().filter(|it| it.state == state).count();
        let state = label_value(state);
        let _ = writeln!(text, "glassline_cluster_nodes{{state=\"{state}\"}} {count}");
    }
}

/// Writes the messages beside streams that passed between this server and others.
fn messages(counters: &ServerCounters, text: &mut String) {
    let plain = [
        (
            "cluster_messages_sent_total",
            "Messages beside streams sent to other servers.",
            &counters.sent,
        ),
        (
            "cluster_message_bytes_sent_total",
            "Bytes of messages beside streams sent to other servers.",
            &counters.sent_bytes,
        ),
        (
            "cluster_messages_received_total",
            "Messages beside streams received from other servers.",
            &counters.received,
        ),
        (
            "cluster_message_bytes_received_total",
            "Bytes of messages beside streams received from other servers.",
            &counters.received_bytes,
        ),
    ];
    for (name, help, counter) in plain {
        head(text, name, "counter", help);
        let _ = writeln!(text, "glassline_{name} {}", counter.get());
    }
    let name = "cluster_messages_dropped_total";
    let help = "Messages beside streams not passed between servers.";
    head(text, name, "counter", help);
    let dropped = [
        ("server_slow", &counters.dropped_slow),
        ("expired", &counters.dropped_expired),
        ("too_large", &counters.dropped_too_large),
        ("too_fast", &counters.dropped_too_fast),
        ("not_allowed", &counters.dropped_not_allowed),
        ("no_channel", &counters.dropped_no_channel),
        ("repeated", &counters.repeated),
    ];
    for (reason, counter) in dropped {
        let (reason, count) = (label_value(reason), counter.get());
        let _ = writeln!(text, "glassline_{name}{{reason=\"{reason}\"}} {count}");
    }
}
