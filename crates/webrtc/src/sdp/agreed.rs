//! What two ends agree on for one track or one `m=` line.

use glassline_media::{Codec, Kind, Ssrc, TrackIndex};

use super::attribute::Msid;
use super::extensions::ExtensionIds;

/// A track of ours that the peer accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedTrack {
    /// Index into the tracks that were passed to [`negotiate`](super::negotiate()); for an
    /// answer, index among the `m=` lines on which our offer sends.
    pub track: TrackIndex,
    /// Index of the `m=` line.
    pub line: usize,
    /// Identification tag of the line; empty if the offer has none, which is allowed for a
    /// single line.
    pub mid: String,
    /// Codec of the track.
    pub codec: Codec,
    /// Payload type, 0..=127 but never 64..=95 (RFC 5761 §4).
    pub payload_type: u8,
    /// Format parameters that the peer asks for: its `a=fmtp`, empty without one.
    pub parameters: String,
    /// Payload type of retransmissions (RFC 4588); only if NACK is agreed on.
    pub rtx_payload_type: Option<u8>,
    /// Payload type of packets with redundancy (RFC 2198); for Opus only, and only if both ends
    /// want it.
    pub red_payload_type: Option<u8>,
    /// Whether an end prefers redundancy to the codec itself.
    pub prefers_red: bool,
    /// Payload type of FEC packets (FlexFEC); for video only, and only if the peer offers it.
    pub fec_payload_type: Option<u8>,
    /// Header extensions that every packet of the track may carry.
    pub extensions: ExtensionIds,
    /// Feedback that the peer sends.
    pub feedback: Feedback,
    /// Whether RTCP may arrive without a leading report (RFC 5506).
    pub reduced_size_rtcp: bool,
    /// RIDs of our layers that the peer receives, in our order (RFC 8853); empty without simulcast.
    pub rids: Vec<String>,
}

/// An `m=` line on which the peer sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedMedia {
    /// Index of the `m=` line.
    pub line: usize,
    /// Identification tag of the line.
    pub mid: String,
    /// Kind of media: video or audio.
    pub kind: Kind,
    /// Codecs in which the peer may send, most likely first; never empty.
    pub codecs: Vec<AgreedCodec>,
    /// SSRC of the media, if announced.
    pub ssrc: Option<Ssrc>,
    /// SSRC of the retransmissions, if announced.
    pub rtx_ssrc: Option<Ssrc>,
    /// FEC packets, if both ends agree on them and their SSRC is announced.
    pub fec: Option<AgreedFec>,
    /// MediaStream and track, if announced.
    pub msid: Option<Msid>,
    /// Header extensions that packets may carry.
    pub extensions: ExtensionIds,
    /// Whether RTCP may be sent without a leading report (RFC 5506).
    pub reduced_size_rtcp: bool,
    /// RIDs of the simulcast layers that the peer sends, in its order (RFC 8853); empty without
    /// simulcast.
    pub rids: Vec<String>,
}

/// FEC packets (FlexFEC) that the peer may send beside the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedFec {
    /// Payload type in 0..=127.
    pub payload_type: u8,
    /// SSRC of the packets.
    pub ssrc: Ssrc,
    /// SSRC of the media that they protect.
    pub protected: Ssrc,
}

/// A payload type in which the peer may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedCodec {
    /// Payload type in 0..=127.
    pub payload_type: u8,
    /// Codec of the payload type.
    pub codec: Codec,
    /// Format parameters of the peer: its `a=fmtp`, empty without one.
    pub parameters: String,
    /// Payload type of retransmissions.
    pub rtx_payload_type: Option<u8>,
    /// Payload type of packets with redundancy (RFC 2198), whose blocks all have
    /// `payload_type`.
    pub red_payload_type: Option<u8>,
    /// Feedback to which the peer reacts.
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
    /// Transport-wide congestion control feedback; only together with its header extension.
    pub transport_cc: bool,
}
