//! Parses blocks, which hold one or more frames of one track (RFC 9559 §10).

use super::ebml::{self, Element, id};
use crate::error::{Fault, Reason};
use crate::window::Window;

/// Bytes at the start of a block that may hold the lengths of its frames.
const LACES_BYTES_MAX: usize = 8192;

/// Locations and properties of the frames of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// Number of the block's track.
    pub(super) track: u64,
    /// Time relative to the cluster, in ticks.
    pub(super) relative: i16,
    pub(super) keyframe: bool,
    /// Duration of all frames together, in ticks.
    pub(super) duration: Option<u64>,
    /// Nanoseconds of audio at the end that must not be played.
    pub(super) discarded_ns: i64,
    /// Offset and length in bytes of each frame.
    pub(super) frames: Vec<(u64, u64)>,
}

impl Block {
    /// Parses the body of a SimpleBlock.
    pub(super) fn simple(window: &mut Window, start: u64, end: u64) -> Result<Self, Fault> {
        Self::read(window, start, end).map(|(block, flags)| Self {
            keyframe: flags & 0x80 != 0,
            ..block
        })
    }

    /// Parses the body of a BlockGroup; `None` if it has no block.
    pub(super) fn group(window: &mut Window, start: u64, end: u64) -> Result<Option<Self>, Fault> {
        let damaged = |at| {
            Fault::at(
                at,
                Reason::Damaged("no element begins here in a block group"),
            )
        };
        let mut found = None;
        let (mut keyframe, mut duration, mut discarded_ns) = (true, None, 0);
        let mut at = start;
        while at < end {
            let head = window.peek(at, Element::HEAD_BYTES_MAX)?;
            let element = Element::parse(head, at).ok_or_else(|| damaged(at))?;
            let after = element.end().filter(|&after| after <= end);
            let after = after.ok_or_else(|| damaged(at))?;
            let size = usize::try_from(after - element.body).unwrap_or(usize::MAX);
            match element.id {
                id::BLOCK => found = Some(Self::read(window, element.body, after)?.0),
                id::REFERENCE_BLOCK => keyframe = false,
                id::BLOCK_DURATION => {
                    duration = Some(ebml::unsigned(window.peek(element.body, size.min(8))?));
                }
                id::DISCARD_PADDING => {
                    discarded_ns = ebml::signed(window.peek(element.body, size.min(8))?);
                }
                _ => {}
            }
            at = after;
        }
        Ok(found.map(|block| Self {
            keyframe,
            duration,
            discarded_ns,
            ..block
        }))
    }

    /// Parses a block. Returns the block and its flags.
    fn read(window: &mut Window, start: u64, end: u64) -> Result<(Self, u8), Fault> {
        let damaged = |what| Fault::at(start, Reason::Damaged(what));
        let size = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let head = window.peek(start, size.min(LACES_BYTES_MAX))?;
        let cut = "a block ends inside its header";
        let (track, track_bytes) = ebml::number(head).ok_or_else(|| damaged(cut))?;
        let [high, low, flags] = *head
            .get(track_bytes..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| damaged(cut))?;
        let laces = &head[track_bytes + 3..];
        let (lengths, laces_bytes) = match flags >> 1 & 3 {
            0 => Some((Vec::new(), 0)),
            1 => xiph_laces(laces),
            2 => laces.first().map(|&count| (vec![None; count.into()], 1)),
            _ => ebml_laces(laces),
        }
        .ok_or_else(|| damaged("the lengths of a block's frames are damaged"))?;
        let mut at = start + (track_bytes + 3 + laces_bytes) as u64;
        let frames = place(&lengths, &mut at, end)
            .ok_or_else(|| damaged("the frames of a block are longer than the block"))?;
        let block = Self {
            offset: start,
            track,
            relative: i16::from_be_bytes([high, low]),
            keyframe: false,
            duration: None,
            discarded_ns: 0,
            frames,
        };
        Ok((block, flags))
    }
}

/// Lengths of all frames but the last; `None` is an equal share.
type Lengths = Vec<Option<u64>>;

