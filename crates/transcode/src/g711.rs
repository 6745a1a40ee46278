//! G.711: samples of 8 kHz as one byte each, µ-law and A-law (ITU-T G.711).
//!
//! Both are a sign, the number of a segment whose steps are twice as large as those of the one before,
//! and a step. They differ in what is added to a magnitude before, and in which bits are inverted.

/// The two laws of compression and expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companding {
    /// µ-law, in RTP PCMU.
    Mu,
    /// A-law, in RTP PCMA.
    A,
}

/// Added to magnitudes of 16-bit samples in µ-law, so that each segment begins at a power of two.
const MU_BIAS: i32 = 0x84;

/// Largest magnitude that µ-law tells apart.
const MU_MAX: i32 = 32_635;

/// The even bits, which A-law inverts.
const A_INVERTED: u8 = 0x55;

impl Companding {
    /// Returns the sample of a byte, −1.0 to 1.0.
    pub(crate) fn decode(self, byte: u8) -> f32 {
        let (is_negative, magnitude) = match self {
            Self::Mu => {
                let byte = !byte;
                let (segment, step) = (byte >> 4 & 7, i32::from(byte & 15));
                (
                    byte & 0x80 != 0,
                    ((step << 3 | MU_BIAS) << segment) - MU_BIAS,
                )
            }
            Self::A => {
                let byte = byte ^ A_INVERTED;
                let (segment, step) = (byte >> 4 & 7, i32::from(byte & 15) << 4 | 8);
                let magnitude = match segment {
                    0 => step,
                    _ => (step | 0x100) << (segment - 1),
                };
                (byte & 0x80 == 0, magnitude)
            }
        };
        let sample = if is_negative { -magnitude } else { magnitude };
        sample as f32 / 32_768.0
    }

    /// Returns the byte of a sample; samples beyond −1.0 to 1.0 are clipped.
    pub(crate) fn encode(self, sample: f32) -> u8 {
        let sample = (sample * 32_768.0).clamp(-32_768.0, 32_767.0) as i32;
        match self {
            Self::Mu => {
                let biased = sample.abs().min(MU_MAX) + MU_BIAS;
                let segment = biased.ilog2() - 7;
                let step = biased >> (segment + 3) & 15;
                let sign = if sample < 0 { 0x80 } else { 0 };
                !(sign | (segment << 4) as u8 | step as u8)
            }
            Self::A => {
                let (sign, magnitude) = match sample {
                    0.. => (0x80, sample),
                    _ => (0, -sample - 1),
                };
                let segment = (magnitude | 0xff).ilog2() - 7;
                let step = magnitude >> (segment.max(1) + 3) & 15;
                (sign | (segment << 4) as u8 | step as u8) ^ A_INVERTED
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the tables in ITU-T G.711, as 16-bit samples.
    #[test]
    fn bytes_have_the_values_of_the_tables() {
        let value = |law: Companding, byte| (law.decode(byte) * 32_768.0) as i32;
        for (byte, sample) in [
            (0xff, 0),
            (0x7f, 0),
            (0x80, 32_124),
            (0x00, -32_124),
            (0xf0, 120),
        ] {
            assert_eq!(value(Companding::Mu, byte), sample, "{byte:#x}");
        }
        for (byte, sample) in [
            (0xd5, 8),
            (0x55, -8),
            (0xaa, 32_256),
            (0x2a, -32_256),
            (0xc5, 264),
        ] {
            assert_eq!(value(Companding::A, byte), sample, "{byte:#x}");
        }
    }

    #[test]
    fn every_byte_comes_back_and_every_sample_is_near() {
        for law in [Companding::Mu, Companding::A] {
            for byte in 0..=255 {
                let again = law.encode(law.decode(byte));
                let is_zero = law == Companding::Mu && byte == 0x7f;
                assert!(again == byte || is_zero, "{law:?} {byte:#x}: {again:#x}");
            }
            for sample in (-32_768..=32_767).map(|it| it as f32 / 32_768.0) {
                let error = law.decode(law.encode(sample)) - sample;
                let step = sample.abs() / 16.0 + 16.0 / 32_768.0;
                assert!(error.abs() <= step, "{law:?} {sample}: {error}");
            }
            assert_eq!(law.encode(7.0), law.encode(1.0));
            assert_eq!(law.encode(f32::NAN), law.encode(0.0));
        }
    }
}
