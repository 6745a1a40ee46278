use std::time::Duration;

use glassline_congestion::Algorithm;

/// How an association behaves. Sizes are bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// Source port, also the one that packets must come to.
    pub local_port: u16,
    /// Destination port; 5000 at both ends of a data channel, by custom.
    pub remote_port: u16,
    /// SCTP packets to begin with, without what DTLS, UDP and IP put around them.
    /// Rounded down to a multiple of four; at least 512.
    pub mtu: usize,
    /// What path MTU discovery tries at the most; not above `mtu` turns it off. The
    /// shell must forbid fragmentation (`IP_DONTFRAG`), or nothing is discovered.
    pub mtu_max: usize,
    /// Largest message that is taken from the peer. A larger one ends the association
    /// by an ABORT that says so.
    pub max_message_size: usize,
    /// Receive window that is announced at first.
    pub receive_window_min: u32,
    /// What the receive window grows to when the measured rate needs it; also what
    /// unread and unfinished messages may occupy, give or take a window.
    pub receive_window_max: u32,
    /// What unsent and unacknowledged messages may occupy.
    pub send_buffer_max: usize,
    /// Streams to ask for, each way.
    pub streams: u16,
    /// Offer and use packets without a checksum (RFC 9653): only below something that
    /// finds errors by itself, which DTLS does.
    pub zero_checksum: bool,
    /// Offer message interleaving (RFC 8260), so that a long message on one stream
    /// does not hold up the others.
    pub interleaving: bool,
    /// The controller that decides how much is sent, and how fast.
    pub congestion: Algorithm,
    /// Retransmission time-out before the first round trip is known.
    pub rto_initial: Duration,
    /// Least retransmission time-out.
    pub rto_min: Duration,
    /// Largest retransmission time-out.
    pub rto_max: Duration,
    /// How long a packet may wait for its acknowledgement when it is alone; at most
    /// 500 ms (RFC 9260 §6.2).
    pub delayed_ack: Duration,
    /// Time-outs in a row, heartbeats counted, after which the peer is given up.
    /// `None` never does: then whoever carries the packets must know.
    pub max_retransmissions: Option<u32>,
    /// Repetitions of INIT and COOKIE ECHO after which connecting has failed.
    pub max_init_retransmissions: Option<u32>,
    /// Between heartbeats of an idle association.
    pub heartbeat_interval: Duration,
    /// How long a state cookie is good.
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

/// All chance that an association needs, drawn by the shell.
#[derive(Clone)]
pub struct Secrets {
    /// Verification tag that the peer must put on its packets; not zero.
    pub tag: u32,
    /// First transmission sequence number.
    pub initial_tsn: u32,
    /// Authenticates state cookies.
    pub cookie_key: [u8; 32],
}

impl Secrets {
    /// From 40 random bytes.
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

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// How a message is to be carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// It may overtake, and be overtaken by, others of its stream.
    pub unordered: bool,
    /// What is done so that it arrives.
    pub reliability: Reliability,
}

/// How long is tried to bring a message over (RFC 3758; RFC 7496).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reliability {
    /// Until it arrives.
    #[default]
    Reliable,
    /// Each of its chunks is sent again so often at the most.
    Limited {
        /// Zero sends once.
        retransmissions: u32,
    },
    /// Until so long after it was handed over.
    Timed {
        /// From [`Association::send`](crate::Association::send) on.
        lifetime: Duration,
    },
}
