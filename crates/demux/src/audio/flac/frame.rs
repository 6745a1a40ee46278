//! Decodes frames of FLAC (RFC 9639 §9).

use crc::{CRC_8_SMBUS, CRC_16_UMTS, Crc};

use super::bits::Bits;

/// Longest header of a frame in bytes.
pub(super) const HEADER_BYTES_MAX: usize = 16;

/// The header of the file with the properties of all frames (RFC 9639 §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamInfo {
    /// Sampling rate in Hz.
    pub(super) rate: u32,
    pub(super) channels: u8,
    /// Bits of a sample, 4 to 32.
    pub(super) bits: u8,
    /// Samples of each channel in a frame, but for the last; needed where frames are numbered.
    pub(super) block_samples: u16,
}

impl StreamInfo {
    /// Length of the block in bytes.
    pub(super) const BYTES: usize = 34;

    /// Parses the body of the metadata block.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Bits::new(body.get(..Self::BYTES)?);
        let block_samples = fields.unsigned(16)?;
        fields.unsigned(16)?;
        fields.unsigned(48)?;
        let rate = fields.unsigned(20)?;
        let channels = fields.unsigned(3)? + 1;
        let bits = fields.unsigned(5)? + 1;
        let info = Self {
            rate: u32::try_from(rate).ok()?,
            channels: u8::try_from(channels).ok()?,
            bits: u8::try_from(bits).ok()?,
            block_samples: u16::try_from(block_samples).ok()?,
        };
        (info.rate > 0 && info.bits >= 4).then_some(info)
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Number of the frame's first sample.
    pub(super) first: u64,
    /// Samples of each channel.
    pub(super) samples: u32,
    channels: Channels,
    bits: u8,
    bytes: usize,
}

/// How channels are stored (RFC 9639 §9.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channels {
    Independent(u8),
    LeftSide,
    SideRight,
    MidSide,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if no frame of this stream begins there.
    pub(super) fn parse(bytes: &[u8], info: &StreamInfo) -> Option<Self> {
        let mut fields = Bits::new(bytes);
        let sync = fields.unsigned(15)?;
        if sync != 0x7ffc {
            return None;
        }
        let is_variable = fields.unsigned(1)? == 1;
        let (size, rate) = (fields.unsigned(4)?, fields.unsigned(4)?);
        let (channels, depth) = (fields.unsigned(4)?, fields.unsigned(3)?);
        if fields.unsigned(1)? != 0 {
            return None;
        }
        let number = coded_number(&mut fields)?;
        let samples = match size {
            1 => 192,
            2..=5 => 144 << size,
            6 => fields.unsigned(8)? + 1,
            7 => fields.unsigned(16)? + 1,
            8..=15 => 1 << size,
            _ => return None,
        };
        match rate {
            12 => drop(fields.unsigned(8)?),
            13 | 14 => drop(fields.unsigned(16)?),
            15 => return None,
            _ => {}
        }
        let channels = match channels {
            count @ 0..=7 => Channels::Independent(count as u8 + 1),
            8 => Channels::LeftSide,
            9 => Channels::SideRight,
            10 => Channels::MidSide,
            _ => return None,
        };
        let bits = match depth {
            0 => info.bits,
            1 => 8,
            2 => 12,
            4 => 16,
            5 => 20,
            6 => 24,
            7 => 32,
            _ => return None,
        };
        let length = fields.bytes_read();
        let (head, rest) = bytes.split_at_checked(length)?;
        let first = match is_variable {
            true => number,
            false => number.checked_mul(info.block_samples.into())?,
        };
        let header = Self {
            first,
            samples: u32::try_from(samples).ok()?,
            channels,
            bits,
            bytes: length + 1,
        };
        let is_of_stream = channels.count() == info.channels && bits == info.bits;
        (*rest.first()? == HEADER_CRC.checksum(head) && is_of_stream).then_some(header)
    }
}

impl Channels {
    const fn count(self) -> u8 {
        match self {
            Self::Independent(count) => count,
            Self::LeftSide | Self::SideRight | Self::MidSide => 2,
        }
    }
}

/// Decodes a frame to samples of 16 bits, big-endian and interleaved; `None` if it is damaged.
pub(super) fn decode(bytes: &[u8], info: &StreamInfo) -> Option<Vec<u8>> {
    let header = Header::parse(bytes, info)?;
    let mut input = Bits::new(bytes.get(header.bytes..)?);
    let count = header.samples as usize;
    let mut channels = Vec::with_capacity(header.channels.count().into());
    for channel in 0..header.channels.count() {
        // The difference of two channels has one bit more.
        let has_more = matches!(
            (header.channels, channel),
            (Channels::LeftSide | Channels::MidSide, 1) | (Channels::SideRight, 0)
        );
        let bits = u32::from(header.bits) + u32::from(has_more);
        channels.push(subframe(&mut input, count, bits)?);
    }
    let end = header.bytes + input.bytes_read();
    let stored = bytes.get(end..)?.first_chunk().copied();
    if u16::from_be_bytes(stored?) != FRAME_CRC.checksum(&bytes[..end]) {
        return None;
    }
    join(header.channels, &mut channels);
    let shift = i32::from(header.bits) - 16;
    let mut out = Vec::with_capacity(2 * count * channels.len());
    for place in 0..count {
        for channel in &channels {
            let sample = match shift {
                0.. => channel[place] >> shift,
                _ => channel[place] << -shift,
            };
            out.extend((sample as i16).to_be_bytes());
        }
    }
    Some(out)
}

