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
    /// Time of capture in µs since the start of the run.
    pub(super) captured_us: u64,
}

/// Header of a slice of an IDR picture.
const KEYFRAME: u8 = 0x65;
/// Header of any other slice.
const SLICE: u8 = 0x41;

impl FrameTag {
    /// Length of a tag in bytes, which is the least payload of a packet.
    pub(super) const BYTES: usize = 18;

    /// Returns the tag as bytes.
    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0] = if self.keyframe { KEYFRAME } else { SLICE };
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
        let keyframe = match tag[0] {
            KEYFRAME => true,
            SLICE => false,
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
            captured_us: 90_000_000,
        };
        let mut payload = tag.to_bytes().to_vec();
        payload.resize(1_150, 7);
        assert_eq!(FrameTag::read(&payload), Some(tag));
        assert_eq!(FrameTag::read(&[0; 224]), None);
        assert_eq!(FrameTag::read(&payload[..17]), None);
    }
}
