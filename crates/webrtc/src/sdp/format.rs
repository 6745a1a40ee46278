//! Selection of the payload type of an `m=` line that carries a track.

use glassline_media::{Codec, Kind, Track};
use glassline_rtp::payload;

use super::attribute::{FormatParameters, RtpMap};
use super::description::MediaDescription;
use super::h264::ProfileLevelId;

/// A payload type that was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) codec: Codec,
    pub(super) payload_type: u8,
    pub(super) rtx_payload_type: Option<u8>,
    /// Value of `a=fmtp` in the answer.
    pub(super) fmtp: Option<String>,
}

/// Returns the payload type that suits `track` best; `None` if none does.
pub(super) fn choose(media: &MediaDescription, track: &Track) -> Option<Format> {
    let codec = track.codec;
    let suited = payload_types(media).filter(|&pt| codec_of(media, pt) == Some(codec));
    let parameters = |pt| media.attributes.fmtp(pt);
    let (payload_type, fmtp) = match codec {
        Codec::H264 => {
            let stream = track.video.profile_level_id().map(ProfileLevelId);
            let (_, pt) = suited
                .filter_map(|pt| Some((h264_rank(parameters(pt)?, stream)?, pt)))
                .min_by_key(|(rank, _)| *rank)?;
            (pt, parameters(pt).map(without_parameter_sets))
        }
        Codec::Opus => {
            let pt = suited.into_iter().next()?;
            (pt, opus_answer(parameters(pt), track.channels))
        }
        Codec::Vp8 | Codec::Pcmu | Codec::Pcma => (suited.into_iter().next()?, None),
        Codec::Vp9 | Codec::Av1 | Codec::H265 => {
            let pt = suited
                .into_iter()
                .find(|&pt| profile_offered(parameters(pt), codec) == profile(track))?;
            // The profile is the offered one; the other parameters are the peer's limits.
            (pt, parameters(pt).map(|it| it.parameters.clone()))
        }
        _ => return None,
    };
    Some(Format {
        codec,
        payload_type,
        rtx_payload_type: rtx_of(media, payload_type),
        fmtp: fmtp.filter(|fmtp| !fmtp.is_empty()),
    })
}

/// Returns the first payload type of a section in which media can be received.
pub(super) fn receivable(media: &MediaDescription) -> Option<Format> {
    payload_types(media).find_map(|payload_type| {
        let codec = codec_of(media, payload_type)?;
        let parameters = media.attributes.fmtp(payload_type);
        if codec == Codec::H264 {
            h264_rank(parameters?, None)?;
        }
        Some(Format {
            codec,
            payload_type,
            rtx_payload_type: rtx_of(media, payload_type),
            fmtp: parameters.map(without_parameter_sets),
        })
    })
}

/// Returns the payload types of a publisher's section in which media can be received, at most
/// [`PUBLISHABLE_MAX`]. The profile does not matter: what arrives is passed on coded.
pub(super) fn publishable(media: &MediaDescription) -> Vec<Format> {
    let formats = payload_types(media).filter_map(|payload_type| {
        let codec = codec_of(media, payload_type).filter(|codec| is_received(*codec))?;
        let parameters = media.attributes.fmtp(payload_type);
        let mode = parameters.and_then(|it| it.get("packetization-mode"));
        // Interleaved packets (RFC 6184 §6.4) are out of decoding order.
        if codec == Codec::H264 && mode.is_some_and(|mode| !["0", "1"].contains(&mode)) {
            return None;
        }
        let fmtp = match (codec, parameters) {
            (Codec::H264, Some(parameters)) => Some(with_six_digits(parameters)),
            (_, parameters) => parameters.map(without_parameter_sets),
        };
        Some(Format {
            codec,
            payload_type,
            rtx_payload_type: rtx_of(media, payload_type),
            fmtp,
        })
    });
    let mut found: Vec<Format> = Vec::new();
    for format in formats {
        let known = found
            .iter()
            .any(|it| it.payload_type == format.payload_type);
        if !known && found.len() < PUBLISHABLE_MAX {
            found.push(format);
        }
    }
    found
}

/// Most payload types of one section that are accepted; Chromium offers 14.
const PUBLISHABLE_MAX: usize = 32;