/// Makes left and right of channels that were stored as differences.
fn join(kind: Channels, channels: &mut [Vec<i64>]) {
    let [first, second] = channels else { return };
    for (a, b) in first.iter_mut().zip(second) {
        match kind {
            Channels::Independent(_) => return,
            Channels::LeftSide => *b = *a - *b,
            Channels::SideRight => *a += *b,
            Channels::MidSide => {
                let (mid, side) = (*a << 1 | *b & 1, *b);
                (*a, *b) = ((mid + side) >> 1, (mid - side) >> 1);
            }
        }
    }
}

/// Decodes one channel (RFC 9639 §9.2).
fn subframe(input: &mut Bits<'_>, count: usize, bits: u32) -> Option<Vec<i64>> {
    if input.unsigned(1)? != 0 {
        return None;
    }
    let kind = input.unsigned(6)? as usize;
    let wasted = match input.unsigned(1)? {
        0 => 0,
        _ => u32::try_from(input.zeros()?).ok()? + 1,
    };
    let bits = bits.checked_sub(wasted).filter(|&bits| bits > 0)?;
    let mut samples = Vec::with_capacity(count);
    match kind {
        0 => samples.resize(count, input.signed(bits)?),
        1 => {
            for _ in 0..count {
                samples.push(input.signed(bits)?);
            }
        }
        8..=12 => predicted(input, &mut samples, count, bits, kind - 8, |_| {
            const FIXED: [&[i64]; 5] = [&[], &[1], &[2, -1], &[3, -3, 1], &[4, -6, 4, -1]];
            Some((FIXED[kind - 8].to_vec(), 0))
        })?,
        32..=63 => predicted(input, &mut samples, count, bits, kind - 31, |input| {
            let precision = u32::try_from(input.unsigned(4)? + 1).ok()?;
            let shift = input.signed(5)?;
            let coefficients = (0..kind - 31).map(|_| input.signed(precision));
            let shift = u32::try_from(shift).ok()?;
            Some((coefficients.collect::<Option<Vec<_>>>()?, shift))
        })?,
        _ => return None,
    }
    for sample in &mut samples {
        *sample <<= wasted;
    }
    Some(samples)
}

/// Decodes a channel whose samples are predicted from `order` samples before. `read`: returns the
/// coefficients, that of the latest sample first, and the shift of the prediction.
fn predicted<'a>(
    input: &mut Bits<'a>,
    samples: &mut Vec<i64>,
    count: usize,
    bits: u32,
    order: usize,
    read: impl FnOnce(&mut Bits<'a>) -> Option<(Vec<i64>, u32)>,
) -> Option<()> {
    if order > count {
        return None;
    }
    for _ in 0..order {
        samples.push(input.signed(bits)?);
    }
    let (coefficients, shift) = read(input)?;
    residual(input, count, order, |difference| {
        let before = samples.iter().rev();
        let sum = coefficients
            .iter()
            .zip(before)
            .fold(0i64, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)));
        // Damaged differences may be of any size; the checksum finds them.
        let sample = (sum >> shift).wrapping_add(difference);
        samples.push(sample << 16 >> 16);
    })
}

/// Reads the differences from the prediction in Rice codes (RFC 9639 §9.2.7).
fn residual(
    input: &mut Bits<'_>,
    count: usize,
    order: usize,
    mut take: impl FnMut(i64),
) -> Option<()> {
    let parameter_bits = match input.unsigned(2)? {
        0 => 4,
        1 => 5,
        _ => return None,
    };
    let partitions = 1usize << input.unsigned(4)?;
    if !count.is_multiple_of(partitions) || count / partitions < order {
        return None;
    }
    for partition in 0..partitions {
        let skip = if partition == 0 { order } else { 0 };
        let parameter = u32::try_from(input.unsigned(parameter_bits)?).ok()?;
        let is_escaped = parameter == (1 << parameter_bits) - 1;
        let plain_bits = match is_escaped {
            true => u32::try_from(input.unsigned(5)?).ok()?,
            false => 0,
        };
        for _ in skip..count / partitions {
            let difference = match is_escaped {
                true => input.signed(plain_bits)?,
                false => {
                    let high = input.zeros()?.checked_shl(parameter)?;
                    let folded = high | input.unsigned(parameter)?;
                    (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed())
                }
            };
            take(difference);
        }
    }
    Some(())
}

/// Reads a number that is coded like a character in UTF-8, of up to 36 bits (RFC 9639 §9.1.5).
fn coded_number(fields: &mut Bits<'_>) -> Option<u64> {
    let first = fields.unsigned(8)?;
    let ones = (first as u8).leading_ones();
    let more = match ones {
        0 => return Some(first),
        2..=7 => ones - 1,
        _ => return None,
    };
    let mut number = first & (0x7f >> ones);
    for _ in 0..more {
        if fields.unsigned(2)? != 2 {
            return None;
        }
        number = number << 6 | fields.unsigned(6)?;
    }
    Some(number)
}

/// The checksum of a header (RFC 9639 §9.1.8).
static HEADER_CRC: Crc<u8> = Crc::<u8>::new(&CRC_8_SMBUS);

/// The checksum of a frame (RFC 9639 §9.3).
static FRAME_CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_UMTS);
