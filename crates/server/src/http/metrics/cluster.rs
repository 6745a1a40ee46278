//! Metrics of messages between servers, and of the cluster that agrees through NATS.

use glassline_messages::ServerCounters;
use glassline_runtime::Counter;
use glassline_service::metrics::Metric;

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
    let own = view.nodes.iter().find(|it| it.name == view.node);
    let pulled: usize = view.nodes.iter().map(|it| it.pulled).sum();
    let help = "Whether NATS can be used.";
    Metric::gauge(text, "cluster_engine_up", help)
        .value(u64::from(view.engine.state == "connected"));
    let help = "Times that a connection to NATS was made.";
    Metric::counter(text, "cluster_engine_connects_total", help).value(view.engine.connects);
    let help = "Notices of NATS that this server read too slowly.";
    Metric::counter(text, "cluster_engine_dropped_total", help).value(view.engine.dropped);
    let help = "Streams that this server has claimed.";
    Metric::gauge(text, "cluster_streams_owned", help).value(own.map_or(0, |it| it.owned));
    let help = "Streams that this server pulls from another one.";
    Metric::gauge(text, "cluster_streams_pulled", help).value(pulled);
    let help = "Pulls that began.";
    Metric::counter(text, "cluster_pulls_total", help).value(view.counts.pulls);
    let help = "Bytes of media that pulls brought.";
    Metric::counter(text, "cluster_pulled_bytes_total", help).value(view.pulled.bytes);
    let help = "Most servers that a stream passes which this server pulls, its owner and this server included; 0 without pulls.";
    Metric::gauge(text, "cluster_path_nodes", help).value(view.pulled.path_nodes);
    let help = "Streams taken over from a server that was gone or silent.";
    Metric::counter(text, "cluster_takeovers_total", help).value(view.takeovers);
    let help = "Viewers that were sent to another server.";
    Metric::counter(text, "cluster_viewers_redirected_total", help).value(view.counts.redirected);
    let help = "Viewers that were sent away, because another server had fewer.";
    Metric::counter(text, "cluster_viewers_moved_total", help).value(view.counts.moved);
    let help = "Publishers that got the names of their streams.";
    Metric::counter(text, "cluster_publishers_admitted_total", help).value(view.counts.admitted);
    let help = "Publishers refused: their stream has another one, or the server drains.";
    Metric::counter(text, "cluster_publishers_refused_total", help).value(view.counts.refused);
    let help = "Publishers sent away for another one of the stream.";
    Metric::counter(text, "cluster_publishers_superseded_total", help)
        .value(view.counts.superseded);
    let help = "Longest way of a pulled stream's frame from its owner.";
    let mut delay = Metric::gauge(text, "cluster_pull_delay_seconds", help);
    if let Some(longest) = view.pulled.delay_ms {
        delay.value(longest / 1_000.0);
    }
    let help = "Servers of the cluster by state.";
    let mut nodes = Metric::gauge(text, "cluster_nodes", help);
    for state in STATES {
        let count = view.nodes.iter().filter(|it| it.state == state).count();
        nodes.of([("state", state)], count);
    }
}

/// Writes the messages beside streams that passed between this server and others.
fn messages(counters: &ServerCounters, text: &mut String) {
    let mut plain = |name, help, counter: &Counter| {
        Metric::counter(text, name, help).value(counter.get());
    };
    plain(
        "cluster_messages_sent_total",
        "Messages beside streams sent to other servers.",
        &counters.sent,
    );
    plain(
        "cluster_message_bytes_sent_total",
        "Bytes of messages beside streams sent to other servers.",
        &counters.sent_bytes,
    );
    plain(
        "cluster_messages_received_total",
        "Messages beside streams received from other servers.",
        &counters.received,
    );
    plain(
        "cluster_message_bytes_received_total",
        "Bytes of messages beside streams received from other servers.",
        &counters.received_bytes,
    );
    let help = "Messages beside streams not passed between servers.";
    Metric::counter(text, "cluster_messages_dropped_total", help).counts(
        "reason",
        [
            ("server_slow", &counters.dropped_slow),
            ("expired", &counters.dropped_expired),
            ("too_large", &counters.dropped_too_large),
            ("too_fast", &counters.dropped_too_fast),
            ("not_allowed", &counters.dropped_not_allowed),
            ("no_channel", &counters.dropped_no_channel),
            ("repeated", &counters.repeated),
        ],
    );
}