/// Returns whether a publisher may send this codec.
const fn is_received(codec: Codec) -> bool {
    matches!(
        codec,
        Codec::H264
            | Codec::H265
            | Codec::Vp8
            | Codec::Vp9
            | Codec::Av1
            | Codec::Opus
            | Codec::Pcmu
            | Codec::Pcma
    )
}

/// Returns the offered parameters of H.264 without parameter sets and with a valid
/// `profile-level-id`.
fn with_six_digits(offered: &FormatParameters) -> String {
    let text = without_parameter_sets(offered);
    let Some(digits) = offered.get("profile-level-id") else {
        return text;
    };
    match ProfileLevelId::parse(digits) {
        Some(id) if digits.len() != 6 => text.replace(digits, &id.to_string()),
        _ => text,
    }
}

/// Returns the parameter that names the profile, and its value if it is absent: VP9 (RFC 9628
/// §6), AV1 (its RTP specification §7.2.1), H.265 (RFC 7798 §7.1).
const fn profile_parameter(codec: Codec) -> (&'static str, u8) {
    match codec {
        Codec::Av1 => ("profile", 0),
        Codec::H265 => ("profile-id", 1),
        _ => ("profile-id", 0),
    }
}

/// Returns the offered profile; `None` if it is not a number, which matches nothing.
fn profile_offered(offered: Option<&FormatParameters>, codec: Codec) -> Option<u8> {
    let (name, default) = profile_parameter(codec);
    match offered.and_then(|it| it.get(name)) {
        Some(text) => text.trim().parse().ok(),
        None => Some(default),
    }
}

/// Returns the profile of a track from its format parameters. If those of an H.265 track do not
/// state it, its parameter sets do.
fn profile(track: &Track) -> Option<u8> {
    let (name, default) = profile_parameter(track.codec);
    let stated = payload::parameter(&track.format_parameters, name);
    let stated = stated.and_then(|text| text.parse().ok());
    let in_sets = || match track.codec {
        Codec::H265 => payload::h265::profile(track),
        _ => None,
    };
    Some(stated.or_else(in_sets).unwrap_or(default))
}

/// Returns the payload types that may be used where RTCP shares the transport: 64..=95 would
/// look like RTCP (RFC 5761 §4).
pub(super) fn payload_types(media: &MediaDescription) -> impl Iterator<Item = u8> {
    media
        .payload_types()
        .filter(|payload_type| !(64..=95).contains(payload_type))
}

/// Returns the codec of a payload type by its `rtpmap` or, without one, by RFC 3551's table.
pub(super) fn codec_of(media: &MediaDescription, payload_type: u8) -> Option<Codec> {
    match media.attributes.rtpmap(payload_type) {
        Some(map) => codec_of_map(map),
        None => match payload_type {
            0 => Some(Codec::Pcmu),
            8 => Some(Codec::Pcma),
            _ => None,
        },
    }
    .filter(|codec| media.media_kind() == Some(codec.kind()))
}

/// Returns the payload type of the retransmissions of `payload_type` (RFC 4588 §8.6).
pub(super) fn rtx_of(media: &MediaDescription, payload_type: u8) -> Option<u8> {
    payload_types(media).find(|&pt| retransmits(media, pt) == Some(payload_type))
}

/// Returns the payload type whose packets are retransmitted with `payload_type`.
pub(super) fn retransmits(media: &MediaDescription, payload_type: u8) -> Option<u8> {
    let map = media.attributes.rtpmap(payload_type)?;
    if !map.encoding.eq_ignore_ascii_case("rtx") {
        return None;
    }
    let parameters = media.attributes.fmtp(payload_type)?;
    parameters.get("apt")?.parse().ok()
}

/// Returns what a track needs of an offer, for error texts.
pub(super) fn wanted(track: &Track) -> String {
    match track.codec {
        Codec::H264 => match track.video.profile_level_id() {
            Some(id) => format!(
                "H264 with packetization-mode=1 (profile-level-id={})",
                ProfileLevelId(id)
            ),
            None => "H264 with packetization-mode=1".to_owned(),
        },
        codec @ (Codec::Vp9 | Codec::Av1 | Codec::H265) => {
            let (name, _) = profile_parameter(codec);
            let profile = profile(track).unwrap_or_default();
            format!("{} ({name}={profile})", codec.encoding_name())
        }
        codec => codec.encoding_name().to_owned(),
    }
}

