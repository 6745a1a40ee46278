//! Session descriptions: parsing, answering and offering.
//!
//! ```text
//! text ─ parse ─► SessionDescription ─ negotiate(wanted) ─► Negotiated ─ answer ─► text   (server)
//! offer ─► SessionDescription ─► text … answer text ─ apply_answer ─► Agreed              (client)
//! text ─ parse ─► Fragment ─ restart_fragment ─► text                                     (PATCH)
//! ```
//!
//! The parser is strict about the form of each line and of every attribute that the session acts
//! on, and names the offending line. Unknown attributes are kept unchanged. Descriptions that are
//! written here can be parsed again to the same value.
//!
//! The answering end is ICE-lite, and the DTLS server unless the offer is `setup:passive`. Either
//! end may send, receive or both on one `m=` line, and may have data channels, with media or alone.
//! An answer rejects `m=` lines that are not wanted, and accepts the others; a publisher's offer
//! ([`AnswerOptions::publication`]) is answered as a whole or refused. Simulcast is only received.
//!
//! ```
//! use glassline_webrtc::sdp::SessionDescription;
//!
//! let text = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
//!             m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=recvonly\r\n\
//!             a=rtpmap:111 opus/48000/2\r\n";
//! let description = SessionDescription::parse(text)?;
//! let audio = &description.media[0];
//! assert_eq!(audio.attributes.mid(), Some("0"));
//! assert!(description.direction(0).receives());
//! assert_eq!(audio.attributes.rtpmap(111).map(|map| map.clock_rate), Some(48_000));
//! assert_eq!(description.to_string(), text);
//!
//! let error = SessionDescription::parse("v=0\r\nnot SDP").unwrap_err();
//! assert_eq!(error.line, 2);
//! # Ok::<(), glassline_webrtc::sdp::Error>(())
//! ```
//!
//! Sources: RFC 8866 (SDP), RFC 3264 and 8829 (offer/answer), RFC 9143 (BUNDLE), RFC 8839 and 8840
//! (ICE), RFC 8842 (DTLS), RFC 9725 (WHIP), RFC 8851 to 8853 (RID, simulcast), RFC 6184 §8 (H.264), RFC 7587 (Opus), RFC 4585 and 5104 (feedback),
//! RFC 4588 (RTX), draft-ietf-payload-flexible-fec-scheme-03 and RFC 5956 (FlexFEC), RFC 8285 (header extensions), RFC 8841 (data channels).

mod agree;
mod agreed;
mod answer;
mod answer_line;
mod attribute;
mod attributes;
mod candidate;
mod credentials;
mod data;
mod description;
mod error;
mod extensions;
mod fec;
mod fingerprint;
mod format;
mod fragment;
mod h264;
mod limits;
mod lines;
mod negotiate;
mod offer;
mod opus;
mod simulcast;
#[cfg(test)]
mod tests;
mod transport;

pub use agree::{Agreed, AnswerError, apply_answer};
pub use agreed::{AgreedCodec, AgreedFec, AgreedMedia, Feedback, NegotiatedTrack};
pub use answer::{LocalDescription, SenderSsrc, answer};
pub use attribute::{
    Attribute, Direction, ExtensionMap, FormatParameters, Group, Msid, RtcpFeedback, RtpMap, Setup,
    SsrcAttribute, SsrcGroup,
};
pub use attributes::Attributes;
pub use candidate::{Address, Candidate, CandidateKind, Protocol};
pub use credentials::IceCredentials;
pub use data::{AgreedData, DataParameters};
pub use description::{MediaDescription, Origin, SessionDescription};
pub use error::{Error, Reason};
pub use extensions::{
    ABS_CAPTURE_TIME_URI, ABS_SEND_TIME_URI, DEPENDENCY_DESCRIPTOR_URI, ExtensionIds, MID_URI,
    REPAIRED_RID_URI, RID_URI, TRANSPORT_CC_URI,
};
pub use fingerprint::{Fingerprint, HashAlgorithm};
pub use fragment::{Fragment, restart_fragment};
pub use h264::{H264Profile, ProfileLevelId};
pub use limits::{ATTRIBUTES_MAX, BYTES_MAX, LINES_MAX, MEDIA_MAX};
pub use negotiate::{
    AnswerOptions, Negotiated, NegotiationError, negotiate, receives_codec, receives_kind,
};
pub use offer::{OfferParameters, OfferedMedia, offer};
pub use opus::{OpusOptions, OpusParameters, Redundancy};
pub use transport::RemoteTransport;
