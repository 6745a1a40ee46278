//! MPEG-1 and MPEG-2 video payloads (RFC 2250 §3): the video-specific header, then headers and
//! whole slices, or a fragment of one slice.

use glassline_media::{Codec, UnitBuilder, annexb};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::{PacketizeError, equal_pieces};

/// Start codes (ISO/IEC 13818-2 table 6-1).
const PICTURE: u8 = 0x00;
/// Start codes of slices.
const SLICES: std::ops::RangeInclusive<u8> = 0x01..=0xaf;
/// Start code of a sequence header.
const SEQUENCE: u8 = 0xb3;
/// Start code of a group of pictures header.
const GROUP: u8 = 0xb8;

/// Bit of the video-specific header (RFC 2250 §3.4): an extension header follows.
const T: u8 = 0x04;
/// Bit of its third byte: the payload contains a sequence header.
const S: u8 = 0x20;
/// The payload begins with a slice, headers apart.
const B: u8 = 0x10;
/// The payload ends with the end of a slice.
const E: u8 = 0x08;
/// Length of the video-specific header in bytes.
const HEADER_BYTES: usize = 4;

/// Picture type of intra-coded pictures.
const INTRA: u8 = 1;

/// Splits a frame with the headers before it into payloads of at most `payload_max` bytes.
pub(super) fn packetize(
    frame: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    let room = payload_max.saturating_sub(HEADER_BYTES).max(1);
    let start = annexb::find_start_code(frame).ok_or(PacketizeError::Malformed {
        codec: Codec::MpegVideo,
        reason: "no start code",
    })?;
    let mut header = Header::default();
    // Whole parts for the next payload: headers first, then slices.
    let mut packet: &[u8] = &[];
    let mut flags = 0;
    let mut rest = &frame[start..];
    while !rest.is_empty() {
        let part = first_part(rest);
        let slice = part.get(3).is_some_and(|code| SLICES.contains(code));
        // Headers come first in a payload.
        if packet.len() + part.len() > room || !slice && flags & B != 0 {
            header.write(flags, packet, out);
            (packet, flags) = (&[], 0);
        }
        header.update(part);
        let gathered = packet.len() + part.len();
        if gathered > room {
            write_fragments(&header, slice, part, room, out);
            packet = &[];
        } else {
            // The parts are adjacent, so together they are one range of bytes.
            let before = packet.len();
            let from = frame.len() - rest.len() - before;
            packet = &frame[from..from + gathered];
            flags |= flags_of(part, slice);
        }
        rest = &rest[part.len()..];
    }
    header.write(flags, packet, out);
    Ok(())
}

fn flags_of(part: &[u8], slice: bool) -> u8 {
    match part.get(3) {
        _ if slice => B | E,
        Some(&SEQUENCE) => S,
        _ => 0,
    }
}

fn write_fragments(header: &Header, slice: bool, part: &[u8], room: usize, out: &mut UnitBuilder) {
    let mut begins = B;
    let mut pieces = equal_pieces(part, room).peekable();
    while let Some(piece) = pieces.next() {
        let ends = if pieces.peek().is_none() { E } else { 0 };
        let flags = if slice { begins | ends } else { 0 };
        header.write(flags, piece, out);
        begins = 0;
    }
}

/// Returns the bytes from one start code to the next.
fn first_part(bytes: &[u8]) -> &[u8] {
    let code = annexb::START_CODE.len();
    let next = annexb::find_start_code(&bytes[code.min(bytes.len())..]);
    &bytes[..next.map_or(bytes.len(), |at| at + code)]
}

/// The fields of the video-specific header that repeat fields of the picture header.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    temporal_reference: u16,
    /// Picture type: intra, predictive or bidirectional.
    picture_type: u8,
    vectors: u8,
}

impl Header {
    fn update(&mut self, part: &[u8]) {
        // temporal_reference 10, picture_coding_type 3, vbv_delay 16, then by type
        // full_pel_forward_vector 1, forward_f_code 3, and the same backward (§6.2.3).
        let [0, 0, 1, PICTURE, a, b, rest @ ..] = part else {
            return;
        };
        self.temporal_reference = u16::from(*a) << 2 | u16::from(b >> 6);
        self.picture_type = b >> 3 & 7;
        let bits = match rest {
            [c, d, e, ..] => u32::from(*c) << 16 | u32::from(*d) << 8 | u32::from(*e),
            _ => 0,
        };
        // The bits behind vbv_delay, of which three lie in `b` and 13 in `c` and `d`.
        let forward = (bits >> 7 & 0x0f) as u8;
        let backward = (bits >> 3 & 0x0f) as u8;
        self.vectors = match self.picture_type {
            2 => forward,
            3 => backward << 4 | forward,
            _ => 0,
        };
    }

    fn write(self, flags: u8, bytes: &[u8], out: &mut UnitBuilder) {
        if bytes.is_empty() {
            return;
        }
        let [high, low] = self.temporal_reference.to_be_bytes();
        out.wire_only(&[high, low, flags | self.picture_type, self.vectors]);
        out.coded(bytes);
        out.end_packet();
    }
}

/// Joins payloads into a frame.
#[derive(Debug)]
pub(super) struct Assembly;

impl FrameFormat for Assembly {
    fn begins(&self, payload: &[u8]) -> bool {
        let body = strip(payload).unwrap_or_default();
        matches!(body, [0, 0, 1, PICTURE | SEQUENCE | GROUP, ..])
    }

    fn separates(&self, payload: &[u8]) -> bool {
        let body = strip(payload).unwrap_or_default();
        matches!(body, [0, 0, 1, SEQUENCE | GROUP, ..])
    }

    fn has_picture(&self, frame: &[u8]) -> bool {
        PictureStart::of(frame).is_some()
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        frame.extend_from_slice(strip(payload).ok_or(DropReason::Malformed)?);
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        let start = PictureStart::of(frame);
        Ok(start
            .is_some_and(|it| it.has_sequence && it.is_intra)
            .into())
    }
}

fn strip(payload: &[u8]) -> Option<&[u8]> {
    let extended = payload.first()? & T != 0;
    payload.get(if extended { 2 } else { 1 } * HEADER_BYTES..)
}

/// The beginning of the first picture.
struct PictureStart {
    /// Whether a sequence header is in front.
    has_sequence: bool,
    is_intra: bool,
}

impl PictureStart {
    fn of(mut bytes: &[u8]) -> Option<Self> {
        let mut has_sequence = false;
        loop {
            let at = annexb::find_start_code(bytes)?;
            bytes = &bytes[at + annexb::START_CODE.len()..];
            match bytes {
                [SEQUENCE, ..] => has_sequence = true,
                [PICTURE, _, b, ..] => {
                    return Some(Self {
                        has_sequence,
                        is_intra: b >> 3 & 7 == INTRA,
                    });
                }
                _ => {}
            }
        }
    }
}
