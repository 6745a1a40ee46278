use std::time::Duration;

use glassline_media::Bitrate;

/// State and counters of an association. Sizes are in bytes, counters count from the
/// beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// State of the association.
    pub state: State,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Smallest round-trip time of the last ten seconds.
    pub rtt_min: Option<Duration>,
    /// Latest sample of the round-trip time.
    pub rtt_latest: Option<Duration>,
    /// Present retransmission time-out (`RTO`, RFC 9260 §6.3.1).
    pub rto: Duration,
    /// Congestion window, in bytes.
    pub cwnd: u64,
    /// Bytes in flight, as the congestion controller counts them.
    pub in_flight: u64,
    /// Rate at which packets leave at most; `None` before the first round trip.
    pub pacing_rate: Option<Bitrate>,
    /// Bytes that the peer's receive window still has room for: a_rwnd less outstanding
    /// data.
    pub peer_rwnd: u64,
    /// Receive window that we announced last, less what came since.
    pub own_window: u64,
    /// Size of our receive window at present, unread messages included.
    pub own_window_limit: u64,
    /// Bytes queued and not yet sent for the first time.
    pub buffered: u64,
    /// Outstanding data: bytes sent and not yet acknowledged.
    pub unacknowledged: u64,
    /// Bytes of messages that arrived and were not yet taken by the application.
    pub unread: u64,
    /// Bytes of incomplete messages, and of messages that wait for earlier ones.
    pub unassembled: u64,
    /// Present size of a full SCTP packet.
    pub mtu: usize,
    /// SCTP packets that were sent.
    pub packets_sent: u64,
    /// SCTP packets that were received.
    pub packets_received: u64,
    /// Bytes of user data sent for the first time.
    pub data_sent: u64,
    /// Bytes of user data of messages that were delivered.
    pub data_received: u64,
    /// Bytes of user data that were retransmitted.
    pub retransmitted: u64,
    /// Bytes of user data that were declared lost; some of it may have been only late.
    pub lost: u64,
    /// Chunks that were declared lost but had arrived.
    pub spurious: u64,
    /// Chunks that arrived twice.
    pub duplicates: u64,
    /// Retransmission time-outs since the beginning.
    pub timeouts: u64,
    /// Tail-loss probes since the beginning.
    pub probes: u64,
    /// Messages of ours that were abandoned by their own limits.
    pub abandoned: u64,
    /// SACK chunks that were sent.
    pub sacks_sent: u64,
    /// SACK chunks that were received.
    pub sacks_received: u64,
    /// Packets that were dropped, wholly or partly.
    pub dropped: u64,
    /// Whether messages are interleaved (RFC 8260).
    pub interleaving: bool,
    /// Whether packets leave without a checksum (RFC 9653).
    pub zero_checksum: bool,
}

/// State of an association (RFC 9260 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The association has not begun, or it has ended.
    #[default]
    Closed,
    /// INIT was sent, and INIT ACK is awaited.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// The handshake is complete and data flows.
    Established,
    /// We are shutting down; queued data is still being sent.
    ShutdownPending,
    /// SHUTDOWN was sent, and SHUTDOWN ACK is awaited.
    ShutdownSent,
    /// The peer is shutting down; queued data is still being sent.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
}