/// Returns the codecs of all `m=` lines of a kind, for error texts: at most 32, each once.
pub(super) fn offered<'a>(
    media: impl Iterator<Item = &'a MediaDescription>,
    kind: Kind,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for section in media.filter(|section| section.media_kind() == Some(kind)) {
        for payload_type in section.payload_types() {
            let Some(name) = offered_name(section, payload_type) else {
                continue;
            };
            if !found.contains(&name) && found.len() < 32 {
                found.push(name);
            }
        }
    }
    found
}

/// Encoding names that are not codecs of media.
const AUXILIARY: [&str; 7] = [
    "rtx",
    "red",
    "ulpfec",
    "flexfec",
    "flexfec-03",
    "telephone-event",
    "cn",
];

fn offered_name(media: &MediaDescription, payload_type: u8) -> Option<String> {
    let Some(map) = media.attributes.rtpmap(payload_type) else {
        return Some(match codec_of(media, payload_type) {
            Some(codec) => codec.encoding_name().to_owned(),
            None => format!("payload type {payload_type} without rtpmap"),
        });
    };
    let name = map.encoding.to_ascii_lowercase();
    if AUXILIARY.contains(&name.as_str()) {
        return None;
    }
    let parameters = media.attributes.fmtp(payload_type);
    if let Some(codec @ (Codec::Vp9 | Codec::Av1 | Codec::H265)) = codec_of(media, payload_type) {
        let (parameter, _) = profile_parameter(codec);
        return Some(match profile_offered(parameters, codec) {
            Some(profile) => format!("{} ({parameter}={profile})", map.encoding),
            None => map.encoding.clone(),
        });
    }
    if name != "h264" {
        return Some(map.encoding.clone());
    }
    let get = |name| parameters.and_then(|it| it.get(name));
    let mode = get("packetization-mode").unwrap_or("0");
    let profile = get("profile-level-id").unwrap_or("absent");
    Some(format!(
        "H264 (packetization-mode={mode}, profile-level-id={profile})"
    ))
}

fn codec_of_map(map: &RtpMap) -> Option<Codec> {
    let codec = Codec::from_encoding_name(&map.encoding)?;
    let channels_fit = match codec {
        // Opus always has two channels in SDP, whatever is sent (RFC 7587 §7).
        Codec::Opus => matches!(map.channels, None | Some(2)),
        _ => matches!(map.channels, None | Some(1)),
    };
    (channels_fit && map.clock_rate == codec.clock_rate()).then_some(codec)
}

/// Ranks the offered parameters for a stream, smaller is better; `None` if they cannot carry
/// what we send.
///
/// FU-A needs `packetization-mode=1` (RFC 6184 §6.3). The level only breaks ties: browsers
/// offer level 3.1 and decode 4.0 and above all the same.
fn h264_rank(offered: &FormatParameters, stream: Option<ProfileLevelId>) -> Option<(u8, bool)> {
    if offered.get("packetization-mode") != Some("1") {
        return None;
    }
    let id = match offered.get("profile-level-id") {
        Some(digits) => ProfileLevelId::parse(digits)?,
        None => ProfileLevelId::ABSENT,
    };
    let rank = id.profile().rank_for(stream.map(ProfileLevelId::profile));
    let too_low = stream.is_some_and(|stream| id.level() < stream.level());
    Some((rank, too_low))
}

/// Returns the offered parameters without parameter sets, which describe the peer's own stream.
/// The profile must be the offered one (RFC 6184 §8.2.2).
fn without_parameter_sets(offered: &FormatParameters) -> String {
    if !offered.parameters.contains("sprop-") {
        return offered.parameters.clone();
    }
    let kept = offered
        .iter()
        .filter(|(name, _)| !name.starts_with("sprop-"));
    kept.map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(";")
}

/// Returns the peer's parameters of packet duration and error correction, and whether we send
/// stereo.
fn opus_answer(offered: Option<&FormatParameters>, channels: u8) -> Option<String> {
    let mut parameters: Vec<String> = ["minptime", "useinbandfec"]
        .into_iter()
        .filter_map(|name| {
            let value = offered?.get(name)?;
            Some(format!("{name}={value}"))
        })
        .collect();
    if channels == 2 {
        // libwebrtc-based peers read the first parameter, the second is RFC 7587's.
        parameters.push("stereo=1;sprop-stereo=1".to_owned());
    }
    Some(parameters.join(";"))
}
