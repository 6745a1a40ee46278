//! Counters of media sent to WebRTC viewers, read by metrics while shards run.

use glassline_runtime::Counter;

/// Media that one shard sent to its viewers since the server started, and the parts that the kernel
/// or the network refused.
#[derive(Debug, Default)]
pub struct SendCounters {
    /// Media datagrams handed to the kernel, retransmissions included.
    pub packets: Counter,
    /// Bytes of the media datagrams handed to the kernel.
    pub bytes: Counter,
    /// System calls that sent them.
    pub sends: Counter,
    /// Packets sent again because a viewer missed them.
    pub retransmissions: Counter,
    /// FEC packets sent ahead of losses.
    pub fec_packets: Counter,
    /// Bytes of these datagrams.
    pub fec_bytes: Counter,
    /// Packets that viewers asked for again and that the ring no longer held.
    pub unrepairable: Counter,
    /// Packets that viewers asked for again and that were dropped: too many waited, they waited too
    /// long, or a newer keyframe took their place.
    pub dropped_repairs: Counter,
    /// Datagrams dropped because the kernel will never take them.
    pub abandoned: Counter,
    /// Number of times that the socket's send buffer was full (`EAGAIN`); the rest waited.
    pub socket_full: Counter,
    /// Number of times that the interface's queue was full (`ENOBUFS`); the rest waited.
    pub interface_full: Counter,
    /// ICMP answers from the network that a viewer's port is closed.
    pub peer_refused: Counter,
    /// Number of times that a datagram was larger than the path allows (`EMSGSIZE`, ICMP).
    pub too_large: Counter,
    /// Number of times that there was no route to the viewer, on this machine or on the way (ICMP).
    pub unreachable: Counter,
    /// Number of times that the kernel refused datagrams for any other reason.
    pub unsendable: Counter,
    /// Media units dropped because a viewer was slower than its limits allow.
    pub dropped_slow: Counter,
    /// Datagrams dropped because the socket stayed full until the backlog was full.
    pub dropped_backlog: Counter,
}
