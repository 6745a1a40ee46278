use glassline_media::{Codec, Kind};

use crate::sdp::attribute::Setup;

/// The reason why an offer cannot be answered with media. The peer is at fault, except where noted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// There is no codec in common: answer with HTTP 406 and the codecs that were offered.
    #[error("no {kind} codec in common: the stream has {wanted}, the offer has {}", list(.offered))]
    NoCodec {
        /// Kind of the track without a codec.
        kind: Kind,
        /// Codec that we send.
        wanted: String,
        /// Codecs that the offer can decode, most preferred first, at most 32.
        offered: Vec<String>,
    },
    /// None of our tracks can be sent over WebRTC: the stream is at fault.
    #[error("the stream has {has}, which browsers do not play; they play {BROWSERS_PLAY}")]
    NothingPlayable {
        /// Codecs of its tracks.
        has: String,
    },
    /// The offer wants video, but browsers show frames in the order in which they arrive: the
    /// stream is at fault.
    #[error(
        "the stream's {codec} has B-frames, which browsers show in the wrong order; encode it \
         without (x264, x265: bframes=0) or watch it over RTSP"
    )]
    Reordered {
        /// Codec of the video.
        codec: Codec,
    },
    /// No `m=` line accepts any of our tracks.
    #[error("no m= line receives {wanted}; the offer has {}", list(.offered))]
    NoMedia {
        /// Kinds of media that we send.
        wanted: String,
        /// The `m=` lines with their directions.
        offered: Vec<String>,
    },
    /// There is nothing to send, and no `m=` line sends what would be received.
    #[error(
        "no m= line sends {wanted} in a codec that can be received here; the offer has {}",
        list(.offered)
    )]
    NothingSent {
        /// Kinds of media that we receive.
        wanted: String,
        /// The `m=` lines with their directions.
        offered: Vec<String>,
    },
    /// Only data channels are wanted, and the offer has none.
    #[error(
        "no m= line for data channels (m=application with UDP/DTLS/SCTP webrtc-datachannel); \
         the offer has {}", list(.offered)
    )]
    NoData {
        /// The `m=` lines of the offer.
        offered: Vec<String>,
    },
    /// An `m=` line of a publisher's offer cannot be received, and part of an offer is not
    /// answered: answer with HTTP 422.
    #[error("{media}: {why}")]
    Unsupported {
        /// Name of the `m=` line.
        media: String,
        /// Reason, and what to offer.
        why: String,
    },
    /// The media is not encrypted.
    #[error("{media}: {protocol} is not encrypted; offer UDP/TLS/RTP/SAVPF")]
    NoSecureTransport {
        /// Name of the `m=` line.
        media: String,
        /// Protocol of the `m=` line.
        protocol: String,
    },
    /// The media do not share one transport.
    #[error("{media}: not in the a=group:BUNDLE of the others; offer all media in one bundle")]
    NoBundle {
        /// Name of the first `m=` line outside of the bundle.
        media: String,
    },
    /// RTCP is on a port of its own.
    #[error("{media}: no a=rtcp-mux; RTP and RTCP must share the transport")]
    NoRtcpMux {
        /// Name of the `m=` line.
        media: String,
    },
    /// There is no fingerprint to check the DTLS certificate against.
    #[error("{media}: no a=fingerprint by SHA-256, SHA-384 or SHA-512")]
    NoFingerprint {
        /// Name of the `m=` line.
        media: String,
    },
    /// There are no ICE credentials.
    #[error("{media}: no a=ice-ufrag and a=ice-pwd")]
    NoIce {
        /// Name of the `m=` line.
        media: String,
    },
    /// The peer is ICE-lite, as this end is, so neither would send checks.
    #[error("a=ice-lite: this end is ICE-lite too, one must be a full agent")]
    BothIceLite,
    /// The peer does not connect now.
    #[error("{media}: a=setup:{}; offer actpass, active or passive", .setup.as_str())]
    DtlsRole {
        /// Name of the `m=` line.
        media: String,
        /// Role that the offer states.
        setup: Setup,
    },
}

/// The codecs of [`Codec::is_played_by_browsers`], for error texts.
const BROWSERS_PLAY: &str = "H.264, VP8, VP9, AV1, H.265, Opus and G.711";

pub(super) fn list(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}
