//! What a file looks like, whatever its name says.

use std::io::Read;

use crate::Data;
use crate::error::{Fault, Reason};

/// What [`looks_like`] says of H.264 in Annex-B form.
pub(crate) const H264: &str = "bare H.264 video";
/// What [`looks_like`] says of Ogg.
pub(crate) const OGG: &str = "an Ogg file";
/// What [`looks_like`] says of a transport stream.
pub(crate) const TRANSPORT_STREAM: &str = "an MPEG transport stream";

/// Bytes to look at.
const SNIFF_BYTES: u64 = 1024;

/// Errors if the file is plainly not of the format `is`, which users know as `expected`.
/// A file that looks like nothing is left to its reader.
pub(crate) fn check(
    data: &mut dyn Data,
    is: &'static str,
    expected: &'static str,
) -> Result<(), Fault> {
    let mut start = Vec::with_capacity(SNIFF_BYTES as usize);
    let read = data
        .rewind()
        .and_then(|()| data.take(SNIFF_BYTES).read_to_end(&mut start))
        .and_then(|_| data.rewind());
    read.map_err(|error| Fault::at(0, Reason::Read(error)))?;
    if start.is_empty() {
        return Err(Fault::at(0, Reason::Empty));
    }
    match looks_like(&start) {
        Some(found) if found != is => Err(Fault::at(0, Reason::Mislabelled { expected, found })),
        _ => Ok(()),
    }
}

/// The format that the first bytes of a file show; `None` if they show none.
///
/// Bare H.264 is last, since its start code also begins other formats.
fn looks_like(start: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| {
        start
            .get(offset..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    let boxes: [&[u8]; 5] = [b"ftyp", b"moov", b"mdat", b"styp", b"moof"];
    Some(match start {
        _ if at(0, b"OggS") => OGG,
        _ if boxes.iter().any(|name| at(4, name)) => "an MP4 file",
        _ if at(0, &[0x1a, 0x45, 0xdf, 0xa3]) => "a Matroska or WebM file",
        _ if at(0, b"RIFF") && at(8, b"WAVE") => "a WAV file",
        _ if at(0, b"RIFF") && at(8, b"AVI ") => "an AVI file",
        _ if at(0, b"FLV\x01") => "an FLV file",
        _ if at(0, b"DKIF") => "an IVF file",
        _ if at(0, b"fLaC") => "a FLAC file",
        _ if at(0, b"ID3") => "an MP3 file",
        _ if at(0, b"YUV4MPEG2") => "uncompressed video (Y4M)",
        _ if is_transport_stream(start) => TRANSPORT_STREAM,
        _ if at(0, &[0, 0, 1, 0xba]) => "an MPEG program stream",
        _ if at(0, &[0, 0, 1, 0xb3]) => "MPEG-2 video",
        _ => return elementary(start),
    })
}

/// Packets of 188 bytes that each begin with 0x47 (ISO/IEC 13818-1), also with a
/// time of arrival before or a code behind.
fn is_transport_stream(start: &[u8]) -> bool {
    let places = [(0, 188), (4, 192), (0, 204)];
    places.iter().any(|(first, stride)| {
        (0..3).all(|number| start.get(first + number * stride) == Some(&0x47))
    })
}

fn elementary(start: &[u8]) -> Option<&'static str> {
    let zeros = start.iter().take_while(|&&byte| byte == 0).count();
    let header = match start.get(zeros..)? {
        [1, header, second, ..] if zeros >= 2 => (*header, *second),
        _ => return length_prefixed(start),
    };
    // H.265 begins with a video parameter set, type 32 in bits 1..=6, layer 0.
    match header {
        (0x40, 0x01) => Some("H.265 video"),
        (header, _) if header & 0x80 == 0 => Some(H264),
        _ => None,
    }
}

/// Parameter sets or delimiters behind four-byte lengths instead of start codes.
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
            (b"\0\0\0\x01\x67\x42\xc0", "bare H.264 video"),
            (b"\0\0\x01\x09\x10", "bare H.264 video"),
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
