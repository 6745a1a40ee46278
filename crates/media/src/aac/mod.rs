//! The configuration of an AAC track: the AudioSpecificConfig of ISO/IEC 14496-3 §1.6.2.1.

mod program;

pub use program::{Placement, Program, ProgramElement};

use crate::Bits;

/// The fields of an AudioSpecificConfig that describe and time a track.
///
/// ```
/// use glassline_media::aac::AudioSpecificConfig;
///
/// let config = AudioSpecificConfig::parse(&[0x12, 0x10]).expect("AAC-LC");
/// assert_eq!((config.rate, config.channels), (44_100, Some(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioSpecificConfig {
    /// Audio object type of the coded audio (table 1.17): 2 is AAC-LC. With spectral band
    /// replication this is the type of the audio below the replicated band.
    pub object_type: u32,
    /// Sampling rate of the output in Hz: with explicit spectral band replication twice the
    /// coded rate.
    pub rate: u32,
    /// Sampling rate of the coded audio in Hz.
    pub coded_rate: u32,
    /// Number of channels; `None` if it is not known before the first frame.
    pub channels: Option<u8>,
    /// The elements that hold the channels; `None` as for `channels`.
    pub program: Option<Program>,
    /// Coded samples in an access unit.
    pub samples: u32,
}

/// Sampling rates in Hz by `samplingFrequencyIndex` (table 1.18).
pub const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Audio object types: spectral band replication, alone and with parametric stereo.
const SBR: u32 = 5;
const PS: u32 = 29;

impl AudioSpecificConfig {
    /// Parses a configuration; `None` if it is cut off or has reserved values.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(bytes);
        let mut object = object_type(&mut bits)?;
        let coded_rate = rate_of(&mut bits)?;
        let configuration = bits.take(4)? as u8;
        let mut rate = coded_rate;
        if object == SBR || object == PS {
            rate = rate_of(&mut bits)?;
            object = object_type(&mut bits)?;
        }
        // Only these object types begin with the flag of short frames.
        let is_general_audio = matches!(object, 1..=4 | 6 | 7 | 17 | 19..=23);
        let short = is_general_audio && bits.take(1)? == 1;
        let program = match configuration {
            0 if is_general_audio => listed_program(bits),
            number => Program::of_configuration(number),
        };
        Some(Self {
            object_type: object,
            rate,
            coded_rate,
            channels: program.map(|it| it.channels()),
            program,
            samples: match (object, short) {
                (23 | 39, true) => 480,
                (23 | 39, false) => 512,
                (_, true) => 960,
                (_, false) => 1024,
            },
        })
    }
}

/// Reads the program config element behind the flag of short frames (table 4.1); `None` if there is
/// none, in which case the frames may hold it.
fn listed_program(mut bits: Bits<'_>) -> Option<Program> {
    let depends_on_core_coder = bits.bit()?;
    if depends_on_core_coder {
        bits.take(14)?;
    }
    let _extension = bits.bit()?;
    Program::parse(&mut bits)
}

fn object_type(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(5)? {
        31 => Some(32 + bits.take(6)?),
        object => Some(object),
    }
}

fn rate_of(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(4)? {
        15 => bits.take(24).filter(|&rate| rate > 0),
        index => RATES.get(index as usize).copied(),
    }
}

/// Reads a configuration as session descriptions write it, in hexadecimal digits (RFC 3640 §4.1,
/// RFC 6416 §7.4); `None` if there are other characters, or half a byte.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|it| u8::try_from(it).ok()))
        .collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_extended_configurations() {
        let config = |rate, coded_rate, channels, samples| {
            Some(AudioSpecificConfig {
                object_type: 2,
                rate,
                coded_rate,
                channels,
                program: channels.and_then(Program::of_channels),
                samples,
            })
        };
        assert_eq!(
            AudioSpecificConfig::parse(&[0x12, 0x10]),
            config(44_100, 44_100, Some(2), 1024)
        );
        // Explicit SBR: 24 kHz coded, 48 kHz played, stereo.
        assert_eq!(
            AudioSpecificConfig::parse(&[0x2b, 0x11, 0x88, 0]),
            config(48_000, 24_000, Some(2), 1024)
        );
        assert_eq!(
            AudioSpecificConfig::parse(&[0x12, 0x04]),
            config(44_100, 44_100, None, 960)
        );
        assert_eq!(AudioSpecificConfig::parse(&[0x12]), None);
        assert_eq!(AudioSpecificConfig::parse(&[]), None);
        assert_eq!(
            AudioSpecificConfig::parse(&[0x17, 0x80, 0, 0, 0]),
            None,
            "a rate of zero"
        );
    }

    #[test]
    fn hexadecimal_digits_are_whole_bytes() {
        assert_eq!(from_hex("12bF"), Some(vec![0x12, 0xbf]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        assert_eq!((from_hex("121"), from_hex("1g")), (None, None));
    }
}
