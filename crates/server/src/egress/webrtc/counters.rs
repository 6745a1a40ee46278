//! What a shard counts, read by metrics while it runs.

use crate::runtime::Counter;

/// One shard's counts since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Media datagrams handed to the kernel, retransmissions included.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// System calls that sent them.
    pub sends: Counter,
    /// Packets sent again because a viewer missed them.
    pub retransmissions: Counter,
    /// Packets asked for that the ring no longer held.
    pub unrepairable: Counter,
    /// Keyframes that viewers asked for.
    pub keyframe_requests: Counter,
    /// Datagrams received.
    pub received: Counter,
    /// Datagrams of no session and of no known purpose.
    pub stray: Counter,
    /// Datagrams that a session refused: malformed, replayed, not authentic.
    pub refused: Counter,
    /// Datagrams given up because the kernel will never take them.
    pub abandoned: Counter,
    /// Times that the socket's send buffer was full (`EAGAIN`); what was left waited.
    pub socket_full: Counter,
    /// Times that the interface's queue was full (`ENOBUFS`); what was left waited.
    pub interface_full: Counter,
    /// Answers from the network (ICMP) that a viewer's port is closed.
    pub peer_refused: Counter,
    /// Times that a datagram was larger than the path allows (`EMSGSIZE`, ICMP).
    pub too_large: Counter,
    /// Times that there was no route to the viewer, here or on the way (ICMP).
    pub unreachable: Counter,
    /// Times that the kernel refused for any other reason.
    pub unsendable: Counter,
    /// Bursts dropped because a viewer was slower than its budget.
    pub dropped_slow: Counter,
    /// Bursts dropped because the socket stayed full.
    pub dropped_backlog: Counter,
    /// Packets that participants of rooms said.
    pub voice_packets: Counter,
    /// Packets lost on their way here that a later one brought along (RFC 2198).
    pub voice_recovered: Counter,
    /// Packets not passed on: too long, not what they say, or more than a voice has.
    pub voice_refused: Counter,
    /// Viewers whose media began.
    pub joined: Counter,
    /// Viewers handed over to another shard.
    pub moves: Counter,
    /// Sessions that ended before their handshake was done.
    pub handshakes_failed: Counter,
    /// Commands lost because the shard's inbox was full.
    pub inbox_full: Counter,
    /// Messages handed to peers' data channels.
    pub messages_sent: Counter,
    /// Their bytes.
    pub message_bytes_sent: Counter,
    /// Messages that came by data channels.
    pub messages_received: Counter,
    /// Their bytes.
    pub message_bytes_received: Counter,
    /// Messages dropped because a peer took less than came for it.
    pub messages_dropped_slow: Counter,
    /// Messages dropped because they had waited longer than they may.
    pub messages_dropped_expired: Counter,
    /// Messages larger than the peer takes.
    pub messages_dropped_too_large: Counter,
    /// Messages that no channel of the peer's was there for.
    pub messages_dropped_no_channel: Counter,
    /// Messages of viewers that may only read, or of a publisher that was replaced.
    pub messages_dropped_not_allowed: Counter,
    /// Messages of viewers that sent more a second than they may.
    pub messages_dropped_too_fast: Counter,
    /// Reliable channels closed because their peer took less than came for it.
    pub channels_closed_slow: Counter,
    /// Things that peers did on data channels that have no place.
    pub channel_faults: Counter,
}
