//! The begin of each packet's payload, by which a viewer knows the frame that the packet is of.

/// A packet of a frame. The first byte on the wire is that of an H.264 slice, so that servers know
/// keyframes by the payload, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameTag {
    /// Position of the encoding, from the best one on.
    pub(super) layer: u8,
    /// Whether a decoder can start with the frame.
    pub(super) keyframe: bool,
    /// Number of the frame, equal on all layers.
    pub(super) number: u32,
    /// Position of the packet within the frame.
    pub(super) packet: u16,
    /// Number of packets of the frame.
    pub(super) packets: u16,
    /// Frames to which the frame refers.
    pub(super) place: TimePlace,
    /// Time of capture in µs since the start of the run.
    pub(super) captured_us: u64,
}

/// A frame's place among the frames of its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TimePlace {
    /// The frame refers to the one before, and the next one refers to it.
    #[default]
    Chain,
    /// The frame refers to the one before the last, which the last one refers to as well.
    Base,
    /// The frame refers to the one before, and no frame refers to it.
    Upper,
}

impl TimePlace {
    /// Returns how many frames before a frame the one is to which it refers.
    pub(super) const fn refers_back(self) -> u32 {
        match self {
            Self::Chain | Self::Upper => 1,
            Self::Base => 2,
        }
    }
}

/// Header of a slice of an IDR picture.
const KEYFRAME: u8 = 0x65;
/// Headers of other slices, by their frame's place.
const CHAIN: u8 = 0x41;
const BASE: u8 = 0x21;
const UPPER: u8 = 0x01;

impl FrameTag {
    /// Length of a tag in bytes, which is the least payload of a packet.
    pub(super) const BYTES: usize = 18;

    /// Returns the tag as bytes.
    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0] = match self.place {
            _ if self.keyframe => KEYFRAME,
            TimePlace::Chain => CHAIN,
            TimePlace::Base => BASE,
            TimePlace::Upper => UPPER,
        };
        out[1] = self.layer;
        out[2..6].copy_from_slice(&self.number.to_be_bytes());
        out[6..8].copy_from_slice(&self.packet.to_be_bytes());
        out[8..10].copy_from_slice(&self.packets.to_be_bytes());
        out[10..].copy_from_slice(&self.captured_us.to_be_bytes());
        out
    }

    /// Reads the tag of a payload; `None` if the payload is no packet of a frame, as padding is.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let tag: &[u8; Self::BYTES] = payload.first_chunk()?;
        let (keyframe, place) = match tag[0] {
            KEYFRAME => (true, TimePlace::Chain),
            CHAIN => (false, TimePlace::Chain),
            BASE => (false, TimePlace::Base),
            UPPER => (false, TimePlace::Upper),
            _ => return None,
        };
        let (number, captured) = (tag[2..].first_chunk()?, tag[10..].first_chunk()?);
        let (packet, packets) = (tag[6..].first_chunk()?, tag[8..].first_chunk()?);
        Some(Self {
            layer: tag[1],
            keyframe,
            number: u32::from_be_bytes(*number),
            packet: u16::from_be_bytes(*packet),
            packets: u16::from_be_bytes(*packets),
            place,
            captured_us: u64::from_be_bytes(*captured),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_written_and_padding_has_none() {
        let tag = FrameTag {
            layer: 2,
            keyframe: true,
            number: 70_000,
            packet: 3,
            packets: 300,
            place: TimePlace::Chain,
            captured_us: 90_000_000,
        };
        let mut payload = tag.to_bytes().to_vec();
        payload.resize(1_150, 7);
        assert_eq!(FrameTag::read(&payload), Some(tag));
        for place in [TimePlace::Chain, TimePlace::Base, TimePlace::Upper] {
            let tag = FrameTag {
                keyframe: false,
                place,
                ..tag
            };
            assert_eq!(FrameTag::read(&tag.to_bytes()), Some(tag));
        }
        assert_eq!(FrameTag::read(&[0; 224]), None);
        assert_eq!(FrameTag::read(&payload[..17]), None);
    }
}
