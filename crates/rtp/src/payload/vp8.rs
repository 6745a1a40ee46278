//! VP8 payloads (RFC 7741): a descriptor with a 15-bit picture ID, then a piece of the frame.
//! The packetizer does not parse partitions: every piece counts as part of the first.

use glassline_media::{Temporal, UnitBuilder};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::equal_pieces;
use super::picture_id::{self, PictureId};

/// First byte of the descriptor (RFC 7741 §4.2): extension bits follow.
const X: u8 = 0x80;
/// No other frame refers to the frame.
const N: u8 = 0x20;
/// The payload begins a partition.
const S: u8 = 0x10;
/// Index of the partition.
const PID: u8 = 0x07;
/// In the extension bits: a picture ID follows.
const I: u8 = 0x80;
/// A byte of TL0PICIDX follows.
const L: u8 = 0x40;
/// The temporal layer is stated.
const T: u8 = 0x20;
/// A byte with temporal layer, key index or both follows.
const T_OR_K: u8 = 0x30;
/// In that byte: the frame refers to the lowest layer alone.
const Y: u8 = 0x20;

/// Length of the descriptor that we write, in bytes.
const DESCRIPTOR_BYTES: usize = 4;

/// Splits a frame into payloads of at most `payload_max` bytes, of equal size except for a
/// shorter last one.
pub(super) fn packetize(
    frame: &[u8],
    id: &mut PictureId,
    payload_max: usize,
    out: &mut UnitBuilder,
) {
    if frame.is_empty() {
        return;
    }
    let [high, low] = id.next();
    let mut start = S;
    for piece in equal_pieces(frame, payload_max.saturating_sub(DESCRIPTOR_BYTES)) {
        out.wire_only(&[X | start, I, high, low]);
        out.coded(piece);
        out.end_packet();
        start = 0;
    }
}

fn begins_frame(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| first & (S | PID) == S)
}

/// Splits a payload into the place of its frame among the temporal layers and what follows the descriptor;
/// `None` if the descriptor is cut short.
fn strip(payload: &[u8]) -> Option<(Temporal, &[u8])> {
    let (first, rest) = payload.split_first()?;
    let mut temporal = Temporal {
        discardable: first & N != 0,
        ..Temporal::default()
    };
    if first & X == 0 {
        return Some((temporal, rest));
    }
    let (extensions, mut rest) = rest.split_first()?;
    if extensions & I != 0 {
        rest = picture_id::skip(rest)?;
    }
    if extensions & L != 0 {
        rest = rest.get(1..)?;
    }
    if extensions & T_OR_K != 0 {
        let layers = rest.first()?;
        if extensions & T != 0 {
            temporal.layer = layers >> 6;
            match layers & Y {
                0 => temporal.needs = temporal.layer,
                _ => temporal.opens = temporal.layer,
            }
        }
        rest = rest.get(1..)?;
    }
    Some((temporal, rest))
}

/// Reads the inverse key frame flag of the frame tag (RFC 6386 §9.1).
fn is_keyframe(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 0)
}

/// Joins payloads into a frame.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    temporal: Temporal,
}

impl FrameFormat for Assembly {
    fn begins(&self, payload: &[u8]) -> bool {
        begins_frame(payload)
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        // A frame begins with its first partition, and only there.
        if begins_frame(payload) != frame.is_empty() {
            return Err(DropReason::Malformed);
        }
        let stripped = strip(payload).filter(|(_, piece)| !piece.is_empty());
        let (temporal, piece) = stripped.ok_or(DropReason::Malformed)?;
        self.temporal = temporal;
        frame.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        Ok(is_keyframe(frame).into())
    }

    fn temporal(&self) -> Temporal {
        self.temporal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_every_length_are_passed_over() {
        let strip = |bytes: &'static [u8]| strip(bytes).map(|(_, piece)| piece);
        // The examples of RFC 7741 §4.5, with one byte of payload.
        assert_eq!(strip(&[0x10, 9]), Some(&[9][..]));
        assert_eq!(strip(&[0x90, 0x80, 0x11, 9]), Some(&[9][..]));
        assert_eq!(strip(&[0x80, 0x80, 0x80 | 0x12, 0x34, 9]), Some(&[9][..]));
        assert_eq!(strip(&[0x90, 0xf0, 0x11, 1, 0x40, 9]), Some(&[9][..]));
        assert_eq!(strip(&[0x90, 0x20, 0x40, 9]), Some(&[9][..]));
        for cut in [
            &[0x90][..],
            &[0x90, 0x80],
            &[0x90, 0x80, 0x91],
            &[0x90, 0xc0, 1],
        ] {
            assert_eq!(super::strip(cut), None, "{cut:x?}");
        }
    }

    #[test]
    fn a_frame_that_refers_to_the_lowest_layer_alone_opens_its_own() {
        let temporal = |bytes: &[u8]| strip(bytes).map(|(temporal, _)| temporal);
        let of = |layer, needs, opens, discardable| {
            Some(Temporal {
                layer,
                needs,
                opens,
                discardable,
            })
        };
        assert_eq!(
            temporal(&[0x90, 0xe0, 0x11, 1, 0x00, 9]),
            of(0, 0, 0, false)
        );
        assert_eq!(
            temporal(&[0x90, 0xe0, 0x11, 1, 0x60, 9]),
            of(1, 0, 1, false)
        );
        assert_eq!(temporal(&[0xb0, 0x20, 0x80, 9]), of(2, 2, 0, true));
        // An index of keyframes alone says nothing of layers.
        assert_eq!(temporal(&[0x90, 0x10, 0xff, 9]), of(0, 0, 0, false));
    }

    #[test]
    fn only_the_first_partition_begins_a_frame() {
        assert!(begins_frame(&[0x90, 0x80, 0x80, 1, 0x10]));
        assert!(!begins_frame(&[0x80, 0x80, 0x80, 1, 0x10]), "within");
        assert!(!begins_frame(&[0x91, 0x80, 0x80, 1, 0x10]), "the second");
    }
}
