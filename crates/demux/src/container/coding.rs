//! How a container stores the units of a coding, and how they are converted.
//!
//! Most units stay as they are. Matroska and MP4 store H.264 and H.265 as `nals` describes, AV1
//! without the size of its last part, and audio samples in any byte order.

use bytes::Bytes;
use glassline_media::{Codec, Track};

use super::nals::Nals;
use super::pcm::Pcm;
use crate::audio::ac3;
use crate::audio::flac::ContainedFlac;
use crate::audio::mpeg_audio;
use crate::audio::opus;
use crate::audio::vorbis;
use crate::error::{Fault, Reason};
use crate::legacy::theora;
use crate::window::Window;

/// The conversion from the bytes in a container to a unit.
pub(crate) enum Coding {
    /// The bytes as they are, behind those that the container left out of every unit.
    Plain(Vec<u8>),
    /// NAL units of H.264 or H.265.
    Nals(Nals),
    /// NAL units of H.264 with start codes.
    AnnexB(Nals),
    /// AV1, and the sequence headers to insert before a keyframe that has none.
    Av1(Vec<u8>),
    /// MPEG-4 visual, and the headers to insert before a keyframe that has none.
    Visual(Vec<u8>),
    /// PCM samples in the format that the container stores.
    Pcm(Pcm),
    /// Frames of FLAC, which become L16.
    Flac(ContainedFlac),
    /// Text is in UTF-8.
    Text,
}

/// A track as its container describes it.
pub(crate) struct Described {
    pub(crate) track: Track,
    pub(crate) coding: Coding,
    /// Sampling rate in Hz that times of audio are counted in; 0 for other tracks.
    pub(crate) sample_rate: u32,
    pub(crate) timing: Timing,
}

/// Where the duration of an audio unit is stated.
pub(crate) enum Timing {
    /// Only the container states the duration.
    Container,
    /// All units have this many samples.
    Fixed(u32),
    Ac3,
    MpegAudio,
    Opus,
    Vorbis(vorbis::Headers, vorbis::Counter),
}

/// Result of examining a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitFacts {
    /// Whether a decoder can start here, if the container says so, too.
    pub(crate) keyframe: bool,
    /// Whether the unit needs headers before it to start.
    pub(crate) bare: bool,
    /// Duration in samples, if the coding states it.
    pub(crate) samples: Option<u32>,
}

impl Described {
    /// Examines a unit while the file is indexed.
    pub(crate) fn examine(
        coding: &mut Coding,
        timing: &mut Timing,
        track: &mut Track,
        window: &mut Window,
        offset: u64,
        length: u32,
    ) -> Result<UnitFacts, Fault> {
        let mut facts = UnitFacts {
            keyframe: true,
            bare: false,
            samples: None,
        };
        match coding {
            Coding::Nals(nals) | Coding::AnnexB(nals) => {
                let found = match nals.length_bytes {
                    0 => nals.scan(window, offset, length)?,
                    _ => nals.walk(window, offset, length)?,
                };
                if found.keyframe && found.has_sets && nals.sets.is_empty() {
                    nals.learn_sets(track, window, offset, length)?;
                }
                facts.bare = !found.has_sets;
                facts.keyframe = found.keyframe && (found.has_sets || !nals.sets.is_empty());
            }
            Coding::Av1(_) => {
                let start = window.peek(offset, 64.min(length as usize))?;
                facts.bare = !begins_with_sequence(start);
                facts.keyframe = !is_hidden_key_frame(start);
            }
            Coding::Visual(_) => {
                // Headers of the visual object and its layer have codes below that of a group.
                let start = window.peek(offset, 4.min(length as usize))?;
                facts.bare = !matches!(start, [0, 0, 1, 0..=0x2f | 0xb0 | 0xb5]);
            }
            Coding::Plain(_) if track.codec == Codec::Theora => {
                facts.keyframe = theora::is_keyframe(window.peek(offset, 1)?);
            }
            Coding::Plain(_) if track.codec == Codec::Vp9 => {
                if track.format_parameters.is_empty() {
                    let first = window.peek(offset, 1)?.first().copied().unwrap_or(0);
                    // Two marker bits precede the profile, whose low bit comes first.
                    let profile = first >> 5 & 1 | first >> 3 & 2;
                    track.format_parameters = format!("profile-id={profile}");
                }
            }
            Coding::Plain(left_out) => {
                let count = 16.min(length as usize);
                let start = window.peek(offset, count)?;
                let joined;
                let start = if left_out.is_empty() {
                    start
                } else {
                    joined = [left_out.as_slice(), start].concat();
                    &joined
                };
                facts.samples = timing.samples(start);
            }
            Coding::Flac(flac) => {
                let start = window.peek(offset, ContainedFlac::HEAD_BYTES.min(length as usize))?;
                facts.samples = flac.samples(start);
                if facts.samples.is_none() {
                    let reason = "a frame of FLAC has no valid header";
                    return Err(Fault::at(offset, Reason::Damaged(reason)));
                }
            }
            Coding::Pcm(_) | Coding::Text => {}
        }
        Ok(facts)
    }
}

