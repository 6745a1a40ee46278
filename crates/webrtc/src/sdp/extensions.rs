//! RTP header extensions: their URIs, and which of them an answer accepts.

use super::attribute::{Direction, ExtensionMap};
use super::description::{MediaDescription, SessionDescription};

/// URI of the MID header extension (RFC 9143 §15).
pub const MID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:mid";
/// URI of the transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01).
pub const TRANSPORT_CC_URI: &str =
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
/// URI of the absolute send time (24 bits, seconds in 6.18 fixed point).
pub const ABS_SEND_TIME_URI: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";

/// Ids of the agreed header extensions, 1..=14, for which the one-byte form suffices (RFC 8285
/// §4.2). Together the extensions take at most 20 bytes, header included.
///
/// A track with NACK but without RTX has neither the transport-wide sequence number nor the
/// send time: its retransmissions repeat the packet byte for byte under the same SRTP index,
/// which is safe only if nothing in the packet changes with each sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionIds {
    /// Id of the identification tag (MID).
    pub mid: Option<u8>,
    /// Id of the transport-wide sequence number.
    pub transport_cc: Option<u8>,
    /// Id of the send time. Only used without the transport-wide sequence number, since both
    /// serve the same estimate.
    pub abs_send_time: Option<u8>,
}

/// Returns the header extensions of an accepted line, and the lines of the answer for them.
///
/// `known` holds the ids of the bundle's other lines: an id has one meaning within a bundle
/// (RFC 9143 §7.1), so a line with another meaning does without the extension.
pub(super) fn accepted(
    offer: &SessionDescription,
    media: &MediaDescription,
    per_sending: bool,
    known: &mut Vec<(u16, String)>,
) -> (ExtensionIds, Vec<ExtensionMap>) {
    let mut maps = Vec::new();
    let mut accept = |uri: &str| {
        let here = media.attributes.extension_maps();
        let map = here
            .chain(offer.attributes.extension_maps())
            .find(|map| map.uri == uri)
            .filter(|map| {
                (1..=14).contains(&map.id) && map.direction.is_none_or(Direction::receives)
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
                other => other,
            }),
            uri: uri.to_owned(),
            parameters: String::new(),
        });
        u8::try_from(map.id).ok()
    };
    let tag_bytes = media.attributes.mid().map_or(0, str::len);
    let mut ids = ExtensionIds::default();
    if per_sending {
        ids.transport_cc = accept(TRANSPORT_CC_URI);
        if ids.transport_cc.is_none() {
            ids.abs_send_time = accept(ABS_SEND_TIME_URI);
        }
    }
    if (1..=MID_BYTES_MAX).contains(&tag_bytes) {
        ids.mid = accept(MID_URI);
    }
    (ids, maps)
}

/// Maximum length of a tag in bytes: 20 bytes for all extensions, minus 4 of header, 4 of send
/// time or sequence number with their length byte, and 1 for the tag's length.
const MID_BYTES_MAX: usize = 11;
