use std::collections::VecDeque;
use std::time::Duration;

use glassline_media::TrackIndex;
use glassline_rtp as rtp;

use super::index::{LayerIndex, ReceiverIndex, SenderIndex};
use crate::TransportAddress;
use crate::dtls::record;
use crate::ice::Ignored;
use crate::srtp::{OpenError, Profile};

/// An event that a session reports to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done: [`Session::seal`](super::Session::seal) works from now on.
    Connected {
        /// SRTP profile that protects media; `None` in a session with data channels only.
        profile: Option<Profile>,
    },
    /// The peer's decoder needs a keyframe (PLI, RFC 4585 §6.3.1, or FIR, RFC 5104 §4.3.1).
    KeyframeRequest {
        /// Index of the track in the stream.
        track: TrackIndex,
        /// Sender from which the keyframe is requested.
        sender: SenderIndex,
    },
    /// The peer requests lost packets (RFC 4585 §6.2.1). Answer with
    /// [`Session::seal_retransmission`](super::Session::seal_retransmission).
    Nack {
        /// Index of the track in the stream.
        track: TrackIndex,
        /// Sender of the lost packets.
        sender: SenderIndex,
        /// Extended sequence numbers as in [`Sealed::sequence`], at most [`NACK_LOST_MAX`].
        lost: Vec<u64>,
    },
    /// The peer reports how one of our senders is received (RFC 3550 §6.4.1).
    ReceiverReport {
        /// Index of the track in the stream.
        track: TrackIndex,
        /// Sender that the report describes.
        sender: SenderIndex,
        /// Fraction of packets lost since the last report, in 256ths.
        fraction_lost: u8,
        /// Number of packets lost since the start; duplicates can make it negative.
        cumulative_lost: i32,
        /// Interarrival jitter of the stream.
        jitter: Duration,
        /// Round-trip time by the last sender report, if the peer has received one.
        rtt: Option<Duration>,
    },
    /// The peer reports which packets arrived
    /// (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    TransportFeedback {
        /// Number of packets newly reported as arrived.
        acked: u32,
        /// Size of those packets in bytes, without UDP and IP headers.
        acked_bytes: u64,
        /// Number of packets newly reported missing.
        lost: u32,
    },
    /// Datagrams for the peer go to another address from now on.
    AddressChanged {
        /// The new remote address.
        peer: TransportAddress,
    },
    /// The session is over. [`Session::poll_transmit`](super::Session::poll_transmit) may still
    /// return datagrams that tell the peer.
    Closed(CloseReason),
}

/// Most events that are kept until they are polled. Owners poll after every input, so only an
/// owner that stopped polling reaches the limit; newer events are then dropped.
const EVENTS_MAX: usize = 64;

/// Events that were not polled yet.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    waiting: VecDeque<Event>,
    dropped: u64,
}

