//! AV1 ("AV1 Codec ISO Media File Format Binding", version 1.2.0).

use bytes::BufMut as _;
use glassline_media::{Bits, MediaUnit};

use super::{Described, start_of, video_track};
use crate::boxes::put_box;
use crate::sample::{Conversion, Obu, obus};

/// Describes AV1 from the sequence header in a keyframe.
pub(super) fn describe(keyframe: &MediaUnit) -> Result<Described, &'static str> {
    let start = start_of(keyframe);
    let header = obus(&start).find(|obu| obu.kind == Obu::SEQUENCE_HEADER);
    let header = header.ok_or("its keyframe has no sequence header")?;
    let sequence = Sequence::read(header.body).ok_or("its sequence header is damaged")?;
    let track = video_track(b"av01", sequence.size, |out| {
        put_box(out, b"av1C", |out| {
            out.put_slice(&[0x81, sequence.profile << 5 | sequence.level]);
            out.put_slice(&[sequence.format, 0]);
            header.put_with_size(out);
        });
    });
    Ok(Described {
        track,
        conversion: Conversion::Av1,
    })
}

/// Fields of a sequence header (AV1 specification §5.5).
#[derive(Debug, PartialEq, Eq)]
struct Sequence {
    profile: u8,
    level: u8,
    /// Third byte of the configuration: tier, depth, monochrome, subsampling and sample position.
    format: u8,
    size: (u32, u32),
}

impl Sequence {
    fn read(body: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(body);
        let profile = bits.take(3)? as u8;
        let _still = bits.bit()?;
        let reduced = bits.bit()?;
        let (level, tier) = match reduced {
            true => (bits.take(5)? as u8, false),
            false => operating_points(&mut bits)?,
        };
        let widths = [bits.take(4)? + 1, bits.take(4)? + 1];
        let size = (bits.take(widths[0])? + 1, bits.take(widths[1])? + 1);
        if !reduced && bits.bit()? {
            let _frame_numbers = bits.take(7)?;
        }
        skip_tools(&mut bits, reduced)?;
        let format = u8::from(tier) << 7 | colour(&mut bits, profile)?;
        Some(Self {
            profile,
            level,
            format,
            size,
        })
    }
}

/// Reads the operating points. Returns level and tier of the first one, which has all layers.
fn operating_points(bits: &mut Bits<'_>) -> Option<(u8, bool)> {
    let mut delay_bits = None;
    if bits.bit()? {
        let _ticks = [bits.take(32)?, bits.take(32)?];
        if bits.bit()? {
            let mut zeros = 0;
            while !bits.bit()? {
                zeros += 1;
            }
            bits.skip(zeros.min(32));
        }
        if bits.bit()? {
            delay_bits = Some(bits.take(5)? + 1);
            let _model = [bits.take(32)?, bits.take(10)?];
        }
    }
    let has_delays = bits.bit()?;
    let mut first = None;
    for _ in 0..=bits.take(5)? {
        let _layers = bits.take(12)?;
        let level = bits.take(5)? as u8;
        let tier = level > 7 && bits.bit()?;
        if let Some(count) = delay_bits
            && bits.bit()?
        {
            bits.skip(2 * count as usize + 1);
        }
        if has_delays && bits.bit()? {
            bits.skip(4);
        }
        first.get_or_insert((level, tier));
    }
    first
}

/// Skips the coding tools between size and colour.
fn skip_tools(bits: &mut Bits<'_>, reduced: bool) -> Option<()> {
    let _blocks_and_filters = bits.take(3)?;
    if !reduced {
        let _compound = bits.take(4)?;
        let has_order_hints = bits.bit()?;
        if has_order_hints {
            let _hints = bits.take(2)?;
        }
        let chooses_screen_content = bits.bit()?;
        let has_screen_content = chooses_screen_content || bits.bit()?;
        if has_screen_content && !bits.bit()? {
            let _integer_vectors = bits.bit()?;
        }
        if has_order_hints {
            let _hint_bits = bits.take(3)?;
        }
    }
    let _filters = bits.take(3)?;
    Some(())
}

/// Reads the colour configuration (§5.5.2) as the configuration record has it.
fn colour(bits: &mut Bits<'_>, profile: u8) -> Option<u8> {
    let high = bits.bit()?;
    let twelve = profile == 2 && high && bits.bit()?;
    let monochrome = profile != 1 && bits.bit()?;
    let described = match bits.bit()? {
        true => [bits.take(8)?, bits.take(8)?, bits.take(8)?],
        false => [2; 3],
    };
    let is_rgb = !monochrome && described == [1, 13, 0];
    if !is_rgb {
        let _range = bits.bit()?;
    }
    let (x, y) = match profile {
        _ if is_rgb => (false, false),
        _ if monochrome => (true, true),
        0 => (true, true),
        1 => (false, false),
        _ if twelve => {
            let x = bits.bit()?;
            (x, x && bits.bit()?)
        }
        _ => (true, false),
    };
    let position = match x && y && !monochrome {
        true => bits.take(2)? as u8,
        false => 0,
    };
    let flags = [high, twelve, monochrome, x, y].into_iter();
    let flags = flags.fold(0, |sum, flag| sum << 1 | u8::from(flag));
    Some(flags << 2 | position)
}
