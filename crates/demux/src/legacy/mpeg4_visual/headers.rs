//! Parses the headers of MPEG-4 visual, as far as they describe the pictures and their times
//! (ISO/IEC 14496-2 §6.2.3 to §6.2.5).

use glassline_media::Bits;

use crate::error::Reason;

/// Start codes: the byte behind `00 00 01` (table 6-3).
pub(super) mod code {
    pub(crate) const VIDEO_OBJECT_LAST: u8 = 0x1f;
    pub(crate) const LAYER: u8 = 0x20;
    pub(crate) const LAYER_LAST: u8 = 0x2f;
    pub(crate) const SEQUENCE: u8 = 0xb0;
    pub(crate) const GROUP: u8 = 0xb3;
    pub(crate) const VISUAL_OBJECT: u8 = 0xb5;
    pub(crate) const PICTURE: u8 = 0xb6;
}

/// Fields of a video object layer, which all pictures share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// Ticks per second of the pictures' times, above zero.
    pub(super) resolution: u16,
    /// Ticks of each picture, if all last equally long.
    pub(super) fixed: Option<u16>,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Coding type of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The picture refers to no other one.
    Intra,
    /// The picture refers to earlier ones; sprites count as such.
    Predicted,
    /// The picture refers to one before and one after it in output order, and no other picture
    /// refers to it.
    Bidirectional,
}

/// Fields at the start of a video object plane, which is a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) kind: Kind,
    /// Whole seconds since the time base that the pictures before set.
    pub(super) seconds: u16,
    /// Ticks within the second.
    pub(super) ticks: u16,
    /// Whether coded data follows; without it the picture before is presented for longer.
    pub(super) coded: bool,
}

impl Layer {
    /// Parses a layer. `bytes`: from behind the start code on.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Reason> {
        const DAMAGED: Reason = Reason::Damaged("the video object layer header is damaged");
        const SHAPE: Reason = Reason::Refused {
            found: "MPEG-4 visual whose pictures are not rectangular",
            instead: "encode it again (ffmpeg: -c:v mpeg4)",
        };
        let (layer, shape) = Self::fields(&mut Bits::new(bytes)).ok_or(DAMAGED)?;
        match (shape, layer) {
            (0, Some(layer)) if layer.resolution > 0 && layer.width > 0 && layer.height > 0 => {
                Ok(layer)
            }
            (0, _) => Err(DAMAGED),
            _ => Err(SHAPE),
        }
    }

    fn fields(bits: &mut Bits<'_>) -> Option<(Option<Self>, u32)> {
        const OWN_ASPECT_RATIO: u32 = 15;
        // These bits are random access and type of the object.
        bits.skip(9);
        if bits.bit()? {
            bits.skip(7);
        }
        if bits.take(4)? == OWN_ASPECT_RATIO {
            bits.skip(16);
        }
        if bits.bit()? {
            // Chroma format and low delay come first, then the decoder's buffer.
            bits.skip(3);
            if bits.bit()? {
                bits.skip(79);
            }
        }
        let shape = bits.take(2)?;
        if shape != 0 {
            return Some((None, shape));
        }
        marker(bits)?;
        let resolution = number(bits, 16)?;
        marker(bits)?;
        let fixed = match bits.bit()? {
            true => Some(number(bits, tick_bits(resolution))?).filter(|&ticks| ticks > 0),
            false => None,
        };
        marker(bits)?;
        let width = bits.take(13)?;
        marker(bits)?;
        let height = bits.take(13)?;
        let layer = Self {
            resolution,
            fixed,
            width,
            height,
        };
        Some((Some(layer), shape))
    }
}

impl Picture {
    /// Parses a picture. `bytes`: from behind the start code on. `None` if the header is
    /// incomplete.
    pub(super) fn parse(bytes: &[u8], layer: &Layer) -> Option<Self> {
        let mut bits = Bits::new(bytes);
        let kind = match bits.take(2)? {
            0 => Kind::Intra,
            2 => Kind::Bidirectional,
            _ => Kind::Predicted,
        };
        let mut seconds = 0;
        while bits.bit()? {
            seconds += 1;
        }
        marker(&mut bits)?;
        let ticks = number(&mut bits, tick_bits(layer.resolution))?;
        marker(&mut bits)?;
        let coded = bits.bit()?;
        Some(Self {
            kind,
            seconds,
            ticks,
            coded,
        })
    }
}

/// Returns the seconds of a group's time code; `bytes` from behind the start code on.
pub(super) fn group_seconds(bytes: &[u8]) -> Option<u32> {
    let mut bits = Bits::new(bytes);
    let (hours, minutes) = (bits.take(5)?, bits.take(6)?);
    marker(&mut bits)?;
    let seconds = bits.take(6)?;
    Some((hours * 60 + minutes) * 60 + seconds)
}

/// Reads a marker bit, which is always one and prevents the emulation of start codes.
fn marker(bits: &mut Bits<'_>) -> Option<()> {
    bits.bit()?.then_some(())
}

/// Reads a number of at most 16 bits.
fn number(bits: &mut Bits<'_>, count: u32) -> Option<u16> {
    u16::try_from(bits.take(count)?).ok()
}

/// Returns the number of bits of a tick below `resolution`, at least one.
fn tick_bits(resolution: u16) -> u32 {
    (u16::BITS - resolution.saturating_sub(1).leading_zeros()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_take_as_many_bits_as_their_second_needs() {
        let bits = [1, 2, 3, 25, 32, 33, 30_000, u16::MAX].map(tick_bits);
        assert_eq!(bits, [1, 1, 2, 5, 5, 6, 15, 16]);
    }

    #[test]
    fn layers_of_ffmpeg_are_read() {
        let parse = |bytes: &[u8]| {
            let layer = Layer::parse(bytes).expect("a layer");
            (layer.resolution, layer.fixed, layer.width, layer.height)
        };
        let simple = [0x00, 0xc4, 0x8d, 0x88, 0x00, 0xcd, 0x02, 0x04, 0x06, 0x14];
        assert_eq!(parse(&simple), (25, None, 64, 48));
        let advanced = [
            0x08, 0xd4, 0x8d, 0x0b, 0xa9, 0x85, 0x02, 0x04, 0x06, 0x14, 0x10,
        ];
        assert_eq!(parse(&advanced), (30_000, None, 64, 48));
        assert!(matches!(
            Layer::parse(&simple[..8]),
            Err(Reason::Damaged(_))
        ));
        let mut shaped = simple;
        shaped[3] |= 0x10;
        assert!(matches!(Layer::parse(&shaped), Err(Reason::Refused { .. })));
    }

    #[test]
    fn time_codes_count_seconds() {
        // 1:02:03, a marker between minutes and seconds.
        let bits = 1u32 << 27 | 2 << 21 | 1 << 20 | 3 << 14;
        assert_eq!(group_seconds(&bits.to_be_bytes()), Some(3723));
        let unmarked = bits & !(1 << 20);
        assert_eq!(group_seconds(&unmarked.to_be_bytes()), None);
    }
}
