//! Codec names in catalogs (W3C WebCodecs registry), and the configuration records of decoders.

use glassline_media::{Codec, Kind, Track, VideoParameters};

/// Most parameter sets of a record: decoders accept no more.
const SETS_MAX: usize = 32;

/// Longest configuration record, in bytes; real ones have some dozens.
pub(super) const RECORD_BYTES_MAX: usize = 8 << 10;

/// How a frame separates its NAL units or audio headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The frame is one unit, or a byte stream of Annex B.
    Whole,
    /// A length of this many bytes precedes each NAL unit (ISO/IEC 14496-15 §5.3.3).
    Lengths(u8),
    /// The audio frame has an ADTS header (ISO/IEC 14496-3 §1.A.2.2).
    Adts,
}

/// Contents of a decoder's configuration record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) framing: Framing,
    /// Parameter sets as NAL units without start codes.
    pub(super) sets: Vec<Vec<u8>>,
}

/// Returns the codec of a registry string such as `avc1.64001f`; `None` for codecs that are not
/// carried.
pub(super) fn codec_of(name: &str) -> Option<Codec> {
    let family = name.split('.').next().unwrap_or_default();
    match family {
        "avc1" | "avc3" => Some(Codec::H264),
        "hvc1" | "hev1" => Some(Codec::H265),
        "vp8" => Some(Codec::Vp8),
        "vp09" => Some(Codec::Vp9),
        "av01" => Some(Codec::Av1),
        "opus" => Some(Codec::Opus),
        "mp4a" if name.starts_with("mp4a.40.") => Some(Codec::Aac),
        _ => None,
    }
}

/// Returns the registry string of `track`. `keyframe`: the beginning of a keyframe, empty for
/// audio. `None` if the codec has no string, or while parameter sets are unknown.
pub(super) fn name_of(track: &Track, keyframe: &[u8]) -> Option<String> {
    Some(match track.codec {
        Codec::H264 => {
            let sps = find_nal(keyframe, |first| first & 0x1f == 7);
            let sps = sps.unwrap_or(&track.video.sps);
            let [profile, constraints, level] = sps.get(1..4)?.try_into().ok()?;
            format!("avc3.{profile:02x}{constraints:02x}{level:02x}")
        }
        Codec::H265 => h265_name(find_nal(keyframe, |first| (first >> 1) & 0x3f == 33)?)?,
        Codec::Vp8 => "vp8".to_owned(),
        // Profile 0, level 1.0, 8 bits: decoders learn the actual values from the frames.
        Codec::Vp9 => "vp09.00.10.08".to_owned(),
        Codec::Av1 => "av01.0.08M.08".to_owned(),
        Codec::Opus => "opus".to_owned(),
        Codec::Aac => {
            let config = audio_config(track)?;
            format!("mp4a.40.{}", config.first()? >> 3)
        }
        _ => return None,
    })
}

/// Returns whether MoQ catalogs have a name for `codec`.
pub fn is_carried(codec: Codec) -> bool {
    matches!(
        codec,
        Codec::H264 | Codec::H265 | Codec::Vp8 | Codec::Vp9 | Codec::Av1 | Codec::Opus | Codec::Aac
    )
}

/// Returns the string of ISO/IEC 14496-15 annex E: `hev1.` profile, compatibility, tier and
/// level, constraints.
fn h265_name(sps: &[u8]) -> Option<String> {
    // profile_tier_level (ITU-T H.265 §7.3.3) follows the NAL unit's header and one byte. It
    // has 12 bytes after emulation prevention is removed.
    let bytes = unescaped(sps, 15);
    let ptl = bytes.get(3..15)?;
    let space = ["", "A", "B", "C"][usize::from(ptl[0] >> 6)];
    let tier = if ptl[0] & 0x20 == 0 { 'L' } else { 'H' };
    let profile = ptl[0] & 0x1f;
    let flags = u32::from_be_bytes(ptl[1..5].try_into().ok()?).reverse_bits();
    let level = ptl[11];
    let constraints = &ptl[5..11];
    let kept = constraints.iter().rposition(|byte| *byte != 0);
    let constraints = &constraints[..kept.map_or(0, |last| last + 1)];
    let mut name = format!("hev1.{space}{profile}.{flags:x}.{tier}{level}");
    for byte in constraints {
        name.push_str(&format!(".{byte:x}"));
    }
    Some(name)
}

