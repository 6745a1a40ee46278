//! Negotiation of FlexFEC (draft-ietf-payload-flexible-fec-scheme-03 §5) in the form of libwebrtc.

use glassline_media::{Kind, Ssrc};

use super::attribute::{Attribute, FormatParameters, RtpMap, SsrcGroup};
use super::attributes::Attributes;
use super::description::MediaDescription;
use super::format;

/// Encoding name in SDP. `flexfec` alone is RFC 8627's, whose packets differ.
const ENCODING: &str = "flexfec-03";

/// Clock rate in Hz, that of video.
const CLOCK_RATE: u32 = 90_000;

/// Format parameters: the time in µs that packets of one group may be apart, as libwebrtc states it.
const PARAMETERS: &str = "repair-window=10000000";

/// Semantics of the group of a media SSRC and the SSRC that protects it (RFC 5956 §4.3).
const GROUP: &str = "FEC-FR";

/// Returns the payload type of FEC packets on a line of video, if the line has one.
pub(super) fn payload_type_of(media: &MediaDescription) -> Option<u8> {
    let is_fec = |payload_type: &u8| {
        media.attributes.rtpmap(*payload_type).is_some_and(|map| {
            map.encoding.eq_ignore_ascii_case(ENCODING) && map.clock_rate == CLOCK_RATE
        })
    };
    let is_video = media.media_kind() == Some(Kind::Video);
    format::payload_types(media).find(|it| is_video && is_fec(it))
}

/// Appends the description of the payload type.
pub(super) fn push(attributes: &mut Attributes, payload_type: u8) {
    attributes.push(Attribute::RtpMap(RtpMap {
        payload_type,
        encoding: ENCODING.to_owned(),
        clock_rate: CLOCK_RATE,
        channels: None,
    }));
    attributes.push(Attribute::FormatParameters(FormatParameters {
        payload_type,
        parameters: PARAMETERS.to_owned(),
    }));
}

/// Returns the group of a media SSRC with the one that protects it.
pub(super) fn group(media: Ssrc, fec: Ssrc) -> Attribute {
    Attribute::SsrcGroup(SsrcGroup {
        semantics: GROUP.to_owned(),
        ssrcs: vec![media, fec],
    })
}

/// Returns the SSRC of the FEC packets that protect `media`, if it is announced.
pub(super) fn source_of(attributes: &Attributes, media: Ssrc) -> Option<Ssrc> {
    let mut groups = attributes.ssrc_groups();
    groups.find_map(|group| match group.ssrcs[..] {
        [protected, fec] if group.semantics == GROUP && protected == media => Some(fec),
        _ => None,
    })
}
