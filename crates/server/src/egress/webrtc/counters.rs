//! What sending to WebRTC viewers counts, read by metrics meanwhile.

use crate::runtime::Counter;

/// Media that one shard sent to its viewers since the server started, and what the kernel
/// and the network refused of it.
#[derive(Debug, Default)]
pub struct SendCounters {
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
}
