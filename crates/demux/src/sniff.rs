//! Recognizes file formats by the first bytes, whatever the name of the file.

use std::io::Read;

use crate::Data;
use crate::audio::ac3;
use crate::audio::adts;
use crate::audio::mpeg_audio;
use crate::error::{Fault, Reason};
use crate::legacy::amr;
use crate::legacy::dv;

/// Name that [`looks_like`] returns for H.264 in Annex B.
pub(crate) const H264: &str = "raw H.264 video";
/// Name that [`looks_like`] returns for H.265 in Annex B.
pub(crate) const H265: &str = "H.265 video";
/// Name that [`looks_like`] returns for Ogg.
pub(crate) const OGG: &str = "an Ogg file";
/// Name that [`looks_like`] returns for a program stream.
pub(crate) const PROGRAM_STREAM: &str = "an MPEG program stream";
/// Name that [`looks_like`] returns for MPEG video without a container.
pub(crate) const MPEG_VIDEO: &str = "MPEG-2 video";
/// Name that [`looks_like`] returns for a transport stream.
pub(crate) const TRANSPORT_STREAM: &str = "an MPEG transport stream";

/// Name that [`looks_like`] returns for AAC with ADTS headers.
pub(crate) const AAC: &str = "AAC audio (ADTS)";
/// Name that [`looks_like`] returns for AC-3.
pub(crate) const AC3: &str = "AC-3 audio";
/// Name that [`looks_like`] returns for AMR.
pub(crate) const AMR: &str = "AMR speech";
/// Name that [`looks_like`] returns for MPEG audio.
pub(crate) const MPEG_AUDIO: &str = "MPEG audio (MP3)";
/// Name that [`looks_like`] returns for WAV.
pub(crate) const WAV: &str = "a WAV file";
/// Name that [`looks_like`] returns for raw DV.
pub(crate) const DV: &str = "DV video";
/// Name that [`looks_like`] returns for MPEG-4 visual.
pub(crate) const MPEG4_VISUAL: &str = "MPEG-4 visual video";

/// Name that [`looks_like`] returns for Matroska.
pub(crate) const MATROSKA: &str = "a Matroska or WebM file";
/// Name that [`looks_like`] returns for MP4.
pub(crate) const MP4: &str = "an MP4 file";
/// Name that [`looks_like`] returns for AVI.
pub(crate) const AVI: &str = "an AVI file";
/// Name that [`looks_like`] returns for FLAC.
pub(crate) const FLAC: &str = "a FLAC file";
/// Name that [`looks_like`] returns for FLV.
pub(crate) const FLV: &str = "an FLV file";
/// Name that [`looks_like`] returns for IVF.
pub(crate) const IVF: &str = "an IVF file";

/// Name that [`looks_like`] returns for Motion JPEG.
pub(crate) const MOTION_JPEG: &str = "Motion JPEG";

/// Number of bytes that are examined.
pub(crate) const SNIFF_BYTES: usize = 4096;

/// Checks that a file is of the format `is`, which error texts call `expected`.
///
/// # Errors
/// The first bytes clearly show another format. A file of unrecognized bytes is left to its
/// reader.
pub(crate) fn check(
    data: &mut dyn Data,
    is: &'static str,
    expected: &'static str,
) -> Result<(), Fault> {
    let mut start = Vec::with_capacity(SNIFF_BYTES);
    let read = data
        .rewind()
        .and_then(|()| data.take(SNIFF_BYTES as u64).read_to_end(&mut start))
        .and_then(|_| data.rewind());
    read.map_err(|error| Fault::at(0, Reason::Read(error)))?;
    if start.is_empty() {
        return Err(Fault::at(0, Reason::Empty));
    }
    check_bytes(&start, 0, is, expected)
}

