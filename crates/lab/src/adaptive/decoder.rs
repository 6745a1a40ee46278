//! Frames as a browser assembles and decodes them: by sequence numbers, which must go on without a gap
//! from the last frame, or begin anew at a keyframe.

use std::collections::BTreeMap;

use super::frame_tag::{FrameTag, TimePlace};

/// Most packets that wait for others.
const WAITING_MAX: usize = 4_096;

/// Puts the packets of a viewer together.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Packets that are not decoded yet, by sequence number; `None` for padding between frames.
    waiting: BTreeMap<u64, Option<FrameTag>>,
    /// Sequence number that continues what was decoded; `None` before the first keyframe.
    next: Option<u64>,
    /// The frame that was decoded last, of those to which others refer.
    last: Option<FrameTag>,
    /// Frames of which packets arrived, and that were given up for a newer keyframe.
    pub(super) abandoned: u64,
}

/// A frame that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) tag: FrameTag,
    /// Whether the decoder took the frame though it had not the one that the frame refers to, so that
    /// the picture is torn.
    pub(super) is_torn: bool,
}

impl Decoder {
    /// Takes a packet; `tag` is `None` for padding.
    pub(super) fn take(&mut self, sequence: u64, tag: Option<FrameTag>) {
        if self.next.is_some_and(|next| sequence < next) {
            return;
        }
        self.waiting.insert(sequence, tag);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_first();
        }
    }

    /// Returns the next frame that can be decoded; to be called until `None`.
    pub(super) fn poll(&mut self) -> Option<Decoded> {
        while let Some(next) = self.next
            && matches!(self.waiting.get(&next), Some(None))
        {
            self.waiting.remove(&next);
            self.next = Some(next + 1);
        }
        let at = match self.next {
            Some(next) if self.whole(next).is_some() => next,
            _ => self.keyframe()?,
        };
        let tag = self.whole(at)?;
        self.abandon(at);
        let end = at + u64::from(tag.packets);
        self.waiting = self.waiting.split_off(&end);
        self.next = Some(end);
        let back = tag.place.refers_back();
        let refers = |last: FrameTag| last.layer == tag.layer && last.number + back == tag.number;
        let is_torn = !tag.keyframe && !self.last.is_some_and(refers);
        if tag.place != TimePlace::Upper {
            self.last = Some(tag);
        }
        Some(Decoded { tag, is_torn })
    }

    /// Returns whether packets wait that cannot be decoded.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.values().any(Option::is_some)
    }

    /// Returns the frame that begins at `sequence`, if all of its packets are there.
    fn whole(&self, sequence: u64) -> Option<FrameTag> {
        let tag = (*self.waiting.get(&sequence)?)?;
        let is_there = |packet: u16| {
            let at = sequence + u64::from(packet);
            let found = self.waiting.get(&at).copied().flatten();
            found.is_some_and(|it| {
                (it.layer, it.number, it.packet) == (tag.layer, tag.number, packet)
            })
        };
        (tag.packet == 0 && (0..tag.packets).all(is_there)).then_some(tag)
    }

    /// Returns where the first whole keyframe begins.
    fn keyframe(&self) -> Option<u64> {
        let mut begins = self.waiting.iter().filter_map(|(sequence, tag)| {
            let tag = (*tag)?;
            (tag.keyframe && tag.packet == 0).then_some(*sequence)
        });
        begins.find(|sequence| self.whole(*sequence).is_some())
    }

    /// Counts the frames in front of `end` that will never be decoded.
    fn abandon(&mut self, end: u64) {
        let before = self.waiting.range(..end);
        let mut numbers: Vec<u32> = before.filter_map(|(_, tag)| Some((*tag)?.number)).collect();
        numbers.dedup();
        self.abandoned += numbers.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packets of a frame, the first one at `sequence`.
    fn frame(sequence: u64, layer: u8, number: u32, keyframe: bool) -> Vec<(u64, FrameTag)> {
        let packets = 2;
        let tag = |packet| FrameTag {
            layer,
            keyframe,
            number,
            packet,
            packets,
            place: TimePlace::Chain,
            captured_us: 0,
        };
        (0..packets)
            .map(|packet| (sequence + u64::from(packet), tag(packet)))
            .collect()
    }

    fn decode(decoder: &mut Decoder, packets: &[(u64, FrameTag)]) -> Vec<(u32, bool)> {
        for (sequence, tag) in packets {
            decoder.take(*sequence, Some(*tag));
        }
        let decoded = std::iter::from_fn(|| decoder.poll());
        decoded.map(|it| (it.tag.number, it.is_torn)).collect()
    }

    #[test]
    fn frames_are_decoded_in_order_once_all_packets_are_there() {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &frame(9, 0, 4, false)), []);
        assert_eq!(
            decode(&mut decoder, &frame(11, 0, 5, true)),
            [(5, false)],
            "from the first keyframe on"
        );
        assert_eq!(decoder.abandoned, 1);
        let (next, behind) = (frame(13, 0, 6, false), frame(15, 0, 7, false));
        assert_eq!(decode(&mut decoder, &behind), []);
        assert!(decoder.is_stuck());
        assert_eq!(decode(&mut decoder, &next[1..]), []);
        assert_eq!(
            decode(&mut decoder, &next[..1]),
            [(6, false), (7, false)],
            "a repair"
        );
        assert!(!decoder.is_stuck());
        decoder.take(17, None);
        let behind = frame(18, 0, 8, false);
        assert_eq!(
            decode(&mut decoder, &behind),
            [(8, false)],
            "behind padding"
        );
    }

    #[test]
    fn a_keyframe_ends_a_gap_and_a_frame_without_its_reference_is_torn() {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &frame(0, 0, 0, true)), [(0, false)]);
        assert_eq!(decode(&mut decoder, &frame(4, 0, 2, false)), []);
        assert_eq!(decode(&mut decoder, &frame(6, 1, 3, true)), [(3, false)]);
        assert_eq!(decoder.abandoned, 1);
        // The numbers go on, but the server left frames out, or moved without a keyframe.
        assert_eq!(decode(&mut decoder, &frame(8, 1, 5, false)), [(5, true)]);
        assert_eq!(decode(&mut decoder, &frame(10, 0, 6, false)), [(6, true)]);
    }
}
