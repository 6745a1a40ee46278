//! PCM samples in the formats of containers, and their conversion for RTP.

use glassline_media::PAYLOAD_BYTES_MAX;

use crate::audio::pcm::Sample;

/// Format of a sample in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleFormat {
    /// Samples have 8 bits and a sign.
    Signed8,
    /// Samples stored in little-endian order.
    Little(Sample),
    /// Samples stored in big-endian order.
    Big(Sample),
    /// G.711 of either law that is sent without conversion; other G.711 is a `Little`.
    Companded,
}

/// PCM samples of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pcm {
    pub(crate) format: SampleFormat,
    pub(crate) channels: u8,
}

impl SampleFormat {
    /// Returns the length of a sample in bytes.
    const fn bytes(self) -> usize {
        match self {
            Self::Signed8 | Self::Companded => 1,
            Self::Little(sample) | Self::Big(sample) => sample.bytes(),
        }
    }
}

impl Pcm {
    /// Returns the length in bytes of one sample of each channel in the file, above zero.
    pub(crate) fn frame_bytes(self) -> u32 {
        self.format.bytes() as u32 * u32::from(self.channels.max(1))
    }

    /// Returns the number of sample frames that fit an RTP packet, at least one.
    pub(crate) fn frames_max(self) -> u32 {
        let sent = if self.format == SampleFormat::Companded {
            1
        } else {
            2
        };
        let frame = sent * u32::from(self.channels.max(1));
        (PAYLOAD_BYTES_MAX as u32 / frame).max(1)
    }

    /// Converts samples to what RTP sends: 16 bits big-endian, or G.711.
    pub(crate) fn unit(self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self.format {
            SampleFormat::Companded => bytes,
            SampleFormat::Signed8 => bytes.iter().flat_map(|&byte| [byte, 0]).collect(),
            SampleFormat::Little(sample) => sample.to_l16(&bytes),
            SampleFormat::Big(Sample::Signed16) => bytes,
            SampleFormat::Big(sample) => {
                for sample in bytes.chunks_exact_mut(sample.bytes()) {
                    sample.reverse();
                }
                sample.to_l16(&bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_become_16_bits_big_endian() {
        let made = |format, bytes: &[u8]| {
            Pcm {
                format,
                channels: 1,
            }
            .unit(bytes.to_vec())
        };
        assert_eq!(
            made(SampleFormat::Little(Sample::Signed16), &[1, 2, 3, 4]),
            [2, 1, 4, 3]
        );
        assert_eq!(made(SampleFormat::Big(Sample::Signed16), &[1, 2]), [1, 2]);
        assert_eq!(
            made(SampleFormat::Big(Sample::Signed24), &[1, 2, 3]),
            [1, 2]
        );
        assert_eq!(made(SampleFormat::Signed8, &[0x7f]), [0x7f, 0]);
        let half = 0.5f32.to_be_bytes();
        assert_eq!(made(SampleFormat::Big(Sample::Float32), &half), [0x40, 0]);
        assert_eq!(made(SampleFormat::Companded, &[5]), [5]);
    }

    #[test]
    fn units_fit_a_packet() {
        for (format, channels, frames) in [
            (SampleFormat::Little(Sample::Signed24), 2, 287),
            (SampleFormat::Companded, 1, 1150),
            (SampleFormat::Signed8, 255, 2),
        ] {
            assert_eq!(Pcm { format, channels }.frames_max(), frames);
        }
    }
}