impl EventQueue {
    /// Appends an event, or counts it as dropped if the queue is full.
    pub(super) fn push(&mut self, event: Event) {
        if self.waiting.len() < EVENTS_MAX {
            self.waiting.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Appends the last event of a session, even if the queue is full.
    pub(super) fn push_last(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// Removes and returns the oldest event.
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Returns whether an equal event is in the queue.
    pub(super) fn contains(&self, event: &Event) -> bool {
        self.waiting.contains(event)
    }

    /// Number of events that were dropped because the queue was full.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Most packets in one [`Event::Nack`]. A peer that misses more needs a keyframe.
pub const NACK_LOST_MAX: usize = 256;

/// The reason why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This end called [`Session::close`](super::Session::close).
    #[error("closed by this end")]
    Local,
    /// The peer closed the session with a DTLS close_notify or fatal alert.
    #[error("closed by the peer")]
    Peer,
    /// ICE and DTLS did not finish before the handshake deadline.
    #[error("ICE and DTLS did not finish in time")]
    HandshakeTimeout,
    /// The peer's certificate has another fingerprint than its SDP announced: somebody may be
    /// intercepting the connection.
    #[error("the peer's certificate does not match the fingerprint in its SDP")]
    WrongFingerprint,
    /// The DTLS handshake failed for another reason, for example no common cipher suite or a
    /// bad signature.
    #[error("the DTLS handshake failed")]
    HandshakeFailed,
    /// The keys of the data records have sealed as much as is safe ([`record::SealError`]).
    /// Connect again.
    #[error("the keys of the data records are used up: connect again")]
    KeysExhausted,
    /// The peer agreed to no SRTP profile.
    #[error("the peer agreed to no SRTP profile")]
    NoSrtpProfile,
    /// The peer stopped answering connectivity checks (RFC 7675).
    #[error("the peer stopped answering connectivity checks")]
    Vanished,
}

impl CloseReason {
    /// Returns the name of the reason as the label of a metric.
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

/// The content of a datagram.
#[derive(Debug)]
#[non_exhaustive]
pub enum Received<'a> {
    /// STUN, DTLS or RTCP, which the session has handled. Poll for its effects.
    Consumed,
    /// An RTP packet, decrypted in place. A retransmission is restored to the original packet.
    Rtp {
        /// Receiver of the packet.
        receiver: ReceiverIndex,
        /// Simulcast layer of the packet; the first one without simulcast.
        layer: LayerIndex,
        /// Extended sequence number of the original packet.
        sequence: u64,
        /// Whether the packet arrived as a retransmission.
        repaired: bool,
        /// The packet as it was sent originally.
        packet: rtp::Packet<'a>,
    },
    /// An RTP packet in [`ReceiveMode::CountOnly`](super::ReceiveMode::CountOnly).
    Counted {
        /// Receiver of the packet.
        receiver: ReceiverIndex,
        /// Extended sequence number, not authenticated.
        sequence: u64,
        /// Whether the packet arrived as a retransmission.
        repaired: bool,
        /// RTP header, not authenticated.
        header: rtp::Header,
    },
}

/// The reason why a datagram was dropped. Count it and continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// The first byte is none of STUN, DTLS or RTP (RFC 7983).
    #[error("neither STUN, DTLS nor RTP")]
    Unknown,
    /// The STUN message does not parse.
    #[error("malformed STUN")]
    MalformedStun,
    /// A STUN message has a wrong user name or message integrity, or is a response to no
    /// request.
    #[error("STUN not for this session")]
    ForeignStun,
    /// STUN arrived from more addresses than a peer may have.
    #[error("too many remote addresses")]
    TooManyAddresses,
    /// The datagram is from an address that ICE did not validate.
    #[error("address not validated by ICE")]
    UnknownAddress,
    /// RTP or RTCP arrived before the handshake finished.
    #[error("media before the handshake finished")]
    TooEarly,
    /// The RTP packet does not parse.
    #[error("malformed RTP")]
    MalformedRtp,
    /// The RTP packet has an SSRC or payload type that was not negotiated.
    #[error("RTP of no negotiated stream")]
    UnknownStream,
    /// The packet or DTLS record was received before, or is too old to be checked for that.
    #[error("replayed")]
    Replayed,
    /// The packet or DTLS record fails authentication.
    #[error("authentication failed")]
    Forged,
    /// The DTLS record is damaged, or does not belong to this handshake.
    #[error("malformed DTLS record")]
    MalformedRecord,
    /// The packet was received already, or retransmitted twice.
    #[error("duplicate")]
    Duplicate,
    /// The peer sends more transport feedback than it can have to say; the other packets of the
    /// datagram are handled.
    #[error("too much transport feedback")]
    ExcessFeedback,
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
    /// Returns the name of the reason as the label of a metric.
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
            Self::ExcessFeedback => "excess_feedback",
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

/// A packet that [`Session::seal`](super::Session::seal) has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Length of the datagram in bytes.
    pub len: usize,
    /// Extended sequence number of the packet. The caller keeps it to answer NACKs.
    pub sequence: u64,
}
