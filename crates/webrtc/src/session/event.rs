use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use glassline_rtp as rtp;

use super::index::{ReceiverIndex, SenderIndex};
use crate::dtls::record;
use crate::ice::Ignored;
use crate::srtp::{OpenError, Profile};

/// What the owner of a session should know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Keys are there: [`Session::seal`](super::Session::seal) works from now on.
    Connected {
        /// How media is protected; `None` in a session of data alone.
        profile: Option<Profile>,
    },
    /// The peer's decoder needs a keyframe (PLI, RFC 4585 §6.3.1, or FIR, RFC 5104 §4.3.1).
    KeyframeRequest {
        /// Track of the stream.
        track: usize,
        /// The sender that it is about.
        sender: SenderIndex,
    },
    /// The peer misses packets (RFC 4585 §6.2.1): answer with
    /// [`Session::seal_retransmission`](super::Session::seal_retransmission).
    Nack {
        /// Track of the stream.
        track: usize,
        /// The sender that it is about.
        sender: SenderIndex,
        /// Extended sequence numbers as [`Sealed::sequence`] gave them, at most
        /// [`NACK_LOST_MAX`].
        lost: Vec<u64>,
    },
    /// The peer reports how one of our senders arrives (RFC 3550 §6.4.1).
    ReceiverReport {
        /// Track of the stream.
        track: usize,
        /// The sender that it is about.
        sender: SenderIndex,
        /// Share of packets lost since the last report, in 256ths.
        fraction_lost: u8,
        /// Packets lost since the start; duplicates make it negative.
        cumulative_lost: i32,
        /// Interarrival jitter.
        jitter: Duration,
        /// Round-trip time from our last sender report, if the peer had one.
        rtt: Option<Duration>,
    },
    /// The peer tells which packets arrived
    /// (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    TransportFeedback {
        /// Packets that arrived, among those this feedback speaks of.
        acked: u32,
        /// Their bytes on the wire, without UDP and IP headers.
        acked_bytes: u64,
        /// Packets that did not arrive.
        lost: u32,
    },
    /// Datagrams for the peer go to another address now.
    AddressChanged {
        /// The new address.
        peer: SocketAddr,
    },
    /// The session is over; what [`Session::poll_transmit`](super::Session::poll_transmit)
    /// still gives is the farewell.
    Closed(CloseReason),
}

/// Events that wait for the owner. They are drained after every input, so that
/// only an owner that stopped draining meets the bound; newer ones are dropped.
const EVENTS_MAX: usize = 64;

/// Events that wait for the owner of a session.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    waiting: VecDeque<Event>,
    dropped: u64,
}

impl EventQueue {
    /// Appends an event, or counts it if too many wait.
    pub(super) fn push(&mut self, event: Event) {
        if self.waiting.len() < EVENTS_MAX {
            self.waiting.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Appends the last event of a session, however many wait.
    pub(super) fn push_last(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// The event that waits longest.
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Whether an equal event waits.
    pub(super) fn contains(&self, event: &Event) -> bool {
        self.waiting.contains(event)
    }

    /// Events lost because too many waited.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Packets that one [`Event::Nack`] names at most; a peer missing more needs a keyframe.
pub const NACK_LOST_MAX: usize = 256;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// [`Session::close`](super::Session::close) was called.
    #[error("closed by us")]
    Local,
    /// The peer said goodbye: DTLS close_notify.
    #[error("closed by the peer")]
    Peer,
    /// ICE and DTLS did not finish in time.
    #[error("the handshake did not finish in time")]
    HandshakeTimeout,
    /// The peer's certificate is not the one its SDP announced: somebody is in between.
    #[error("the peer's certificate does not match the fingerprint in its SDP")]
    WrongFingerprint,
    /// DTLS failed for another reason: no common suite, bad signature.
    #[error("DTLS handshake failed")]
    HandshakeFailed,
    /// The keys of the data's records are worn out ([`record::SealError`]): connect anew.
    #[error("the record keys are used up")]
    KeysExhausted,
    /// The peer agreed to no SRTP profile.
    #[error("no common SRTP profile")]
    NoSrtpProfile,
    /// The peer stopped answering connectivity checks (RFC 7675).
    #[error("the peer vanished")]
    Vanished,
}

impl CloseReason {
    /// One word for a metric's label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "peer",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::WrongFingerprint => "wrong_fingerprint",
            Self::HandshakeFailed => "handshake_failed",
            Self::KeysExhausted => "keys_exhausted",
            Self::NoSrtpProfile => "no_srtp_profile",
            Self::Vanished => "vanished",
        }
    }
}

/// What a datagram turned out to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Received<'a> {
    /// STUN, DTLS or RTCP: dealt with. Drain the polls.
    Consumed,
    /// Media, decrypted in place, retransmissions already unwrapped.
    Rtp {
        /// The receiver that it came on.
        receiver: ReceiverIndex,
        /// Extended sequence number of the original packet.
        sequence: u64,
        /// It came as a retransmission.
        repaired: bool,
        /// The packet, as it was first sent.
        packet: rtp::Packet<'a>,
    },
    /// Media in [`ReceiveMode::CountOnly`](super::ReceiveMode::CountOnly).
    Counted {
        /// The receiver that it came on.
        receiver: ReceiverIndex,
        /// Extended sequence number, unauthenticated.
        sequence: u64,
        /// It came as a retransmission.
        repaired: bool,
        /// The clear header.
        header: rtp::Header,
    },
}

