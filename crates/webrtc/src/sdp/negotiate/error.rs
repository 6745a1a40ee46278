use glassline_media::{Codec, Kind};

use crate::sdp::attribute::Setup;

/// Why an offer cannot be answered with media. The peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// The codecs do not meet: HTTP 406 with what was offered.
    #[error("no {kind} codec in common: sent is {wanted}; offered is {}", list(.offered))]
    NoCodec {
        /// Which kind of track has no codec.
        kind: Kind,
        /// What we send.
        wanted: String,
        /// What the offer decodes, most wanted first, at most 32.
        offered: Vec<String>,
    },
    /// No track of ours is for WebRTC at all: the stream's fault.
    #[error("the stream has {has}, which browsers do not play; they take {BROWSERS_PLAY}")]
    NothingPlayable {
        /// Its tracks.
        has: String,
    },
    /// The frame is wanted, but browsers show frames in the order they come in.
    #[error(
        "the stream's {codec} has B-frames, which browsers show in the wrong order; encode it \
         without (x264, x265: bframes=0) or watch it over RTSP"
    )]
    Reordered {
        /// Of the frame.
        codec: Codec,
    },
    /// No `m=` line takes any of our tracks.
    #[error("no m= line wants to receive {wanted}; offered is {}", list(.offered))]
    NoMedia {
        /// The kinds that we send.
        wanted: String,
        /// The `m=` lines with their direction.
        offered: Vec<String>,
    },
    /// There is nothing to send, and no `m=` line sends what would be received.
    #[error(
        "no m= line sends {wanted} in a coding that is received here; offered is {}",
        list(.offered)
    )]
    NothingSent {
        /// The kinds that we receive.
        wanted: String,
        /// The `m=` lines with their direction.
        offered: Vec<String>,
    },
    /// Nothing but data is wanted, and the offer has none.
    #[error(
        "no m= line for data channels (m=application with UDP/DTLS/SCTP webrtc-datachannel); \
         offered is {}", list(.offered)
    )]
    NoData {
        /// The `m=` lines.
        offered: Vec<String>,
    },
    /// Media in the clear.
    #[error("{media}: {protocol} is not encrypted; offer UDP/TLS/RTP/SAVPF")]
    NoSecureTransport {
        /// The `m=` line.
        media: String,
        /// Its protocol.
        protocol: String,
    },
    /// All media must share one transport.
    #[error("{media}: not in the a=group:BUNDLE of the others; offer all media in one bundle")]
    NoBundle {
        /// The first `m=` line outside.
        media: String,
    },
    /// RTCP on a port of its own.
    #[error("{media}: no a=rtcp-mux; RTP and RTCP must share the transport")]
    NoRtcpMux {
        /// The `m=` line.
        media: String,
    },
    /// Nothing to check the DTLS certificate against.
    #[error("{media}: no a=fingerprint by SHA-256, SHA-384 or SHA-512")]
    NoFingerprint {
        /// The `m=` line.
        media: String,
    },
    /// No ICE credentials.
    #[error("{media}: no a=ice-ufrag and a=ice-pwd")]
    NoIce {
        /// The `m=` line.
        media: String,
    },
    /// The peer is ICE-lite as we are, so nobody would send checks.
    #[error("a=ice-lite: this end is ICE-lite too, one must be a full agent")]
    BothIceLite,
    /// The peer insists on the role that we have.
    #[error("{media}: a=setup:{}; this end is the DTLS server, offer actpass or active", .setup.as_str())]
    DtlsRole {
        /// The `m=` line.
        media: String,
        /// What it says.
        setup: Setup,
    },
}

/// [`Codec::is_played_by_browsers`] in words.
const BROWSERS_PLAY: &str = "H.264, VP8, VP9, AV1, H.265, Opus and G.711";

pub(super) fn list(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}
