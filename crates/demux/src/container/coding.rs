//! How the units of a coding lie in a container, and what becomes of them.
//!
//! Most are handed on as they are. Matroska and MP4 keep H.264 and H.265 with
//! lengths instead of start codes, and parameter sets apart from the pictures (ISO/IEC
//! 14496-15); AV1 without the size of its last part; samples of sound in any byte
//! order.

use bytes::Bytes;
use glassline_media::{Codec, Track};

use super::describe::ParameterLists;
use super::pcm::Pcm;
use crate::audio::ac3;
use crate::audio::mpeg_audio;
use crate::audio::opus;
use crate::audio::vorbis;
use crate::error::{Fault, Reason};
use crate::legacy::theora;
use crate::window::Window;

/// What makes a unit of the bytes that a container holds.
pub(crate) enum Coding {
    /// The bytes, behind those that the container left out of every unit.
    Plain(Vec<u8>),
    /// H.264 or H.265.
    Nals(Nals),
    /// AV1; before a keyframe without them come these sequence headers.
    Av1(Vec<u8>),
    /// MPEG-4 visual; likewise.
    Visual(Vec<u8>),
    /// Samples.
    Pcm(Pcm),
    /// UTF-8.
    Text,
}

/// NAL units behind lengths.
pub(crate) struct Nals {
    pub(crate) h265: bool,
    /// Bytes of a length: 1, 2 or 4.
    pub(crate) length_bytes: usize,
    /// Parameter sets in Annex-B form.
    pub(crate) sets: Vec<u8>,
}

/// A track as its container describes it.
pub(crate) struct Described {
    pub(crate) track: Track,
    pub(crate) coding: Coding,
    /// Of sound: what its times are counted in.
    pub(crate) sample_rate: u32,
    pub(crate) timing: Timing,
}

/// How to know how long a unit of sound lasts, in samples.
pub(crate) enum Timing {
    /// Only the container says.
    Container,
    /// All are equal.
    Fixed(u32),
    Ac3,
    MpegAudio,
    Opus,
    Vorbis(vorbis::Headers, vorbis::Counter),
}

/// What was found when a unit was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// A decoder can start here, if the container says so too.
    pub(crate) keyframe: bool,
    /// It needs headers before it to start.
    pub(crate) bare: bool,
    /// Samples, if the coding says.
    pub(crate) samples: Option<u32>,
}

/// More NAL units than any picture has.
const NALS_MAX: usize = 4096;

impl Described {
    /// Looks at a unit while the file is read through.
    pub(crate) fn look(
        coding: &mut Coding,
        timing: &mut Timing,
        track: &mut Track,
        window: &mut Window,
        offset: u64,
        length: u32,
    ) -> Result<Seen, Fault> {
        let mut seen = Seen {
            keyframe: true,
            bare: false,
            samples: None,
        };
        match coding {
            Coding::Nals(nals) => {
                let found = nals.walk(window, offset, length)?;
                if found.keyframe && found.has_sets && nals.sets.is_empty() {
                    learn_sets(nals, track, window, offset, length)?;
                }
                seen.bare = !found.has_sets;
                seen.keyframe = found.keyframe && (found.has_sets || !nals.sets.is_empty());
            }
            Coding::Av1(_) => {
                let start = window.peek(offset, 64.min(length as usize))?;
                seen.bare = !begins_with_sequence(start);
            }
            Coding::Visual(_) => {
                // Headers of the object and its layer have codes below that of a group.
                let start = window.peek(offset, 4.min(length as usize))?;
                seen.bare = !matches!(start, [0, 0, 1, 0..=0x2f | 0xb0 | 0xb5]);
            }
            Coding::Plain(_) if track.codec == Codec::Theora => {
                seen.keyframe = theora::is_keyframe(window.peek(offset, 1)?);
            }
            Coding::Plain(_) if track.codec == Codec::Vp9 => {
                if track.format_parameters.is_empty() {
                    let first = window.peek(offset, 1)?.first().copied().unwrap_or(0);
                    // Two bits of marker, then the profile, low bit first.
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
                seen.samples = timing.samples(start);
            }
            Coding::Pcm(_) | Coding::Text => {}
        }
        Ok(seen)
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
    /// Bytes as the file has them, as [`Frame::data`](crate::Frame) wants them.
    pub(crate) fn unit(&self, bytes: Vec<u8>, bare: bool) -> Bytes {
        let joined = |before: &[u8], bytes: Vec<u8>| match before {
            [] => bytes,
            before => [before, &bytes].concat(),
        };
        Bytes::from(match self {
            Self::Plain(left_out) => joined(left_out, bytes),
            Self::Nals(nals) => nals.annexb(bytes, bare),
            Self::Av1(headers) if bare => joined(headers, with_sizes(bytes)),
            Self::Av1(_) => with_sizes(bytes),
            Self::Visual(headers) if bare => joined(headers, bytes),
            Self::Visual(_) => bytes,
            Self::Pcm(pcm) => pcm.unit(bytes),
            Self::Text => text(&bytes),
        })
    }
}

/// What the NAL units of a picture say.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    keyframe: bool,
    has_sets: bool,
}

impl Nals {
    /// Reads the headers of a picture's NAL units.
    fn walk(&self, window: &mut Window, offset: u64, length: u32) -> Result<Found, Fault> {
        let end = offset + u64::from(length);
        let (mut at, mut kinds) = (offset, 0u64);
        for _ in 0..NALS_MAX {
            if at >= end {
                break;
            }
            let head = window.peek(at, self.length_bytes + 1)?;
            let size = head.get(..self.length_bytes).map(number);
            let next = size.map(|size| at + (self.length_bytes + size) as u64);
            let Some(next) = next.filter(|&next| next <= end) else {
                let reason = "a NAL unit is longer than the picture that it is in";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            };
            if size > Some(0) {
                let header = head.get(self.length_bytes).copied().unwrap_or_default();
                kinds |= 1 << self.kind(header);
            }
            at = next;
        }
        let has = |kind: u32| kinds >> kind & 1 == 1;
        Ok(match self.h265 {
            // Pictures that need no other, and the three sets (H.265 table 7-1).
            true => Found {
                keyframe: (16..=21).any(has),
                has_sets: (32..=34).all(has),
            },
            false => Found {
                keyframe: has(5),
                has_sets: has(7) && has(8),
            },
        })
    }

