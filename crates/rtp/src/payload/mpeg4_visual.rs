//! MPEG-4 visual payloads (RFC 6416 §5): the bytes of a frame, split anywhere.

use glassline_media::{UnitBuilder, annexb};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::equal_pieces;

/// Start code (ISO/IEC 14496-2 table 6-3) of a video object plane, that is a frame.
const VOP: u8 = 0xb6;
/// Start codes of visual object sequences, their ends, user data, groups of planes, visual
/// objects.
const HEADERS: std::ops::RangeInclusive<u8> = 0xb0..=0xb5;
/// Start codes of video objects and their layers.
const OBJECTS: std::ops::RangeInclusive<u8> = 0x00..=0x2f;

/// Splits a frame with its headers into payloads of equal size except for a shorter last one.
pub(super) fn packetize(frame: &[u8], payload_max: usize, out: &mut UnitBuilder) {
    for piece in equal_pieces(frame, payload_max) {
        out.push(piece);
    }
}

/// Joins payloads into a frame.
#[derive(Debug)]
pub(super) struct Assembly;

impl FrameFormat for Assembly {
    /// No fragment begins with one of these start codes. A fragment at a slice (video packet)
    /// begins with another code.
    fn begins(&self, payload: &[u8]) -> bool {
        match payload {
            [0, 0, 1, code, ..] => *code == VOP || HEADERS.contains(code) || OBJECTS.contains(code),
            _ => false,
        }
    }

    fn separates(&self, payload: &[u8]) -> bool {
        self.begins(payload) && !matches!(payload, [0, 0, 1, VOP, ..])
    }

    fn has_picture(&self, frame: &[u8]) -> bool {
        first_plane(frame).is_some()
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        frame.extend_from_slice(payload);
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        Ok(is_keyframe(frame).into())
    }
}

/// Returns whether the first plane is intra coded: `vop_coding_type` is 0 (§6.2.5).
fn is_keyframe(frame: &[u8]) -> bool {
    matches!(first_plane(frame), Some([plane, ..]) if plane & 0xc0 == 0)
}

/// Returns what follows the start code of the first plane.
fn first_plane(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let at = annexb::find_start_code(bytes)?;
        bytes = &bytes[at + annexb::START_CODE.len()..];
        if let [VOP, plane @ ..] = bytes {
            return Some(plane);
        }
    }
}
