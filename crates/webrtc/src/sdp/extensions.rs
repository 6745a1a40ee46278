//! RTP header extensions: their URIs, and which of them an answer accepts.

use super::attribute::{Attribute, Direction, ExtensionMap};
use super::description::{MediaDescription, SessionDescription};

/// URI of the MID header extension (RFC 9143 §15).
pub const MID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:mid";
/// URI of the transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01).
pub const TRANSPORT_CC_URI: &str =
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
/// URI of the absolute send time (24 bits, seconds in 6.18 fixed point).
pub const ABS_SEND_TIME_URI: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";

/// URI of the RID of a simulcast layer (RFC 8852 §4.1).
pub const RID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id";
/// URI of the RID of the layer that a retransmission repairs (RFC 8852 §4.2).
pub const REPAIRED_RID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id";
/// URI of the capture time of a frame (64 bits, NTP).
pub const ABS_CAPTURE_TIME_URI: &str =
    "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time";

/// URI of the dependency descriptor (RTP Payload Format For AV1, appendix A).
pub const DEPENDENCY_DESCRIPTOR_URI: &str =
    "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";

/// Ids of the agreed header extensions, 1..=14, for which the one-byte form suffices (RFC 8285
/// §4.2). Together those that we send take at most 20 bytes, header included.
///
/// A track with NACK but without RTX does not have the send time: its retransmissions repeat the
/// packet byte for byte under the same SRTP index, which is safe only if nothing in the packet
/// changes with each sending. They repeat the transport-wide sequence number, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionIds {
    /// Id of the identification tag (MID).
    pub mid: Option<u8>,
    /// Id of the transport-wide sequence number.
    pub transport_cc: Option<u8>,
    /// Id of the send time. Only used without the transport-wide sequence number, since both
    /// serve the same estimate.
    pub abs_send_time: Option<u8>,
    /// Id of the RID. Only agreed on for what a publisher sends, as are the next two.
    pub rid: Option<u8>,
    /// Id of the RID of the layer that a retransmission repairs.
    pub repaired_rid: Option<u8>,
    /// Id of the capture time.
    pub capture_time: Option<u8>,
    /// Id of the dependency descriptor. Those of keyframes need the two-byte form.
    pub dependency_descriptor: Option<u8>,
}

/// The use of the header extensions of an accepted line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtensionUse {
    /// We send on the line; `repeats` says that a retransmission repeats the packet byte for byte.
    Sending { repeats: bool },
    /// A publisher sends on the line, and we do not.
    Publication,
}

/// Returns the header extensions of an accepted line, and the lines of the answer for them.
///
/// `known` holds the ids of the bundle's other lines: an id has one meaning within a bundle
/// (RFC 9143 §7.1), so a line with another meaning does without the extension.
pub(super) fn accepted(
    offer: &SessionDescription,
    media: &MediaDescription,
    purpose: ExtensionUse,
    known: &mut Vec<(u16, String)>,
) -> (ExtensionIds, Vec<ExtensionMap>) {
    let mixed = Attribute::ExtensionMapMixed;
    let may_mix = offer.attributes.has(&mixed) || media.attributes.has(&mixed);
    let mut maps = Vec::new();
    let mut accept = |uri: &str| {
        let here = media.attributes.extension_maps();
        let map = here
            .chain(offer.attributes.extension_maps())
            .find(|map| map.uri == uri)
            .filter(|map| {
                let fits = match purpose {
                    ExtensionUse::Sending { .. } => Direction::receives,
                    ExtensionUse::Publication => Direction::sends,
                };
                (1..=14).contains(&map.id) && map.direction.is_none_or(fits)
            })
            .filter(|map| {
                let mut same_id = known.iter().filter(|(id, _)| *id == map.id);
                same_id.all(|(_, meaning)| meaning == uri)
            })?;
        known.push((map.id, uri.to_owned()));
        maps.push(ExtensionMap {
            id: map.id,
            direction: map.direction.map(|direction| match direction {
                Direction::RecvOnly => Direction::SendOnly,
                Direction::SendOnly => Direction::RecvOnly,
                other => other,
            }),
            uri: uri.to_owned(),
            parameters: String::new(),
        });
        u8::try_from(map.id).ok()
    };
    let tag_bytes = media.attributes.mid().map_or(0, str::len);
    let mut ids = ExtensionIds::default();
    if purpose == ExtensionUse::Publication {
        return (
            ExtensionIds {
                mid: accept(MID_URI),
                transport_cc: accept(TRANSPORT_CC_URI),
                abs_send_time: None,
                rid: accept(RID_URI),
                repaired_rid: accept(REPAIRED_RID_URI),
                capture_time: accept(ABS_CAPTURE_TIME_URI),
                dependency_descriptor: may_mix.then(|| accept(DEPENDENCY_DESCRIPTOR_URI)).flatten(),
            },
            maps,
        );
    }
    ids.transport_cc = accept(TRANSPORT_CC_URI);
    if ids.transport_cc.is_none() && purpose == (ExtensionUse::Sending { repeats: false }) {
        ids.abs_send_time = accept(ABS_SEND_TIME_URI);
    }
    if (1..=MID_BYTES_MAX).contains(&tag_bytes) {
        ids.mid = accept(MID_URI);
    }
    (ids, maps)
}

/// Maximum length of a tag in bytes: 20 bytes for all extensions, minus 4 of header, 4 of send
/// time or sequence number with their length byte, and 1 for the tag's length.
const MID_BYTES_MAX: usize = 11;