impl Described {
    /// Returns the format parameters of AV1 whose container describes nothing, from the sequence
    /// header in the first bytes of a temporal unit; empty if there is none.
    pub(crate) fn av1_parameters(start: &[u8]) -> String {
        let mut headers = obus(start).filter(|(kind, _)| *kind == SEQUENCE_HEADER);
        let first = headers.find_map(|(_, body)| body.first().copied());
        first.map_or_else(String::new, |first| format!("profile={}", first >> 5))
    }
}

impl Timing {
    fn samples(&mut self, start: &[u8]) -> Option<u32> {
        match self {
            Self::Container => None,
            Self::Fixed(samples) => Some(*samples),
            Self::Ac3 => Some(ac3::SAMPLES),
            Self::MpegAudio => mpeg_audio::Header::parse(start).map(|it| it.samples.into()),
            Self::Opus => opus::samples(start).ok(),
            Self::Vorbis(headers, counter) => Some(counter.samples(headers, start)),
        }
    }
}

impl Coding {
    /// Converts the bytes of the file to the unit in [`Frame::data`](crate::Frame). `bare`:
    /// whether headers must be inserted.
    pub(crate) fn unit(&self, bytes: Vec<u8>, bare: bool) -> Bytes {
        let joined = |before: &[u8], bytes: Vec<u8>| match before {
            [] => bytes,
            before => [before, &bytes].concat(),
        };
        Bytes::from(match self {
            Self::Plain(left_out) => joined(left_out, bytes),
            Self::Nals(nals) | Self::AnnexB(nals) => nals.annexb(bytes, bare),
            Self::Av1(headers) if bare => joined(headers, with_sizes(bytes)),
            Self::Av1(_) => with_sizes(bytes),
            Self::Visual(headers) if bare => joined(headers, bytes),
            Self::Visual(_) => bytes,
            Self::Pcm(pcm) => pcm.unit(bytes),
            Self::Flac(flac) => flac.decode(&bytes),
            Self::Text => text(&bytes),
        })
    }
}

/// Type of the OBU that describes a sequence (AV1 specification §6.2.2).
const SEQUENCE_HEADER: u8 = 1;

/// Returns the types and bodies of the OBUs that `start`, the first bytes of a temporal unit,
/// holds (AV1 specification §5.3). The body of the last one may be cut.
pub(crate) fn obus(start: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = start;
    std::iter::from_fn(move || {
        let &header = rest.first()?;
        let body = rest.get(1 + usize::from(header >> 2 & 1)..)?;
        let (size, size_bytes) = match header & 2 {
            0 => (body.len(), 0),
            _ => leb128(body)?,
        };
        let body = body.get(size_bytes..)?;
        let (body, after) = body.split_at(size.min(body.len()));
        rest = after;
        Some((header >> 3 & 15, body))
    })
}

/// Returns whether a sequence header precedes all frames of the temporal unit (AV1 specification
/// §7.5); delimiters, metadata and padding may precede the header.
fn begins_with_sequence(start: &[u8]) -> bool {
    const TEMPORAL_DELIMITER: u8 = 2;
    const METADATA: u8 = 5;
    const PADDING: u8 = 15;
    let passed = |kind: &u8| matches!(*kind, TEMPORAL_DELIMITER | METADATA | PADDING);
    let mut kinds = obus(start).map(|(kind, _)| kind);
    kinds.find(|kind| !passed(kind)) == Some(SEQUENCE_HEADER)
}

