use std::time::Duration;

use glassline_congestion::Algorithm;

/// Configuration of an association. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// SCTP port of this end; packets from the peer must be addressed to it.
    pub local_port: u16,
    /// SCTP port of the peer; 5000 at both ends of a data channel, by custom.
    pub remote_port: u16,
    /// Size of SCTP packets at first, without the bytes that DTLS, UDP and IP add. Rounded
    /// down to a multiple of four; at least 512.
    pub mtu: usize,
    /// Largest packet that path MTU discovery tries; a value not above `mtu` turns it off.
    /// The caller must forbid fragmentation (`IP_DONTFRAG`), or discovery finds nothing.
    pub mtu_max: usize,
    /// Largest message that is accepted from the peer. A larger one ends the association
    /// with an ABORT that says so.
    pub max_message_size: usize,
    /// Receive window that is announced at first.
    pub receive_window_min: u32,
    /// Bound up to which the receive window grows when the measured rate needs it. Unread
    /// and incomplete messages may occupy about as much, give or take a window.
    pub receive_window_max: u32,
    /// Most bytes of unsent and unacknowledged messages.
    pub send_buffer_max: usize,
    /// Number of streams to request, each way.
    pub streams: u16,
    /// Whether to offer and use packets without a checksum (RFC 9653). Only for a lower
    /// layer that detects errors itself, as DTLS does.
    pub zero_checksum: bool,
    /// Whether to offer message interleaving (RFC 8260), so that a long message on one
    /// stream does not delay the others.
    pub interleaving: bool,
    /// Congestion controller, which decides how much is sent, and how fast.
    pub congestion: Algorithm,
    /// Retransmission time-out before the first round trip is known.
    pub rto_initial: Duration,
    /// Lower bound of the retransmission time-out.
    pub rto_min: Duration,
    /// Upper bound of the retransmission time-out.
    pub rto_max: Duration,
    /// Time that a single packet may wait for its acknowledgement; at most 500 ms (RFC 9260
    /// §6.2).
    pub delayed_ack: Duration,
    /// Time-outs in a row, heartbeats included, after which the peer counts as unreachable.
    /// `None` for never: then the transport below must notice.
    pub max_retransmissions: Option<u32>,
    /// Retransmissions of INIT or COOKIE ECHO after which connecting has failed; `None` for
    /// never.
    pub max_init_retransmissions: Option<u32>,
    /// Interval between heartbeats of an idle association.
    pub heartbeat_interval: Duration,
    /// Lifetime of a state cookie.
    pub cookie_life: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            local_port: 5000,
            remote_port: 5000,
            // 1200 bytes of UDP payload, less a DTLS 1.2 record with AES-GCM (37).
            mtu: 1160,
            mtu_max: 1160,
            max_message_size: 256 * 1024,
            receive_window_min: 2 * 1024 * 1024,
            receive_window_max: 64 * 1024 * 1024,
            send_buffer_max: 64 * 1024 * 1024,
            streams: u16::MAX,
            zero_checksum: true,
            interleaving: true,
            congestion: Algorithm::BbrLossTolerant,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(250),
            rto_max: Duration::from_secs(10),
            delayed_ack: Duration::from_millis(20),
            max_retransmissions: Some(10),
            max_init_retransmissions: Some(8),
            heartbeat_interval: Duration::from_secs(30),
            cookie_life: Duration::from_secs(60),
        }
    }
}

/// The random numbers that an association needs. The caller draws them.
#[derive(Clone, derive_more::Debug)]
#[debug("Secrets {{ .. }}")]
pub struct Secrets {
    /// Verification tag that the peer must put on its packets; not zero.
    pub tag: u32,
    /// First transmission sequence number.
    pub initial_tsn: u32,
    /// Key that authenticates state cookies.
    pub cookie_key: [u8; 32],
}

impl Secrets {
    /// Makes the secrets from 40 random bytes.
    pub fn from_random(random: [u8; 40]) -> Self {
        let word = |at: usize| {
            u32::from_be_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
        };
        let mut cookie_key = [0; 32];
        cookie_key.copy_from_slice(&random[8..]);
        Self {
            tag: word(0).max(1),
            initial_tsn: word(4),
            cookie_key,
        }
    }
}

/// How a message is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Whether the message may overtake, and be overtaken by, others of its stream.
    pub unordered: bool,
    /// Whether and for how long the message is retransmitted.
    pub reliability: Reliability,
}

/// When a message that was lost is abandoned instead of retransmitted (RFC 3758, RFC 7496).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reliability {
    /// The message is retransmitted until it arrives.
    #[default]
    Reliable,
    /// Each chunk of the message is retransmitted a limited number of times.
    Limited {
        /// Most retransmissions of a chunk; zero sends it once.
        retransmissions: u32,
    },
    /// The message is abandoned when its lifetime is over.
    Timed {
        /// Time from [`Association::send`](crate::Association::send) on.
        lifetime: Duration,
    },
}