/// Checks `start`, the bytes of a file at `offset`, where its format begins; see [`check`].
pub(crate) fn check_bytes(
    start: &[u8],
    offset: u64,
    is: &'static str,
    expected: &'static str,
) -> Result<(), Fault> {
    match looks_like(start) {
        Some(found) if found != is => {
            Err(Fault::at(offset, Reason::Mislabeled { expected, found }))
        }
        _ => Ok(()),
    }
}

/// Returns the format that the first bytes of a file show; `None` if they show none.
///
/// H.264 without a container is checked last, since its start code also begins other formats.
pub(crate) fn looks_like(start: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| {
        start
            .get(offset..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    let boxes: [&[u8]; 5] = [b"ftyp", b"moov", b"mdat", b"styp", b"moof"];
    Some(match start {
        _ if at(0, b"OggS") => OGG,
        _ if (at(0, b"RIFF") || at(0, b"RF64") || at(0, b"BW64")) && at(8, b"WAVE") => WAV,
        _ if at(0, b"RIFX") && at(8, b"WAVE") => "a big-endian WAV file (RIFX)",
        _ if boxes.iter().any(|name| at(4, name)) => MP4,
        _ if at(0, &[0x1a, 0x45, 0xdf, 0xa3]) => MATROSKA,
        _ if at(0, b"RIFF") && at(8, b"AVI ") => AVI,
        _ if at(0, b"FLV\x01") => FLV,
        _ if at(0, b"DKIF") => IVF,
        _ if at(0, &[0xff, 0xd8, 0xff]) => MOTION_JPEG,
        _ if at(0, b"fLaC") => FLAC,
        _ if amr::MAGICS_OF_SEVERAL_CHANNELS
            .iter()
            .any(|name| at(0, name)) =>
        {
            "AMR speech of several channels"
        }
        _ if at(0, amr::MAGIC) || at(0, amr::MAGIC_WB) => AMR,
        _ if at(0, b"ADIF") => {
            "AAC with one header for the whole file (ADIF), which does not state the frames' lengths"
        }
        _ if at(0, b"ID3") => MPEG_AUDIO,
        _ if at(0, b"YUV4MPEG2") => "uncompressed video (Y4M)",
        _ if is_transport_stream(start) => TRANSPORT_STREAM,
        _ if at(0, &[0, 0, 1, 0xba]) => PROGRAM_STREAM,
        // A group header of MPEG-4 has the same code, but a frame follows it at once.
        _ if at(0, &[0, 0, 1, 0xb3]) && at(7, &[0, 0, 1, 0xb6]) => MPEG4_VISUAL,
        _ if at(0, &[0, 0, 1, 0xb3]) => MPEG_VIDEO,
        _ if dv::begins(start) => DV,
        _ => return elementary(start).or_else(|| audio(start)),
    })
}

/// Returns whether `start` consists of transport stream packets: 188 bytes that each begin with
/// 0x47 (ISO/IEC 13818-1), also with an arrival time before or a code behind them. Fewer than
/// three such bytes could occur in audio by chance.
fn is_transport_stream(start: &[u8]) -> bool {
    let places = [(0, 188), (4, 192), (0, 204)];
    places.iter().any(|(first, stride)| {
        let seen = start.iter().skip(*first).step_by(*stride).take(16);
        seen.clone().count() >= 3 && seen.clone().all(|byte| *byte == 0x47)
    })
}

fn elementary(start: &[u8]) -> Option<&'static str> {
    let zeros = start.iter().take_while(|&&byte| byte == 0).count();
    let header = match start.get(zeros..)? {
        [1, header, second, ..] if zeros >= 2 => (*header, *second),
        _ => return length_prefixed(start),
    };
    let rest = &start[zeros + 2..];
    // H.265 begins with a delimiter, a parameter set or SEI: types 32 to 35 and 39 in bits
    // 1..=6, of layer 0. As H.264 the same bytes would be units that begin no file, such as a
    // second data partition.
    match header {
        (0xb0 | 0xb5 | 0xb6, _) => Some(MPEG4_VISUAL),
        // A video object follows at once by its layer, or the layer alone.
        (0x00..=0x1f, 0) if matches!(rest, [0, 0, 1, 0x20..=0x2f, ..]) => Some(MPEG4_VISUAL),
        (0x20, _) => Some(MPEG4_VISUAL),
        (0x40 | 0x42 | 0x44 | 0x46 | 0x4e, 0x01) => Some(H265),
        (header, _) if header & 0x80 == 0 => Some(H264),
        _ => None,
    }
}

/// Recognizes audio without a container by two frame headers in a row, or by one frame that
/// fills the bytes.
fn audio(start: &[u8]) -> Option<&'static str> {
    let twice = |length: fn(&[u8]) -> Option<u16>| {
        let behind = length(start).and_then(|bytes| start.get(usize::from(bytes)..));
        behind.is_some_and(|next| next.len() < ac3::HEADER_BYTES || length(next).is_some())
    };
    Some(match () {
        () if twice(|at| Some(adts::Header::parse(at)?.frame_bytes)) => AAC,
        () if twice(|at| Some(mpeg_audio::Header::parse(at)?.frame_bytes)) => MPEG_AUDIO,
        () if twice(|at| Some(ac3::Header::parse(at)?.frame_bytes)) => AC3,
        () if ac3::is_enhanced(start) => "E-AC-3 (Dolby Digital Plus)",
        () if start.starts_with(&[0x77, 0x0b]) => "AC-3 with its bytes swapped in pairs",
        () if start.starts_with(&[0x56]) && start.get(1)? & 0xe0 == 0xe0 => "AAC in LATM/LOAS",
        () => return None,
    })
}

