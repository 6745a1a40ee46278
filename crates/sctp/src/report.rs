use std::time::Duration;

use glassline_media::Bitrate;

/// How an association stands, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Where in its life it is.
    pub state: State,
    /// Smoothed round trip.
    pub rtt: Option<Duration>,
    /// The least of the last ten seconds.
    pub rtt_min: Option<Duration>,
    /// The latest.
    pub rtt_latest: Option<Duration>,
    /// Present retransmission time-out.
    pub rto: Duration,
    /// Congestion window.
    pub cwnd: u64,
    /// On the way, as congestion control counts it.
    pub in_flight: u64,
    /// Pacing rate.
    pub pacing_rate: Option<Bitrate>,
    /// What the peer may still be sent.
    pub peer_window: u64,
    /// What the peer was told last that it may send.
    pub own_window: u64,
    /// What the receive window may grow to now, unread messages counted.
    pub own_window_limit: u64,
    /// Handed over and not yet sent once.
    pub buffered: u64,
    /// Sent and not yet acknowledged.
    pub unacknowledged: u64,
    /// Arrived and not yet read.
    pub unread: u64,
    /// Parts of messages that are not whole yet, or that wait for earlier ones.
    pub unassembled: u64,
    /// SCTP packets at present.
    pub mtu: usize,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// User data sent for the first time.
    pub data_sent: u64,
    /// User data of messages that were delivered.
    pub data_received: u64,
    /// User data sent again.
    pub retransmitted: u64,
    /// User data declared lost; some of it may have been late only.
    pub lost: u64,
    /// Chunks that were declared lost and had not been.
    pub spurious: u64,
    /// Chunks that arrived twice.
    pub duplicates: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Messages of ours that were given up by their own limits.
    pub abandoned: u64,
    /// SACKs sent.
    pub sacks_sent: u64,
    /// SACKs received.
    pub sacks_received: u64,
    /// Packets, or chunks of them, that were thrown away.
    pub dropped: u64,
    /// Messages are interleaved (RFC 8260).
    pub interleaving: bool,
    /// Packets leave without a checksum (RFC 9653).
    pub zero_checksum: bool,
}

/// Where in its life an association is (RFC 9260 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Not begun, or over.
    #[default]
    Closed,
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Data flows.
    Established,
    /// We want to end it; what was handed over is still being sent.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// The peer wants to end it.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
}
