//! What an answer states on each `m=` line of the offer.

use glassline_media::{Codec, TrackIndex};

use super::agreed::{AgreedCodec, AgreedMedia, Feedback, NegotiatedTrack};
use super::attribute::{Direction, ExtensionMap};
use super::description::{MediaDescription, SessionDescription};
use super::extensions::ExtensionIds;

/// The statements of the answer on one `m=` line of the offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerLine {
    pub(super) kind: String,
    pub(super) protocol: String,
    /// First format of the offer, which is repeated if the line is rejected.
    pub(super) format: String,
    pub(super) mid: Option<String>,
    /// The agreement for the line; `None` if it is rejected.
    pub(super) content: Option<Content>,
}

/// The agreement for an `m=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Media(MediaLine),
    Data,
}

/// The statements of the answer on an accepted `m=` line of video or audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MediaLine {
    pub(super) direction: Direction,
    /// Index into [`Negotiated::tracks`](super::Negotiated::tracks), if we send on the line.
    pub(super) track: Option<usize>,
    pub(super) codec: Codec,
    pub(super) payload_type: u8,
    pub(super) rtx_payload_type: Option<u8>,
    pub(super) red_payload_type: Option<u8>,
    pub(super) prefers_red: bool,
    pub(super) fec_payload_type: Option<u8>,
    pub(super) fmtp: Option<String>,
    pub(super) feedback: Feedback,
    pub(super) reduced_size_rtcp: bool,
    pub(super) extension_maps: Vec<ExtensionMap>,
    /// Further formats in which the peer may send.
    pub(super) more: Vec<FurtherFormat>,
    /// RIDs of the simulcast layers that are received.
    pub(super) rids: Vec<String>,
}

/// A format in which the peer may send, besides that of its [`MediaLine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FurtherFormat {
    pub(super) codec: Codec,
    pub(super) payload_type: u8,
    pub(super) rtx_payload_type: Option<u8>,
    pub(super) fmtp: Option<String>,
    pub(super) feedback: Feedback,
}

impl AnswerLine {
    /// Creates the answer for a line that is not wanted.
    pub(super) fn rejected(media: &MediaDescription) -> Self {
        Self {
            kind: media.kind.clone(),
            protocol: media.protocol.clone(),
            format: media.formats.first().cloned().unwrap_or_default(),
            mid: media.attributes.mid().map(str::to_owned),
            content: None,
        }
    }
}

impl MediaLine {
    /// Returns the track that we send on the line.
    pub(super) fn track(
        &self,
        offer: &SessionDescription,
        line: usize,
        track: TrackIndex,
        extensions: ExtensionIds,
    ) -> NegotiatedTrack {
        let attributes = &offer.media[line].attributes;
        NegotiatedTrack {
            track,
            line,
            mid: attributes.mid().unwrap_or_default().to_owned(),
            codec: self.codec,
            payload_type: self.payload_type,
            parameters: attributes.parameters(self.payload_type),
            rtx_payload_type: self.rtx_payload_type,
            red_payload_type: self.red_payload_type,
            prefers_red: self.prefers_red,
            fec_payload_type: self.fec_payload_type,
            extensions,
            feedback: self.feedback,
            reduced_size_rtcp: self.reduced_size_rtcp,
            rids: Vec::new(),
        }
    }

    /// Returns what the peer sends on the line.
    pub(super) fn reception(
        &self,
        offer: &SessionDescription,
        line: usize,
        extensions: ExtensionIds,
    ) -> AgreedMedia {
        let attributes = &offer.media[line].attributes;
        let (ssrc, rtx_ssrc) = attributes.sources();
        let first = AgreedCodec {
            payload_type: self.payload_type,
            codec: self.codec,
            parameters: attributes.parameters(self.payload_type),
            rtx_payload_type: self.rtx_payload_type,
            red_payload_type: self.red_payload_type,
            feedback: self.feedback,
        };
        let more = self.more.iter().map(|it| AgreedCodec {
            payload_type: it.payload_type,
            codec: it.codec,
            parameters: attributes.parameters(it.payload_type),
            rtx_payload_type: it.rtx_payload_type,
            red_payload_type: None,
            feedback: it.feedback,
        });
        AgreedMedia {
            line,
            mid: attributes.mid().unwrap_or_default().to_owned(),
            kind: self.codec.kind(),
            codecs: [first].into_iter().chain(more).collect(),
            ssrc,
            rtx_ssrc,
            // A publisher's losses are repaired on request.
            fec: None,
            msid: attributes.msid().cloned(),
            extensions,
            reduced_size_rtcp: self.reduced_size_rtcp,
            rids: self.rids.clone(),
        }
    }
}
