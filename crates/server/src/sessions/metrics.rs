//! Counters of the shards, which own WebRTC sessions, and of the port that takes media over TCP.

use glassline_service::metrics::{Family, Metric};

use super::{Counters, Shared};

/// The metrics of the shards.
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
        "fec_packets_total",
        "FEC packets sent ahead of losses to far viewers.",
        |c| &c.send.fec_packets,
    ),
    Family::plain("fec_bytes_total", "Their bytes, sealed.", |c| {
        &c.send.fec_bytes
    }),
    Family::plain(
        "unrepairable_total",
        "Packets that viewers asked for again too late.",
        |c| &c.send.unrepairable,
    ),
    Family::plain(
        "repairs_dropped_total",
        "Repairs dropped: too many waited, for too long, or a newer keyframe came.",
        |c| &c.send.dropped_repairs,
    ),
    Family::plain(
        "keyframe_requests_total",
        "Keyframes requested by viewers.",
        |c| &c.keyframe_requests,
    ),
    Family::plain(
        "received_datagrams_total",
        "Datagrams received from viewers.",
        |c| &c.received,
    ),
    Family::plain(
        "voice_packets_total",
        "Packets received from participants of rooms.",
        |c| &c.voice.packets,
    ),
    Family::plain(
        "voice_recovered_total",
        "Lost packets that were recovered from a copy in a later one (RED).",
        |c| &c.voice.recovered,
    ),
    Family::plain(
        "voice_refused_total",
        "Packets of participants not published: too long, malformed RED, or too many.",
        |c| &c.voice.refused,
    ),
    Family::plain(
        "talk_packets_total",
        "Voice packets handed on to cameras.",
        |c| &c.talk.packets,
    ),
    Family::plain(
        "talk_dropped_total",
        "Voice packets for cameras that were dropped: other codec, too long, or oldest for a slow camera.",
        |c| &c.talk.dropped,
    ),
    Family::plain(
        "whip_packets_total",
        "Media packets received from WHIP publishers.",
        |c| &c.whip.packets,
    ),
    Family::plain(
        "whip_requested_total",
        "Lost packets of WHIP publishers that were requested again.",
        |c| &c.whip.requested,
    ),
    Family::plain(
        "whip_late_total",
        "Packets of WHIP publishers that came too late, or twice.",
        |c| &c.whip.late,
    ),
    Family::plain(
        "whip_keyframe_requests_total",
        "Keyframe requests sent to WHIP publishers.",
        |c| &c.whip.keyframe_requests,
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
    Family::by_reason(
        "viewers_closed_total",
        "Viewers disconnected because the stream changed or was deleted.",
        &[
            ("tracks_changed", |c| &c.closed_tracks_changed),
            ("deleted", |c| &c.closed_deleted),
            ("b_frames", |c| &c.closed_reordered),
        ],
    ),
    Family::plain(
        "send_abandoned_datagrams_total",
        "Datagrams dropped because the kernel will never take them.",
        |c| &c.send.abandoned,
    ),
    Family::plain(
        "commands_refused_total",
        "Requests that found a shard's inbox full.",
        |c| &c.inbox_full,
    ),
    Family::by_reason(
        "queue_dropped_frames_total",
        "Frames dropped before they were sent to a viewer.",
        &[
            ("viewer_slow", |c| &c.send.dropped_slow),
            ("socket_full", |c| &c.send.dropped_backlog),
        ],
    ),
    Family::by_reason(
        "send_errors_total",
        "Times that the kernel did not take datagrams.",
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
        "Messages sent on data channels.",
        |c| &c.data.messages_sent,
    ),
    Family::plain("data_bytes_sent_total", "Their bytes.", |c| {
        &c.data.message_bytes_sent
    }),
    Family::plain(
        "data_messages_received_total",
        "Messages received on data channels.",
        |c| &c.data.messages_received,
    ),
    Family::plain("data_bytes_received_total", "Their bytes.", |c| {
        &c.data.message_bytes_received
    }),
    Family::by_reason(
        "data_messages_dropped_total",
        "Messages dropped.",
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
        "Reliable data channels closed because their peer received too slowly.",
        |c| &c.data.channels_closed_slow,
    ),
    Family::plain(
        "data_channel_faults_total",
        "Protocol violations of peers on data channels.",
        |c| &c.data.channel_faults,
    ),
];

/// Writes the counters of the shards, and of the connections for media over TCP.
pub(super) fn write(shared: &Shared, text: &mut String) {
    let shards = shared.shards().iter().enumerate();
    let counting: Vec<(String, &Counters)> = shards
        .map(|(index, shard)| (index.to_string(), shard.counters()))
        .collect();
    for family in FAMILIES {
        family.write("shard", &counting, text);
    }
    let counters = &shared.tcp;
    Metric::counter(
        text,
        "media_tcp_connections_total",
        "Connections for media over TCP: refused at a limit, closed without an authentic check, or those of a peer.",
    )
    .counts(
        "outcome",
        [
            ("refused", &counters.refused),
            ("stranger", &counters.strangers),
            ("peer", &counters.handed_over),
        ],
    );
}