/// Recognizes parameter sets or delimiters behind four-byte lengths instead of start codes.
fn length_prefixed(start: &[u8]) -> Option<&'static str> {
    let (length, rest) = start.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    let kind = rest.first()? & 0x9f;
    let next = rest.get(length..length + 3).is_none_or(|next| next[0] == 0);
    (matches!(kind, 6..=9) && (2..65_536).contains(&length) && next)
        .then_some("H.264 with length prefixes (as inside MP4), not Annex B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_told_by_their_first_bytes() {
        let mut stream = vec![0u8; 600];
        for at in [0, 188, 376, 564] {
            stream[at] = 0x47;
        }
        for (bytes, expected) in [
            (b"OggS\0\x02".as_slice(), "an Ogg file"),
            (b"\0\0\0\x20ftypisom", "an MP4 file"),
            (b"\x1a\x45\xdf\xa3\x01", "a Matroska or WebM file"),
            (b"RIFF\0\0\0\0WAVEfmt ", "a WAV file"),
            (&stream, "an MPEG transport stream"),
            (b"\0\0\0\x01\x40\x01\x0c", "H.265 video"),
            (b"\0\0\0\x01\x67\x42\xc0", "raw H.264 video"),
            (b"\0\0\x01\x09\x10", "raw H.264 video"),
            (b"\0\0\x01\xb0\xf3\0\0\x01\xb5", MPEG4_VISUAL),
            (b"\0\0\x01\0\0\0\x01\x20\0\xc8", MPEG4_VISUAL),
            (
                b"ADIF\x40\0",
                "AAC with one header for the whole file (ADIF), which does not state the frames' lengths",
            ),
            (b"#!AMR-WB\n\x44", AMR),
            (b"#!AMR_MC1.0\n", "AMR speech of several channels"),
            (
                b"\x0b\x77\x01\x7f\x34\x80\0\0",
                "E-AC-3 (Dolby Digital Plus)",
            ),
        ] {
            assert_eq!(looks_like(bytes), Some(expected));
        }
        assert_eq!(looks_like(b""), None);
        assert_eq!(looks_like(b"hello, world"), None);
        assert_eq!(
            looks_like(b"\0\0\0\x05\x67\x42\xc0\x1f\xda\0\0\0\x02\x68\xce"),
            Some("H.264 with length prefixes (as inside MP4), not Annex B")
        );
    }
}
