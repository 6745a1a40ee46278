//! Numbers in the payload descriptors of VP8 and VP9 that count what one receiver gets.
//!
//! A receiver that is moved from one encoding of a track to another must see these numbers go on as if
//! nothing had happened (RFC 7741 §4.2, RFC 9628 §4.2). A sender then moves the numbers of the new
//! encoding by a fixed distance, a [`NumberShift`].

use glassline_media::Codec;

/// Mask of a picture ID of two bytes.
const WIDE: u16 = 0x7fff;
/// Mask of a picture ID of one byte.
const NARROW: u16 = 0x7f;
/// Mask of VP8's index of keyframes.
const KEY: u8 = 0x1f;

/// The numbers of one payload, as far as its descriptor has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameNumbers {
    /// PictureID, which counts frames; its upper bits are 0 if it has one byte.
    pub frame_id: Option<u16>,
    /// Number of frames of the lowest temporal layer.
    pub tl0_pic_idx: Option<u8>,
    /// Number of keyframes, of VP8 only.
    pub key_idx: Option<u8>,
}

/// A distance by which the numbers of payloads are moved. The default moves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberShift {
    frame_id: u16,
    tl0_pic_idx: u8,
    key_idx: u8,
}

/// Offsets of the numbers within a payload.
#[derive(Debug, Default)]
struct Places {
    frame_id: Option<usize>,
    tl0_pic_idx: Option<usize>,
    key_idx: Option<usize>,
}

impl Places {
    /// Returns the places of the numbers in a payload; `None` for a codec without them, and for a
    /// descriptor that is cut short.
    fn of(codec: Codec, payload: &[u8]) -> Option<Self> {
        let places = match codec {
            Codec::Vp8 => Self::of_vp8(payload)?,
            Codec::Vp9 => Self::of_vp9(payload)?,
            _ => return None,
        };
        let all = [places.frame_id, places.tl0_pic_idx, places.key_idx];
        let last = all.into_iter().flatten().max()?;
        let is_wide = places.frame_id == Some(last) && payload.get(last)? & 0x80 != 0;
        (last + usize::from(is_wide) < payload.len()).then_some(places)
    }

    fn of_vp8(payload: &[u8]) -> Option<Self> {
        let mut places = Self::default();
        if payload.first()? & 0x80 == 0 {
            return Some(places);
        }
        let (extensions, mut at) = (*payload.get(1)?, 2);
        if extensions & 0x80 != 0 {
            places.frame_id = Some(at);
            at += 1 + usize::from(payload.get(at)? >> 7);
        }
        if extensions & 0x40 != 0 {
            places.tl0_pic_idx = Some(at);
            at += 1;
        }
        places.key_idx = (extensions & 0x10 != 0).then_some(at);
        Some(places)
    }

    fn of_vp9(payload: &[u8]) -> Option<Self> {
        let mut places = Self::default();
        let (flags, mut at) = (*payload.first()?, 1);
        if flags & 0x80 != 0 {
            places.frame_id = Some(at);
            at += 1 + usize::from(payload.get(at)? >> 7);
        }
        // Layer indices are followed by the number in non-flexible mode only.
        if flags & 0x30 == 0x20 {
            places.tl0_pic_idx = Some(at + 1);
        }
        Some(places)
    }
}

/// Returns a picture ID and its mask. The payload has all of its bytes.
fn read_id(payload: &[u8], at: usize) -> (u16, u16) {
    match payload[at] & 0x80 {
        0 => (payload[at].into(), NARROW),
        _ => (
            u16::from_be_bytes([payload[at], payload[at + 1]]) & WIDE,
            WIDE,
        ),
    }
}

impl FrameNumbers {
    /// Returns whether payloads of `codec` have numbers.
    pub const fn are_of(codec: Codec) -> bool {
        matches!(codec, Codec::Vp8 | Codec::Vp9)
    }

    /// Reads the numbers of a payload of `codec`; all are `None` where there are none.
    pub fn of(codec: Codec, payload: &[u8]) -> Self {
        let Some(places) = Places::of(codec, payload) else {
            return Self::default();
        };
        Self {
            frame_id: places.frame_id.map(|at| read_id(payload, at).0),
            tl0_pic_idx: places.tl0_pic_idx.map(|at| payload[at]),
            key_idx: places.key_idx.map(|at| payload[at] & KEY),
        }
    }
}

impl NumberShift {
    /// The distance that moves nothing.
    pub const NONE: Self = Self {
        frame_id: 0,
        tl0_pic_idx: 0,
        key_idx: 0,
    };

    /// Returns the distance that makes the payload with the numbers `first`, a keyframe, follow the one
    /// with the numbers `last`. A number that either of them lacks is not moved.
    pub fn behind(last: FrameNumbers, first: FrameNumbers) -> Self {
        let distance = |last: Option<u16>, first: Option<u16>| match (last, first) {
            (Some(last), Some(first)) => last.wrapping_add(1).wrapping_sub(first),
            _ => 0,
        };
        let byte = |last: Option<u8>, first: Option<u8>| match (last, first) {
            (Some(last), Some(first)) => last.wrapping_add(1).wrapping_sub(first),
            _ => 0,
        };
        Self {
            frame_id: distance(last.frame_id, first.frame_id) & WIDE,
            tl0_pic_idx: byte(last.tl0_pic_idx, first.tl0_pic_idx),
            key_idx: byte(last.key_idx, first.key_idx) & KEY,
        }
    }

    /// Returns the distance for payloads behind `frames` frames of the same encoding that the receiver did
    /// not get.
    #[must_use]
    pub const fn without(self, frames: u32) -> Self {
        let low = (frames & WIDE as u32) as u16;
        Self {
            frame_id: self.frame_id.wrapping_sub(low) & WIDE,
            ..self
        }
    }

