//! Frames of FLAC (RFC 9639 §9) from PCM and G.711: fixed predictors with one Rice parameter, or the
//! samples as they are where these take fewer bits.

use bytes::BufMut as _;
use crc::{CRC_8_SMBUS, CRC_16_UMTS, Crc};

/// Most samples of a channel in a frame.
const SAMPLES_MAX: usize = 65_535;

/// Bits of a sample.
const SAMPLE_BITS: usize = 16;

/// Highest Rice parameter of four bits; 15 is an escape.
const RICE_MAX: u32 = 14;

/// The kind of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companding {
    /// Samples of 16 bits, big-endian (RFC 3551 §4.5.11).
    Linear,
    /// Bytes in the µ-law of G.711.
    MuLaw,
    /// Bytes in the A-law of G.711.
    ALaw,
}

/// Encoder of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flac {
    companding: Companding,
    channels: u8,
}

impl Flac {
    /// Length of the block that describes a stream in bytes.
    pub(crate) const STREAM_INFO_BYTES: usize = 34;

    /// Creates an encoder of 1 to 8 interleaved channels.
    pub(crate) const fn new(companding: Companding, channels: u8) -> Self {
        Self {
            companding,
            channels,
        }
    }

    /// Appends the description of the stream (RFC 9639 §8.2).
    pub(crate) fn put_stream_info(self, out: &mut Vec<u8>, rate: u32) {
        out.put_u16(16);
        out.put_u16(SAMPLES_MAX as u16);
        // The sizes of frames are not known, nor are the number of samples and their checksum.
        out.put_bytes(0, 6);
        let channels = u64::from(self.channels - 1);
        out.put_u64(u64::from(rate) << 44 | channels << 41 | (SAMPLE_BITS as u64 - 1) << 36);
        out.put_bytes(0, 16);
    }

    /// Returns the samples of each channel in a unit of `bytes` bytes.
    pub(crate) fn samples_of(self, bytes: usize) -> u32 {
        let each = if self.companding == Companding::Linear {
            2
        } else {
            1
        };
        let samples = bytes / each / usize::from(self.channels);
        samples.min(SAMPLES_MAX) as u32
    }

    /// Appends the frame of a unit whose first sample has the number `first`.
    pub(crate) fn append(self, unit: &[u8], first: u64, out: &mut Vec<u8>) {
        let samples = self.samples_of(unit.len()) as usize;
        if samples == 0 {
            return;
        }
        let start = out.len();
        // Variable block size, length in 16 bits, rate of the stream, channels, 16 bits a sample.
        out.put_slice(&[0xff, 0xf9, 0x70, (self.channels - 1) << 4 | 0b1000]);
        put_number(out, first & 0xf_ffff_ffff);
        out.put_u16(samples as u16 - 1);
        out.put_u8(HEADER_CRC.checksum(&out[start..]));
        let mut bits = BitWriter::new(out);
        let mut channel = Vec::with_capacity(samples);
        for number in 0..usize::from(self.channels) {
            channel.clear();
            channel.extend(
                (0..samples).map(|at| self.sample(unit, at * usize::from(self.channels) + number)),
            );
            put_channel(&mut bits, &channel);
        }
        bits.align();
        let crc = FRAME_CRC.checksum(&out[start..]);
        out.put_u16(crc);
    }

    fn sample(self, unit: &[u8], place: usize) -> i32 {
        let byte = |at: usize| unit.get(at).copied().unwrap_or(0);
        match self.companding {
            Companding::Linear => i16::from_be_bytes([byte(2 * place), byte(2 * place + 1)]).into(),
            Companding::MuLaw => mu_law(byte(place)),
            Companding::ALaw => a_law(byte(place)),
        }
    }
}

/// Appends a channel by the predictor that takes the fewest bits.
fn put_channel(bits: &mut BitWriter<'_>, samples: &[i32]) {
    let first = samples[0];
    if samples.iter().all(|sample| *sample == first) {
        bits.put(0, 8);
        bits.put_sample(first);
        return;
    }
    let best = (0..=2)
        .filter(|order| samples.len() > *order)
        .filter_map(|order| {
            let rice = rice_parameter(residuals(samples, order), samples.len() - order);
            let cost = rice_bits(residuals(samples, order), rice)?;
            Some((cost + order * SAMPLE_BITS, order, rice))
        })
        .min();
    match best {
        Some((cost, order, rice)) if cost + 10 < samples.len() * SAMPLE_BITS => {
            bits.put((0b1000 | order as u32) << 1, 8);
            samples[..order].iter().for_each(|it| bits.put_sample(*it));
            // One partition, whose parameter has four bits.
            bits.put(0, 6);
            bits.put(rice, 4);
            residuals(samples, order).for_each(|value| bits.put_rice(value, rice));
        }
        _ => {
            bits.put(2, 8);
            samples.iter().for_each(|it| bits.put_sample(*it));
        }
    }
}

/// Returns what the fixed predictor of `order` leaves, with the sign in the lowest bit (RFC 9639
/// §9.2.5, §9.2.7).
fn residuals(samples: &[i32], order: usize) -> impl Iterator<Item = u32> {
    samples.windows(order + 1).map(move |window| {
        let residual = match window {
            [sample] => *sample,
            [before, sample] => sample - before,
            [earlier, before, sample] => sample - 2 * before + earlier,
            _ => 0,
        };
        (residual << 1 ^ residual >> 31).cast_unsigned()
    })
}