/// Returns whether a decoder can start at a temporal unit that begins with `start`: its first frame
/// is a key frame that is shown (AV1 specification §5.9.2). `None` if `start` has no frame.
pub(crate) fn is_shown_key_frame(start: &[u8]) -> Option<bool> {
    // An earlier frame is not shown again, the type is 0, and the frame is shown.
    first_frame(start).map(|flags| flags & 0xf0 == 0x10)
}

/// Returns whether the first frame of a temporal unit is a key frame that is shown later. Containers
/// may list it among the keyframes, but the frames before its presentation need earlier ones.
fn is_hidden_key_frame(start: &[u8]) -> bool {
    first_frame(start).is_some_and(|flags| flags & 0xf0 == 0)
}

/// Returns the first byte of the first frame's header. The header of a still picture is another one.
fn first_frame(start: &[u8]) -> Option<u8> {
    const FRAME_HEADER: u8 = 3;
    const FRAME: u8 = 6;
    const REDUCED_STILL: u8 = 0x08;
    for (kind, body) in obus(start) {
        match (kind, body.first()) {
            (SEQUENCE_HEADER, Some(first)) if first & REDUCED_STILL != 0 => return None,
            (FRAME_HEADER | FRAME, first) => return first.copied(),
            _ => {}
        }
    }
    None
}

/// Adds a size to the last part of a temporal unit, which containers may leave out (AV1
/// specification §5.3.2, `obu_has_size_field`).
fn with_sizes(bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(&header) = bytes.get(at) {
        let body = at + 1 + usize::from(header >> 2 & 1);
        if header & 2 == 0 {
            let mut out = bytes[..body.min(bytes.len())].to_vec();
            out[at] |= 2;
            let rest = bytes.get(body..).unwrap_or_default();
            push_leb128(&mut out, rest.len());
            out.extend_from_slice(rest);
            return out;
        }
        let Some((size, size_bytes)) = bytes.get(body..).and_then(leb128) else {
            break;
        };
        at = body.saturating_add(size_bytes).saturating_add(size);
    }
    bytes
}

/// Reads a number of seven bits per byte, lowest first. Returns the number and the bytes that
/// it takes (AV1 specification §4.10.5).
fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

fn push_leb128(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Ends every line of a text with a line break (T.140 §8), so that later text stands below it.
fn text(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.trim_end_matches(['\0', '\r', '\n']).lines();
    let mut out = Vec::with_capacity(bytes.len() + 2);
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_an_av1_unit_gets_its_size() {
        assert_eq!(with_sizes(vec![0x12, 0, 0x32, 1, 9]), [0x12, 0, 0x32, 1, 9]);
        assert_eq!(
            with_sizes(vec![0x12, 0, 0x30, 9, 8]),
            [0x12, 0, 0x32, 2, 9, 8]
        );
        assert_eq!(with_sizes(vec![0x34, 7, 9]), [0x36, 7, 1, 9]);
        assert_eq!(with_sizes(vec![0x30]), [0x32, 0]);
        assert_eq!(with_sizes(vec![0x34]), [0x36, 0]);
        let long = with_sizes([&[0x30][..], &[7; 300]].concat());
        assert_eq!(leb128(&long[1..]), Some((300, 2)));
        assert!(begins_with_sequence(&[0x12, 0, 0x0a, 1]));
        assert!(!begins_with_sequence(&[0x12, 0, 0x32, 1]));
        for (start, shown, hidden) in [
            (&[0x12, 0, 0x0a, 1, 0, 0x32, 1, 0x10][..], Some(true), false),
            (&[0x12, 0, 0x0a, 1, 0, 0x32, 1, 0], Some(false), true),
            (&[0x12, 0, 0x32, 1, 0x30], Some(false), false),
            (&[0x12, 0, 0x0a, 1, 0x18, 0x32, 1, 0], None, false),
            (&[0x12, 0], None, false),
        ] {
            assert_eq!(is_shown_key_frame(start), shown, "{start:02x?}");
            assert_eq!(is_hidden_key_frame(start), hidden, "{start:02x?}");
        }
    }

    #[test]
    fn text_ends_its_line() {
        assert_eq!(text(b"one\ntwo\n\n"), b"one\r\ntwo\r\n");
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b\r\n".as_bytes());
    }
}