    /// Returns whether payloads stay as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns numbers as a receiver of moved payloads sees them.
    #[must_use]
    pub fn apply(&self, numbers: FrameNumbers) -> FrameNumbers {
        FrameNumbers {
            frame_id: numbers
                .frame_id
                .map(|id| id.wrapping_add(self.frame_id) & WIDE),
            tl0_pic_idx: numbers
                .tl0_pic_idx
                .map(|number| number.wrapping_add(self.tl0_pic_idx)),
            key_idx: numbers
                .key_idx
                .map(|number| number.wrapping_add(self.key_idx) & KEY),
        }
    }

    /// Moves the numbers of a payload of `codec` in place. A payload without numbers, or with a
    /// descriptor that is cut short, stays as it is.
    pub fn rewrite(&self, codec: Codec, payload: &mut [u8]) {
        let Some(places) = Places::of(codec, payload) else {
            return;
        };
        if let Some(at) = places.frame_id {
            let (id, mask) = read_id(payload, at);
            let id = id.wrapping_add(self.frame_id) & mask;
            match mask {
                WIDE => payload[at..at + 2].copy_from_slice(&(0x8000 | id).to_be_bytes()),
                _ => payload[at] = id.to_be_bytes()[1],
            }
        }
        if let Some(at) = places.tl0_pic_idx {
            payload[at] = payload[at].wrapping_add(self.tl0_pic_idx);
        }
        if let Some(at) = places.key_idx {
            let number = payload[at].wrapping_add(self.key_idx) & KEY;
            payload[at] = payload[at] & !KEY | number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(frame_id: u16, tl0_pic_idx: u8, key_idx: u8) -> FrameNumbers {
        FrameNumbers {
            frame_id: Some(frame_id),
            tl0_pic_idx: Some(tl0_pic_idx),
            key_idx: Some(key_idx),
        }
    }

    #[test]
    fn numbers_of_each_descriptor_are_found() {
        let of = FrameNumbers::of;
        let vp8 = [0x90, 0xf0, 0x92, 0x34, 7, 0x65, 9];
        assert_eq!(of(Codec::Vp8, &vp8), numbers(0x1234, 7, 5));
        let narrow = of(Codec::Vp8, &[0x90, 0x80, 0x11, 9]);
        assert_eq!(narrow.frame_id, Some(0x11));
        assert_eq!(of(Codec::Vp8, &[0x10, 9]), FrameNumbers::default());
        let vp9 = of(Codec::Vp9, &[0xac, 0x81, 2, 0, 5, 9]);
        assert_eq!((vp9.frame_id, vp9.tl0_pic_idx), (Some(0x102), Some(5)));
        let flexible = of(Codec::Vp9, &[0xbc, 0x81, 2, 0, 5, 9]);
        assert_eq!(
            flexible.tl0_pic_idx, None,
            "it is in non-flexible mode only"
        );
        assert_eq!(of(Codec::H264, &vp8), FrameNumbers::default());
    }

    #[test]
    fn the_numbers_of_another_encoding_follow_those_before_and_wrap() {
        let (last, first) = (numbers(WIDE, 255, 31), numbers(500, 3, 9));
        let shift = NumberShift::behind(last, first);
        assert_eq!(shift.apply(first), numbers(0, 0, 0));
        let mut payload = [0x90, 0xf0, 0x81, 0xf5, 4, 0xea, 9];
        assert_eq!(FrameNumbers::of(Codec::Vp8, &payload), numbers(501, 4, 10));
        shift.rewrite(Codec::Vp8, &mut payload);
        assert_eq!(payload, [0x90, 0xf0, 0x80, 1, 1, 0xe1, 9]);
        let unknown = NumberShift::behind(FrameNumbers::default(), first);
        assert!(unknown.is_none() && !shift.is_none());
    }

    fn any_numbers() -> impl Strategy<Value = FrameNumbers> {
        (0..=WIDE, any::<u8>(), 0..=KEY).prop_map(|(id, tl0, key)| numbers(id, tl0, key))
    }

    proptest! {
        /// Any bytes: numbers move by the distance, all other bits stay, and moving back restores the
        /// payload.
        #[test]
        fn any_payload_is_moved_and_moved_back(
            original in proptest::collection::vec(any::<u8>(), 0..12),
            last in any_numbers(),
            first in any_numbers(),
        ) {
            let shift = NumberShift::behind(last, first);
            let back = NumberShift {
                frame_id: 0_u16.wrapping_sub(shift.frame_id) & WIDE,
                tl0_pic_idx: 0_u8.wrapping_sub(shift.tl0_pic_idx),
                key_idx: 0_u8.wrapping_sub(shift.key_idx) & KEY,
            };
            for codec in [Codec::Vp8, Codec::Vp9, Codec::Av1, Codec::H264] {
                let before = FrameNumbers::of(codec, &original);
                let mut payload = original.clone();
                shift.rewrite(codec, &mut payload);
                let (after, expected) = (FrameNumbers::of(codec, &payload), shift.apply(before));
                prop_assert_eq!(after.tl0_pic_idx, expected.tl0_pic_idx);
                prop_assert_eq!(after.key_idx, expected.key_idx);
                // A picture ID of one byte has the lower bits only.
                let low = |id: Option<u16>| id.map(|id| id & NARROW);
                prop_assert_eq!(low(after.frame_id), low(expected.frame_id));
                if before == FrameNumbers::default() {
                    prop_assert_eq!(&payload, &original);
                }
                back.rewrite(codec, &mut payload);
                prop_assert_eq!(&payload, &original);
            }
        }
    }
}