/// Why a datagram was dropped: count it and go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// The first byte is none of STUN, DTLS, RTP (RFC 7983).
    #[error("neither STUN, DTLS nor RTP")]
    Unknown,
    /// STUN that does not parse.
    #[error("malformed STUN")]
    MalformedStun,
    /// STUN with wrong user name or message integrity, or an answer to no request.
    #[error("STUN not for this session")]
    ForeignStun,
    /// STUN from more addresses than a peer may have.
    #[error("too many remote addresses")]
    TooManyAddresses,
    /// From an address that ICE did not validate.
    #[error("address not validated by ICE")]
    UnknownAddress,
    /// RTP or RTCP before the keys are there.
    #[error("media before the handshake finished")]
    TooEarly,
    /// RTP that does not parse.
    #[error("malformed RTP")]
    MalformedRtp,
    /// RTP with an SSRC or payload type nobody negotiated.
    #[error("RTP of no negotiated stream")]
    UnknownStream,
    /// A packet or DTLS record seen before, or too old to tell.
    #[error("replayed")]
    Replayed,
    /// A packet or DTLS record that does not authenticate.
    #[error("authentication failed")]
    Forged,
    /// A DTLS record that is damaged, or not of this handshake.
    #[error("malformed DTLS record")]
    MalformedRecord,
    /// A packet that was already received, or repaired twice.
    #[error("duplicate")]
    Duplicate,
    /// The session is closed.
    #[error("session closed")]
    Closed,
}

impl From<Ignored> for Dropped {
    fn from(ignored: Ignored) -> Self {
        match ignored {
            Ignored::Malformed => Self::MalformedStun,
            Ignored::Foreign => Self::ForeignStun,
            Ignored::TooManyAddresses => Self::TooManyAddresses,
        }
    }
}

impl Dropped {
    /// One word for a metric's label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::MalformedStun => "malformed_stun",
            Self::ForeignStun => "foreign_stun",
            Self::TooManyAddresses => "too_many_addresses",
            Self::UnknownAddress => "unknown_address",
            Self::TooEarly => "too_early",
            Self::MalformedRtp => "malformed_rtp",
            Self::UnknownStream => "unknown_stream",
            Self::Replayed => "replayed",
            Self::Forged => "forged",
            Self::MalformedRecord => "malformed_record",
            Self::Duplicate => "duplicate",
            Self::Closed => "closed",
        }
    }
}

impl From<OpenError> for Dropped {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Replayed | OpenError::Stale => Self::Replayed,
            OpenError::Short | OpenError::Clear | OpenError::Forged => Self::Forged,
            OpenError::TooManySources => Self::UnknownStream,
        }
    }
}

impl From<record::OpenError> for Dropped {
    fn from(error: record::OpenError) -> Self {
        match error {
            record::OpenError::Malformed => Self::MalformedRecord,
            record::OpenError::Replayed | record::OpenError::Stale => Self::Replayed,
            record::OpenError::Forged => Self::Forged,
        }
    }
}

/// A packet that [`Session::seal`](super::Session::seal) wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes written: a whole datagram.
    pub len: usize,
    /// Extended sequence number of this sender; keep it to answer NACKs.
    pub sequence: u64,
}
