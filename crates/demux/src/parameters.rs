//! Format parameters of tracks in files, as in SDP's `a=fmtp`.
//!
//! There is one function for each payload format. The text follows the payload type, in
//! [`Track::format_parameters`](glassline_media::Track).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::container::ogg::page;
use crate::legacy::theora;

/// Returns the parameters of AAC access units with 13-bit sizes (RFC 3640 §3.3.6, mode
/// `AAC-hbr`).
///
/// `config`: the AudioSpecificConfig of ISO/IEC 14496-3 §1.6.2.1.
pub(crate) fn aac(config: &[u8]) -> String {
    format!(
        "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
         indexdeltalength=3;config={}",
        hex(config)
    )
}

/// Parameters of AMR and AMR-WB with whole octets, as files store them (RFC 4867 §8.1).
pub(crate) const AMR: &str = "octet-align=1";

/// Returns the parameters of DV that contains its audio (RFC 6469 §3.1).
///
/// `encode`: a name of its list, such as `SD-VCR/525-60`.
pub(crate) fn dv(encode: &str) -> String {
    format!("encode={encode};audio=bundled")
}

/// Returns the parameters of MPEG-4 visual (RFC 6416 §7.1).
///
/// `headers`: from the visual object sequence up to the first frame, if known. Without a
/// profile of its own, the stream counts as Simple, level 1.
pub(crate) fn mpeg4_visual(headers: &[u8]) -> String {
    let profile = match headers {
        [0, 0, 1, 0xb0, profile, ..] => *profile,
        _ => 1,
    };
    let mut text = format!("profile-level-id={profile}");
    if !headers.is_empty() {
        text.push_str(";config=");
        text.push_str(&hex(headers));
    }
    text
}

/// Returns the parameters of H.265 (RFC 7798 §7.1): parameter sets, given as NAL units without
/// start codes, and the profile and level of the first sequence parameter set.
pub(crate) fn h265<'a>(
    vps: impl IntoIterator<Item = &'a [u8]>,
    sps: impl IntoIterator<Item = &'a [u8]>,
    pps: impl IntoIterator<Item = &'a [u8]>,
) -> String {
    let list = |name: &str, sets: Vec<String>| match sets.is_empty() {
        true => None,
        false => Some(format!("sprop-{name}={}", sets.join(","))),
    };
    let sps: Vec<&[u8]> = sps.into_iter().collect();
    let lists = [
        sps.first().and_then(|sps| h265_profile(sps)),
        list("vps", vps.into_iter().map(base64).collect()),
        list("sps", sps.into_iter().map(base64).collect()),
        list("pps", pps.into_iter().map(base64).collect()),
    ];
    lists.into_iter().flatten().collect::<Vec<_>>().join(";")
}

/// Returns the `profile_tier_level` of a sequence parameter set (ITU-T H.265 7.3.3).
fn h265_profile(sps: &[u8]) -> Option<String> {
    // The fields follow two bytes of header and one of numbers. Emulation prevention bytes must
    // be removed.
    let (mut fields, mut zeros) = (Vec::new(), 0);
    for &byte in sps.get(3..)?.iter().take(20) {
        if zeros < 2 || byte != 3 {
            fields.push(byte);
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
    }
    let &[profile, _, _, _, _, ref constraints @ .., level] = fields.get(..12)? else {
        return None;
    };
    Some(format!(
        "profile-space={};profile-id={};tier-flag={};level-id={level};interop-constraints={}",
        profile >> 6,
        profile & 0x1f,
        profile >> 5 & 1,
        hex(constraints)
    ))
}

/// Returns the parameters of Vorbis (RFC 5215 §6) with identification and setup header; `None`
/// if the headers are longer than the format allows.
pub(crate) fn vorbis(identification: &[u8], setup: &[u8]) -> Option<String> {
    let packed = packed_headers(identification, b"\x03vorbis\0\0\0\0\0\0\0\0\x01", setup)?;
    Some(format!("configuration={}", base64(&packed)))
}

/// Returns the parameters of Theora (draft-barbato-avt-rtp-theora-01 §6) with its headers, of which
/// `head` has the fields of the identification header; `None` if the headers are too long.
pub(crate) fn theora(head: &theora::Head, identification: &[u8], setup: &[u8]) -> Option<String> {
    let theora::Head {
        width,
        height,
        sampling,
        ..
    } = head;
    let packed = packed_headers(identification, b"\x81theora\0\0\0\0\0\0\0\0", setup)?;
    Some(format!(
        "sampling={sampling};width={width};height={height};delivery-method=inline;\
         configuration={}",
        base64(&packed)
    ))
}

/// Packs the headers of a Xiph codec for SDP (RFC 5215 §3.2.1). The comment header, which may
/// contain cover art, is replaced by an empty one.
///
/// Every packet repeats the identifier, which is a checksum of the headers: a receiver that
/// knows it needs no other copy.
fn packed_headers(identification: &[u8], comments: &[u8], setup: &[u8]) -> Option<Vec<u8>> {
    // Each length but the last is stored in one byte of seven bits; the last one follows from
    // the sum.
    let lengths = [identification.len(), comments.len()];
    let total = u16::try_from(lengths[0] + lengths[1] + setup.len()).ok()?;
    let identifier = page::crc(page::crc(0, identification), setup).to_be_bytes();
    let mut packed = vec![0, 0, 0, 1];
    packed.extend_from_slice(&identifier[1..]);
    packed.extend_from_slice(&total.to_be_bytes());
    packed.push(2);
    for length in lengths {
        packed.push(u8::try_from(length).ok().filter(|&length| length < 128)?);
    }
    for header in [identification, comments, setup] {
        packed.extend_from_slice(header);
    }
    Some(packed)
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aac_carries_its_configuration() {
        assert_eq!(
            aac(&[0x11, 0x90]),
            "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
             indexdeltalength=3;config=1190"
        );
    }

    #[test]
    fn mpeg_4_visual_names_its_profile() {
        assert_eq!(mpeg4_visual(&[]), "profile-level-id=1");
        assert_eq!(
            mpeg4_visual(&[0, 0, 1, 0xb0, 0xf5, 0, 0, 1]),
            "profile-level-id=245;config=000001B0F5000001"
        );
    }

    #[test]
    fn h265_lists_what_it_has() {
        let sets: [&[u8]; 2] = [b"abc", b"def"];
        assert_eq!(
            h265([], sets, [b"x".as_slice()]),
            "sprop-sps=YWJj,ZGVm;sprop-pps=eA=="
        );
    }

    #[test]
    fn headers_are_packed_as_rfc_5215_shows() {
        let packed = packed_headers(b"identify", b"c", &[7; 300]).expect("they fit");
        assert_eq!(packed[..4], [0, 0, 0, 1]);
        assert_eq!(packed[7..12], [1, 53, 2, 8, 1]);
        assert_eq!(&packed[12..21], b"identifyc");
        assert_eq!(packed.len(), 21 + 300);
        assert!(packed_headers(b"i", b"c", &[7; 65_535]).is_none());
        assert!(packed_headers(&[7; 128], b"c", b"s").is_none());
        let head = theora::Head {
            width: 320,
            height: 240,
            rate: crate::FrameRate::new(25, 1).expect("a rate"),
            sampling: "YCbCr-4:2:0",
            shift: 6,
            from_one: true,
        };
        let text = theora(&head, b"i", b"s").expect("they fit");
        assert!(text.starts_with("sampling=YCbCr-4:2:0;width=320;height=240;"));
        assert!(
            vorbis(b"i", b"s")
                .expect("they fit")
                .starts_with("configuration=AAAAA")
        );
    }
}
