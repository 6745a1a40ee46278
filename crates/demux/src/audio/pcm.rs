//! Conversion of PCM samples in files to the 16 bits of RTP's L16 (RFC 3551 §4.5.11).

use glassline_media::Codec;

/// Format of a sample in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// 8 bits, unsigned; 128 is silence.
    Unsigned8,
    /// 16 bits, signed. This and the following formats are little-endian.
    Signed16,
    Signed24,
    Signed32,
    /// 32-bit floating point; full scale is 1.
    Float32,
    Float64,
    /// Samples coded by G.711 A-law.
    ALaw,
    /// Samples coded by G.711 µ-law.
    MuLaw,
}

impl Sample {
    /// Returns the length of a sample of one channel, in bytes.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Unsigned8 | Self::ALaw | Self::MuLaw => 1,
            Self::Signed16 => 2,
            Self::Signed24 => 3,
            Self::Signed32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// Returns the codec by which RTP sends samples of `rate` in Hz and `channels`. The payload types
    /// of G.711, which receivers know, are for 8 kHz and one channel (RFC 3551 table 4); by any other
    /// rate they would be heard at the wrong pitch.
    pub(crate) fn sent_as(self, rate: u32, channels: u8) -> Codec {
        match (self, rate, channels) {
            (Self::ALaw, 8_000, 1) => Codec::Pcma,
            (Self::MuLaw, 8_000, 1) => Codec::Pcmu,
            _ => Codec::L16,
        }
    }

    /// Converts the samples of `bytes` to L16, which is big-endian. An incomplete last sample
    /// is dropped.
    pub(crate) fn to_l16(self, bytes: &[u8]) -> Vec<u8> {
        let samples = bytes.chunks_exact(self.bytes());
        samples
            .flat_map(|it| self.value(it).to_be_bytes())
            .collect()
    }

    /// Returns the value of one sample; of more than 16 bits the upper 16.
    fn value(self, sample: &[u8]) -> i16 {
        match (self, sample) {
            (Self::Unsigned8, &[byte]) => i16::from_be_bytes([byte ^ 0x80, 0]),
            (Self::ALaw, &[byte]) => a_law(byte),
            (Self::MuLaw, &[byte]) => mu_law(byte),
            (Self::Float32, &[a, b, c, d]) => from_float(f32::from_le_bytes([a, b, c, d]).into()),
            (Self::Float64, sample) => {
                let bytes = sample.try_into().unwrap_or_default();
                from_float(f64::from_le_bytes(bytes))
            }
            (_, &[.., low, high]) => i16::from_le_bytes([low, high]),
            _ => 0,
        }
    }
}

// Clamped to full scale, and no number is silence.
fn from_float(value: f64) -> i16 {
    (value * 32_768.0).round() as i16
}

/// Expands A-law to 16 bits (ITU-T G.711 table 1a).
fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let segment = (byte >> 4) & 7;
    let step = i16::from(byte & 0xf) << 4 | 8;
    let magnitude = match segment {
        0 => step,
        _ => (step + 0x100) << (segment - 1),
    };
    if byte & 0x80 != 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Expands µ-law to 16 bits (ITU-T G.711 table 2a).
fn mu_law(byte: u8) -> i16 {
    const BIAS: i16 = 0x84;
    let byte = !byte;
    let segment = (byte >> 4) & 7;
    let magnitude = ((i16::from(byte & 0xf) << 3 | BIAS) << segment) - BIAS;
    if byte & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(sample: Sample, bytes: &[u8]) -> Vec<i16> {
        let l16 = sample.to_l16(bytes);
        let pairs = l16.chunks_exact(2);
        pairs
            .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
            .collect()
    }

    #[test]
    fn integers_keep_their_sign_and_their_upper_bits() {
        let expected = [i16::MIN, -1 << 8, 0, 0x7f00];
        assert_eq!(values(Sample::Unsigned8, &[0, 127, 128, 255]), expected);
        let bytes = [0, 0x80, 0xff, 0xff, 0, 0, 0xff, 0x7f];
        let expected = [i16::MIN, -1, 0, i16::MAX];
        assert_eq!(values(Sample::Signed16, &bytes), expected);
        let bytes = [9, 0, 0x80, 9, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(values(Sample::Signed24, &bytes), [i16::MIN, -1, i16::MAX]);
        let bytes = [9, 9, 0, 0x80, 0, 0, 0xff, 0xff, 7];
        assert_eq!(values(Sample::Signed32, &bytes), [i16::MIN, -1]);
    }

    #[test]
    fn floats_beyond_full_scale_are_clamped() {
        let floats = [0.0f32, 0.5, -1.0, 1.0, 7.0, -7.0, f32::NAN];
        let bytes: Vec<u8> = floats.iter().flat_map(|it| it.to_le_bytes()).collect();
        let expected = [0, 16_384, i16::MIN, i16::MAX, i16::MAX, i16::MIN, 0];
        assert_eq!(values(Sample::Float32, &bytes), expected);
        let doubles = floats.map(|it| f64::from(it).to_le_bytes());
        assert_eq!(values(Sample::Float64, &doubles.concat()), expected);
    }

    #[test]
    fn g711_follows_its_tables() {
        // Extremes, the values around zero, and one in between.
        let bytes = [0x00, 0x80, 0x7f, 0xff, 0x9a];
        let expected = [-32_124, 32_124, 0, 0, 10_876];
        assert_eq!(values(Sample::MuLaw, &bytes), expected);
        let bytes = [0x2a, 0xaa, 0x55, 0xd5, 0x80];
        let expected = [-32_256, 32_256, -8, 8, 5_504];
        assert_eq!(values(Sample::ALaw, &bytes), expected);
    }
}