    fn kind(&self, header: u8) -> u8 {
        match self.h265 {
            true => header >> 1 & 0x3f,
            false => header & 0x1f,
        }
    }

    fn is_delimiter(&self, header: u8) -> bool {
        self.kind(header) == if self.h265 { 35 } else { 9 }
    }

    /// The units in `bytes`, which [`walk`](Self::walk) has seen whole.
    fn units<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let length_bytes = self.length_bytes;
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_at_checked(length_bytes)?;
            let (unit, after) = after.split_at_checked(number(length))?;
            rest = after;
            Some(unit)
        })
        .filter(|unit| !unit.is_empty())
    }

    /// Start codes instead of lengths; parameter sets in front if the picture is
    /// `bare`, behind a delimiter, which must stay first (H.264 clause 7.4.1.2.3).
    fn annexb(&self, bytes: Vec<u8>, bare: bool) -> Vec<u8> {
        let sets = if bare { self.sets.as_slice() } else { &[] };
        if sets.is_empty() && self.length_bytes == 4 {
            return in_place(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len() + sets.len() + 64);
        let mut sets = Some(sets);
        for unit in self.units(&bytes) {
            if !self.is_delimiter(unit[0]) {
                out.extend_from_slice(sets.take().unwrap_or_default());
            }
            push_nal(&mut out, unit);
        }
        out
    }
}

/// Writes start codes over lengths of four bytes.
fn in_place(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(length) = bytes.get_mut(at..at + 4) {
        let size = number(length);
        length.copy_from_slice(&START_CODE);
        at = at.saturating_add(4).saturating_add(size);
    }
    bytes
}

const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Appends a NAL unit behind a start code.
pub(crate) fn push_nal(out: &mut Vec<u8>, nal: &[u8]) {
    out.extend_from_slice(&START_CODE);
    out.extend_from_slice(nal);
}

/// A big-endian number of up to four bytes.
fn number(bytes: &[u8]) -> usize {
    let value = bytes
        .iter()
        .fold(0u32, |value, &byte| value << 8 | u32::from(byte));
    value as usize
}

/// Takes the parameter sets from a keyframe, if the container's header has none.
fn learn_sets(
    nals: &mut Nals,
    track: &mut Track,
    window: &mut Window,
    offset: u64,
    length: u32,
) -> Result<(), Fault> {
    let bytes = window.load(offset, length as usize)?;
    let mut lists = ParameterLists::default();
    for unit in nals.units(&bytes) {
        lists.add(nals.kind(unit[0]), unit, nals.h265);
    }
    lists.fill(nals, track);
    Ok(())
}

/// A sequence header is the first part, but for temporal delimiters (AV1
/// specification §5.3, §7.5).
fn begins_with_sequence(start: &[u8]) -> bool {
    const SEQUENCE_HEADER: u8 = 1;
    const TEMPORAL_DELIMITER: u8 = 2;
    let mut rest = start;
    while let Some(&header) = rest.first() {
        match header >> 3 & 15 {
            SEQUENCE_HEADER => return true,
            TEMPORAL_DELIMITER => {
                let bytes = 1 + usize::from(header >> 2 & 1) + usize::from(header >> 1 & 1);
                rest = rest.get(bytes..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    false
}

/// Gives the last part of a temporal unit its size, which containers allow to be
/// left out (AV1 specification §5.3.2, `obu_has_size_field`).
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

/// A number of seven bits a byte, lowest first, and the bytes it takes (AV1
/// specification §4.10.5).
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

/// Text that ends in a line of its own (T.140 §8): what follows is put below it.
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
    fn lengths_become_start_codes() {
        let nals = |length_bytes, sets: &[u8]| Nals {
            h265: false,
            length_bytes,
            sets: sets.to_vec(),
        };
        let four = b"\0\0\0\x02\x65a\0\0\0\0\0\0\0\x01\x06".to_vec();
        assert_eq!(
            nals(4, b"").annexb(four.clone(), true),
            b"\0\0\0\x01\x65a\0\0\0\x01\0\0\0\x01\x06"
        );
        assert_eq!(
            nals(4, b"sets").annexb(four, true),
            b"sets\0\0\0\x01\x65a\0\0\0\x01\x06"
        );
        assert_eq!(
            nals(2, b"sets").annexb(b"\0\x02\x09x\0\x01\x65".to_vec(), true),
            b"\0\0\0\x01\x09xsets\0\0\0\x01\x65"
        );
        assert_eq!(
            nals(1, b"sets").annexb(b"\x01\x41".to_vec(), false),
            b"\0\0\0\x01\x41"
        );
    }

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
    }

    #[test]
    fn text_ends_its_line() {
        assert_eq!(text(b"one\ntwo\n\n"), b"one\r\ntwo\r\n");
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b\r\n".as_bytes());
    }
}