fn place(lengths: &Lengths, at: &mut u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let left = end.checked_sub(*at)?;
    let share = left / (lengths.len() as u64 + 1);
    let equal = lengths.first().is_some_and(Option::is_none);
    if equal && !left.is_multiple_of(lengths.len() as u64 + 1) {
        return None;
    }
    let mut frames = Vec::with_capacity(lengths.len() + 1);
    for length in lengths {
        let length = length.unwrap_or(share);
        frames.push((*at, length));
        *at = at.checked_add(length).filter(|&at| at <= end)?;
    }
    frames.push((*at, end - *at));
    Some(frames)
}

/// Reads Xiph lacing: a number of frames minus one, then lengths in units of 255.
fn xiph_laces(laces: &[u8]) -> Option<(Lengths, usize)> {
    let (&count, mut rest) = laces.split_first()?;
    let mut lengths = Lengths::new();
    for _ in 0..count {
        let mut length = 0;
        loop {
            let (&more, after) = rest.split_first()?;
            rest = after;
            length += u64::from(more);
            if more < 255 {
                break;
            }
        }
        lengths.push(Some(length));
    }
    Some((lengths, laces.len() - rest.len()))
}

/// Reads EBML lacing: a number of frames minus one, the first length, then differences, all as
/// variable-length integers.
fn ebml_laces(laces: &[u8]) -> Option<(Lengths, usize)> {
    let (&count, mut rest) = laces.split_first()?;
    let mut lengths = Lengths::new();
    let mut length = 0i64;
    for place in 0..count {
        let (value, bytes) = ebml::number(rest)?;
        rest = &rest[bytes..];
        let value = i64::try_from(value).ok()?;
        length = match place {
            0 => value,
            // Differences are stored relative to the middle of their range.
            _ => length.checked_add(value - ((1 << (7 * bytes - 1)) - 1))?,
        };
        lengths.push(Some(u64::try_from(length).ok()?));
    }
    Some((lengths, laces.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn block(bytes: &[u8]) -> Result<Block, Fault> {
        let mut window = Window::new(Box::new(Cursor::new(bytes.to_vec()))).expect("memory");
        Block::simple(&mut window, 0, bytes.len() as u64)
    }

    fn frames(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
        block(bytes).ok().map(|block| block.frames)
    }

    #[test]
    fn a_block_without_laces_is_one_frame() {
        let found = block(&[0x81, 0xff, 0xfe, 0x80, 1, 2, 3]).expect("good");
        assert_eq!((found.track, found.relative, found.keyframe), (1, -2, true));
        assert_eq!(found.frames, [(4, 3)]);
        assert!(block(&[0x81, 0, 0]).is_err());
    }

    #[test]
    fn all_three_ways_of_lacing() {
        let xiph = [0x81, 0, 0, 0x02, 2, 1, 2, 9, 8, 8, 7, 7, 7];
        assert_eq!(frames(&xiph), Some(vec![(7, 1), (8, 2), (10, 3)]));
        let fixed = [0x81, 0, 0, 0x04, 2, 1, 2, 3, 4, 5, 6];
        assert_eq!(frames(&fixed), Some(vec![(5, 2), (7, 2), (9, 2)]));
        // Two bytes, then one more than that.
        let ebml = [0x81, 0, 0, 0x06, 2, 0x82, 0xc0, 1, 1, 2, 2, 2, 3];
        assert_eq!(frames(&ebml), Some(vec![(7, 2), (9, 3), (12, 1)]));
    }

    #[test]
    fn laces_that_do_not_fit_are_damage() {
        for bytes in [
            [0x81, 0, 0, 0x02, 1, 200, 1].as_slice(),
            &[0x81, 0, 0, 0x02, 1, 255],
            &[0x81, 0, 0, 0x04, 1, 1, 2, 3],
            &[0x81, 0, 0, 0x06, 2, 0x81, 0x80, 1],
            &[0x81, 0, 0, 0x06, 1],
            &[0x81, 0, 0, 0x02],
        ] {
            assert_eq!(frames(bytes), None, "{bytes:?}");
        }
    }
}
