//! Parses the identification header of a Theora stream (Theora specification, §6.2).

use crate::FrameRate;

/// Fields of the header that describe and time a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rate: FrameRate,
    /// Chroma subsampling as in SDP.
    pub(crate) sampling: &'static str,
    /// Number of bits of a granule position that count pictures since the last keyframe.
    pub(crate) shift: u32,
    /// Whether granule positions count pictures from one, as they do from version 3.2.1 on.
    pub(crate) from_one: bool,
}

pub(crate) const IDENTIFICATION: &[u8] = b"\x80theora";
pub(crate) const COMMENTS: &[u8] = b"\x81theora";
pub(crate) const SETUP: &[u8] = b"\x82theora";

impl Head {
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, &'static str> {
        let rest = packet
            .strip_prefix(IDENTIFICATION)
            .and_then(|rest| rest.first_chunk::<35>())
            .ok_or("the Theora identification header is cut off")?;
        let number = |at: usize, count: usize| {
            let bytes = &rest[at..at + count];
            bytes
                .iter()
                .fold(0u32, |value, &byte| value << 8 | u32::from(byte))
        };
        if number(0, 2) != 0x302 {
            return Err("the Theora version is not 3.2");
        }
        let (width, height) = (number(7, 3), number(10, 3));
        let inside = width <= number(3, 2) * 16 && height <= number(5, 2) * 16;
        if width == 0 || height == 0 || !inside {
            return Err("the Theora identification header has no size of the picture");
        }
        let rate = FrameRate::new(number(15, 4).into(), number(19, 4).into());
        let last = number(33, 2);
        Ok(Self {
            width,
            height,
            rate: rate.ok_or("the Theora identification header has no frame rate")?,
            sampling: match last >> 3 & 3 {
                0 => "YCbCr-4:2:0",
                2 => "YCbCr-4:2:2",
                3 => "YCbCr-4:4:4",
                _ => return Err("the Theora pixel format is unknown"),
            },
            shift: last >> 5 & 31,
            from_one: rest[2] > 0,
        })
    }

    /// Returns the number of the picture at a granule position, from zero.
    pub(crate) fn picture(&self, granule: i64) -> i64 {
        let keyframe = granule >> self.shift;
        let since = granule & ((1 << self.shift) - 1);
        keyframe.saturating_add(since) - i64::from(self.from_one)
    }
}

/// Returns whether a picture refers to no other one. An empty packet repeats the last picture.
pub(crate) fn is_keyframe(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & 0xc0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_size_rate_and_granule_shift() {
        let mut packet = IDENTIFICATION.to_vec();
        packet.extend([3, 2, 1, 0, 20, 0, 15, 0, 1, 0x40, 0, 0, 0xf0, 0, 0]);
        packet.extend([
            0, 0, 0x75, 0x30, 0, 0, 3, 0xe9, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0,
        ]);
        packet.extend([0, 0xc0]);
        let head = Head::parse(&packet).expect("good");
        assert_eq!((head.width, head.height, head.shift), (320, 240, 6));
        assert_eq!(Some(head.rate), FrameRate::new(30_000, 1001));
        assert_eq!(head.sampling, "YCbCr-4:2:0");
        assert_eq!(head.picture(1 << 6), 0);
        assert_eq!(head.picture((65 << 6) + 3), 67);
        assert!(Head::parse(&packet[..41]).is_err());
        packet[15] = 9;
        assert!(Head::parse(&packet).is_err(), "wider than what is coded");
    }
}