/// Returns the first `max` bytes of a NAL unit without emulation prevention (H.265 §7.4.2).
fn unescaped(nal: &[u8], max: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(max);
    let mut zeros = 0;
    for &byte in nal {
        if out.len() == max {
            break;
        }
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

fn find_nal(unit: &[u8], is_it: impl Fn(u8) -> bool) -> Option<&[u8]> {
    glassline_media::annexb::nals(unit).find(|nal| nal.first().is_some_and(|first| is_it(*first)))
}

/// Reads the configuration record of H.264: `avcC` (ISO/IEC 14496-15 §5.3.3.1.2).
pub(super) fn avcc(record: &[u8]) -> Option<Record> {
    let [1, _, _, _, lengths, rest @ ..] = record else {
        return None;
    };
    let (&sps_count, rest) = rest.split_first()?;
    let mut sets = Vec::new();
    let rest = take_sets(rest, usize::from(sps_count & 0x1f), &mut sets)?;
    let (&pps_count, rest) = rest.split_first()?;
    take_sets(rest, usize::from(pps_count), &mut sets)?;
    Some(Record {
        framing: Framing::Lengths((lengths & 3) + 1),
        sets,
    })
}

/// Reads the configuration record of H.265: `hvcC` (ISO/IEC 14496-15 §8.3.3.1.2).
pub(super) fn hvcc(record: &[u8]) -> Option<Record> {
    if record.first() != Some(&1) {
        return None;
    }
    let lengths = record.get(21)?;
    let arrays = *record.get(22)?;
    let mut rest = record.get(23..)?;
    let mut sets = Vec::new();
    for _ in 0..arrays {
        let [_, high, low, more @ ..] = rest else {
            return None;
        };
        rest = take_sets(
            more,
            usize::from(u16::from_be_bytes([*high, *low])),
            &mut sets,
        )?;
    }
    Some(Record {
        framing: Framing::Lengths((lengths & 3) + 1),
        sets,
    })
}

fn take_sets<'a>(mut rest: &'a [u8], count: usize, sets: &mut Vec<Vec<u8>>) -> Option<&'a [u8]> {
    if sets.len() + count > SETS_MAX {
        return None;
    }
    for _ in 0..count {
        let [high, low, more @ ..] = rest else {
            return None;
        };
        let bytes = usize::from(u16::from_be_bytes([*high, *low]));
        sets.push(more.get(..bytes)?.to_vec());
        rest = &more[bytes..];
    }
    Some(rest)
}

/// Returns the AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) from the format parameters of
/// `track`.
pub(super) fn audio_config(track: &Track) -> Option<Vec<u8>> {
    let text = track.format_parameters.split(';').find_map(|part| {
        let (key, value) = part.trim().split_once('=')?;
        key.eq_ignore_ascii_case("config").then_some(value)
    })?;
    unhex(text)
}

/// Sampling rates by index (ISO/IEC 14496-3 table 1.18).
const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Returns the AudioSpecificConfig of an object type such as AAC-LC; `None` for a rate that is
/// not in the table.
pub(super) fn make_audio_config(object_type: u8, rate: u32, channels: u8) -> Option<Vec<u8>> {
    let index = RATES.iter().position(|it| *it == rate)?;
    let index = u16::try_from(index).ok()?;
    let value = u16::from(object_type) << 11 | index << 7 | u16::from(channels) << 3;
    (object_type < 31 && channels < 8).then(|| value.to_be_bytes().to_vec())
}

/// Returns the track of AAC with this configuration (RFC 3640 §4.1).
pub(super) fn aac(config: &[u8], rate: u32, channels: u8) -> Track {
    Track::audio(Codec::Aac, channels)
        .with_clock_rate(rate)
        .with_format_parameters(format!(
            "streamtype=5;profile-level-id=1;mode=AAC-hbr;config={};sizelength=13;indexlength=3;\
             indexdeltalength=3",
            hex(config)
        ))
}

/// Returns a video track with its parameter sets, if there are any.
pub(super) fn video(codec: Codec, sets: &[Vec<u8>], width: u32, height: u32) -> Track {
    debug_assert_eq!(codec.kind(), Kind::Video);
    let mut track = Track::new(codec);
    track.video = VideoParameters {
        width,
        height,
        ..VideoParameters::default()
    };
    if codec == Codec::H264 {
        let of = |kind: u8| {
            let mut sets = sets.iter();
            let found = sets.find(|set| set.first().is_some_and(|first| first & 0x1f == kind));
            found.cloned().unwrap_or_default()
        };
        (track.video.sps, track.video.pps) = (of(7), of(8));
    }
    track
}

/// Returns two hexadecimal digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses hexadecimal digits; `None` for other text.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > RECORD_BYTES_MAX {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_of_h264_hold_its_sets_and_the_size_of_lengths() {
        let record = [
            &[1, 0x64, 0, 0x1f, 0xff, 0xe1, 0, 4][..],
            &[0x67, 0x64, 0, 0x1f],
            &[1, 0, 2, 0x68, 0xee],
        ];
        let record = avcc(&record.concat()).expect("a record");
        assert_eq!(record.framing, Framing::Lengths(4));
        assert_eq!(record.sets, [vec![0x67, 0x64, 0, 0x1f], vec![0x68, 0xee]]);
        let track = video(Codec::H264, &record.sets, 0, 0);
        assert_eq!(name_of(&track, &[]).as_deref(), Some("avc3.64001f"));
    }

    #[test]
    fn names_of_h265_are_those_of_annex_e() {
        // Main, level 3.1, as x265 writes it: constraint flags 0x90.
        let sps = [
            0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00,
            0x00, 0x03, 0x00, 0x5d, 0xa0,
        ];
        assert_eq!(h265_name(&sps).as_deref(), Some("hev1.1.6.L93.90"));
    }

    #[test]
    fn configurations_of_aac_go_both_ways() {
        let config = make_audio_config(2, 48_000, 2).expect("in the table");
        assert_eq!(config, [0x11, 0x90]);
        let track = aac(&config, 48_000, 2);
        assert_eq!(audio_config(&track), Some(config));
        assert_eq!(name_of(&track, &[]).as_deref(), Some("mp4a.40.2"));
        assert_eq!(make_audio_config(2, 47_999, 2), None);
    }

    proptest! {
        #[test]
        fn records_of_strangers_do_no_harm(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            is_first_right: bool,
        ) {
            if let (Some(first), true) = (bytes.first_mut(), is_first_right) {
                *first = 1;
            }
            for record in [avcc(&bytes), hvcc(&bytes)].into_iter().flatten() {
                prop_assert!(record.sets.len() <= SETS_MAX);
            }
            let _ = h265_name(&bytes);
        }

        #[test]
        fn hexadecimal_digits_go_both_ways(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        }
    }
}