fn rice_parameter(values: impl Iterator<Item = u32>, count: usize) -> u32 {
    let sum: u64 = values.map(u64::from).sum();
    let mean = sum / count.max(1) as u64;
    mean.checked_ilog2().unwrap_or(0).min(RICE_MAX)
}

/// Returns the bits that the values take; `None` if one of them takes very many.
fn rice_bits(values: impl Iterator<Item = u32>, rice: u32) -> Option<usize> {
    let mut bits = 0;
    for value in values {
        let high = (value >> rice) as usize;
        if high > 1000 {
            return None;
        }
        bits += high + 1 + rice as usize;
    }
    Some(bits)
}

/// Appends a number of up to 36 bits, as UTF-8 writes numbers (RFC 9639 §9.1.5).
fn put_number(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    // With n bytes behind the first one there is room for 6 n bits there, and 6 - n in the first.
    let mut behind = 1;
    while number >> (6 * behind) >= 1 << (6 - behind) {
        behind += 1;
    }
    let mark = !(0x7fu8 >> behind);
    out.push(mark | (number >> (6 * behind)) as u8);
    for place in (0..behind).rev() {
        out.push(0x80 | (number >> (6 * place)) as u8 & 0x3f);
    }
}

/// Appends numbers of any number of bits, the highest bit first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            held: 0,
            count: 0,
        }
    }

    /// Appends the lowest `count` bits of `value`, at most 32.
    fn put(&mut self, value: u32, count: u32) {
        self.held = self.held << count | u64::from(value);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.out.push((self.held >> self.count) as u8);
        }
    }

    fn put_sample(&mut self, sample: i32) {
        self.put(sample.cast_unsigned() & 0xffff, SAMPLE_BITS as u32);
    }

    fn put_rice(&mut self, value: u32, rice: u32) {
        let mut zeros = value >> rice;
        while zeros > 0 {
            let part = zeros.min(31);
            self.put(0, part);
            zeros -= part;
        }
        self.put(1 << rice | value & ((1 << rice) - 1), rice + 1);
    }

    fn align(&mut self) {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
    }
}

/// Checksum of a frame's header (RFC 9639 §9.1.8).
static HEADER_CRC: Crc<u8> = Crc::<u8>::new(&CRC_8_SMBUS);

/// Checksum of a frame (RFC 9639 §9.3).
static FRAME_CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_UMTS);

/// Decodes µ-law (ITU-T G.711 table 2).
fn mu_law(byte: u8) -> i32 {
    let code = !byte;
    let magnitude = (i32::from(code & 15) << 3) + 0x84;
    let value = (magnitude << (code >> 4 & 7)) - 0x84;
    if code & 0x80 == 0 { value } else { -value }
}

/// Decodes A-law (ITU-T G.711 table 1).
fn a_law(byte: u8) -> i32 {
    let code = byte ^ 0x55;
    let low = (i32::from(code & 15) << 4) + 8;
    let value = match code >> 4 & 7 {
        0 => low,
        segment => (low + 0x100) << (segment - 1),
    };
    if code & 0x80 == 0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g711_has_the_values_of_its_tables() {
        for (byte, value) in [(0xff, 0), (0x80, 32_124), (0x00, -32_124), (0xef, 132)] {
            assert_eq!(mu_law(byte), value, "{byte:02x}");
        }
        for (byte, value) in [
            (0xd5, 8),
            (0x55, -8),
            (0xaa, 32_256),
            (0x2a, -32_256),
            (0xc5, 264),
        ] {
            assert_eq!(a_law(byte), value, "{byte:02x}");
        }
    }

    #[test]
    fn numbers_are_written_as_long_as_they_must_be() {
        for (number, bytes) in [
            (0, &[0][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0xc2, 0x80]),
            (0x7ff, &[0xdf, 0xbf]),
            (0x800, &[0xe0, 0xa0, 0x80]),
            (0xf_ffff_ffff, &[0xfe, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf]),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(out, bytes, "{number:x}");
        }
    }

    #[test]
    fn units_without_a_whole_sample_are_no_frame_and_long_ones_are_cut() {
        let stereo = Flac::new(Companding::Linear, 2);
        let mut out = Vec::new();
        stereo.append(&[1, 2, 3], 0, &mut out);
        assert!(out.is_empty());
        assert_eq!(stereo.samples_of(400_000), 65_535);
        stereo.append(&vec![7; 400_000], 1 << 40, &mut out);
        assert!(out.len() < 100, "{} bytes of one value", out.len());
        let mono = Flac::new(Companding::Linear, 1);
        let mut tone = Vec::new();
        for sample in 0..2000 {
            let value = (f64::from(sample) * 0.05).sin() * 20_000.0;
            tone.extend_from_slice(&(value as i16).to_be_bytes());
        }
        out.clear();
        mono.append(&tone, 0, &mut out);
        assert!(
            out.len() * 2 < tone.len(),
            "{} of {} bytes",
            out.len(),
            tone.len()
        );
    }
}
