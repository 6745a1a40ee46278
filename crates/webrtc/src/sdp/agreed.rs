//! What two ends agree on for one track or one `m=` line.

use glassline_media::{Codec, Kind, Ssrc};

use super::attribute::StreamId;
use super::extensions::ExtensionIds;

/// One of our tracks that the peer takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedTrack {
    /// Which of the tracks given to [`negotiate`](super::negotiate); of an answer, which of the `m=`
    /// lines on which our offer sends.
    pub track: usize,
    /// Which `m=` line, from 0.
    pub line: usize,
    /// Its tag; empty if the offer has none, which a lone `m=` line may.
    pub mid: String,
    /// The coding.
    pub codec: Codec,
    /// 0..=127, never 64..=95 (RFC 5761 §4).
    pub payload_type: u8,
    /// What the peer says of how it wants the coding: its `a=fmtp`, empty without one.
    pub parameters: String,
    /// Payload type of retransmissions (RFC 4588); only where NACK is agreed.
    pub rtx_payload_type: Option<u8>,
    /// Payload type of packets that repeat those before (RFC 2198); Opus only, and only
    /// where both ends want it.
    pub red_payload_type: Option<u8>,
    /// Header extensions that every packet of the track may carry.
    pub extensions: ExtensionIds,
    /// What feedback the peer sends.
    pub feedback: Feedback,
    /// RTCP may come without a leading report (RFC 5506).
    pub reduced_size_rtcp: bool,
}

/// An `m=` line on which the peer sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedMedia {
    /// Which `m=` line, from 0.
    pub line: usize,
    /// Its tag.
    pub mid: String,
    /// Video or audio.
    pub kind: Kind,
    /// What may come, most likely first; never empty.
    pub codecs: Vec<AgreedCodec>,
    /// The RTP source, if announced.
    pub ssrc: Option<Ssrc>,
    /// The source of its retransmissions, if announced.
    pub rtx_ssrc: Option<Ssrc>,
    /// The MediaStream and track, if announced.
    pub stream_id: Option<StreamId>,
    /// Header extensions that packets may carry.
    pub extensions: ExtensionIds,
    /// RTCP may go without a leading report (RFC 5506).
    pub reduced_size_rtcp: bool,
}

/// A payload type that may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedCodec {
    /// 0..=127.
    pub payload_type: u8,
    /// The coding.
    pub codec: Codec,
    /// The peer's `fmtp`, empty without one.
    pub parameters: String,
    /// Payload type of its retransmissions.
    pub rtx_payload_type: Option<u8>,
    /// Payload type of packets that repeat those before (RFC 2198): each block in them
    /// is of `payload_type`.
    pub red_payload_type: Option<u8>,
    /// The feedback that the peer acts on.
    pub feedback: Feedback,
}

/// The RTCP feedback agreed for a payload type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Generic NACK (RFC 4585 §6.2.1).
    pub nack: bool,
    /// Picture loss indication (RFC 4585 §6.3.1).
    pub pli: bool,
    /// Full intra request (RFC 5104 §4.3.1).
    pub fir: bool,
    /// Transport-wide congestion control; only with its header extension.
    pub transport_cc: bool,
}
