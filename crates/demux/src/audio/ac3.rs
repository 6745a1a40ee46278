//! Parses the start of an AC-3 synchronization frame (ATSC A/52 §5.3, §5.4).

use glassline_media::{Codec, Track};

use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};

/// Samples of each channel in a frame.
pub(crate) const SAMPLES: u32 = 1536;

/// Bytes of a frame that [`Header::parse`] needs.
pub(crate) const HEADER_BYTES: usize = 8;

const SYNC: [u8; 2] = [0x0b, 0x77];

/// Highest bit stream identification whose syntax is read here. 9 and 10 are half and quarter
/// rates, for which RFC 4184 has no clock.
const BSID_MAX: u8 = 8;

/// Bitrates in kbit/s by `frmsizecod / 2` (table 5.18).
const RATES_KBPS: [u16; 19] = [
    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
];

/// Fields at the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Sampling rate in Hz: 32,000, 44,100 or 48,000.
    pub(crate) rate: u32,
    /// Number of channels with the low-frequency channel, 1..=6.
    pub(crate) channels: u8,
    /// Length of the whole frame in bytes, 128..=3840.
    pub(crate) frame_bytes: u16,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[sync0, sync1, _, _, code, identification, mode, rest, ..] = bytes else {
            return None;
        };
        if [sync0, sync1] != SYNC || identification >> 3 > BSID_MAX {
            return None;
        }
        let size_code = code & 0x3f;
        let kbps = *RATES_KBPS.get(usize::from(size_code / 2))?;
        let (rate, words) = match code >> 6 {
            0 => (48_000, kbps * 2),
            1 => (44_100, words_at_44100(kbps) + u16::from(size_code & 1)),
            2 => (32_000, kbps * 3),
            _ => return None,
        };
        Some(Self {
            rate,
            channels: channels(u16::from_be_bytes([mode, rest])),
            frame_bytes: words * 2,
        })
    }
}

/// Returns whether an E-AC-3 frame (Dolby Digital Plus, A/52 annex E) begins here.
pub(crate) fn is_enhanced(bytes: &[u8]) -> bool {
    let identification = bytes.get(5).map(|byte| byte >> 3);
    bytes.starts_with(&SYNC) && identification.is_some_and(|bsid| (11..=16).contains(&bsid))
}

/// Returns the length of a frame at 44.1 kHz in words of 16 bits, rounded down.
fn words_at_44100(kbps: u16) -> u16 {
    u16::try_from(u32::from(kbps) * 1000 * SAMPLES / (44_100 * 16)).unwrap_or(u16::MAX)
}

/// Returns the number of channels from `acmod` and the fields behind it, some of which are
/// optional.
fn channels(bits: u16) -> u8 {
    let mode = bits >> 13;
    let full = [2, 1, 2, 3, 3, 4, 4, 5][usize::from(mode)];
    let center = mode & 1 != 0 && mode != 1;
    let surround = mode & 4 != 0;
    let stereo = mode == 2;
    let before = 3 + 2 * (u32::from(center) + u32::from(surround) + u32::from(stereo));
    let low_frequency = bits << before >> 15;
    full + u8::from(low_frequency == 1)
}

/// The syntax of AC-3 files without a container.
pub(crate) struct Ac3;

impl Syntax for Ac3 {
    fn expected(&self) -> &'static str {
        "AC-3"
    }

    fn frame_name(&self) -> &'static str {
        "AC-3 frame"
    }

    fn head_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let header = Header::parse(head)?;
        let format = StreamFormat::new(header.rate, SAMPLES, header.channels);
        Some(FrameHeader::whole(header.frame_bytes, format))
    }

    fn track(&self, format: &StreamFormat) -> Track {
        Track::audio(Codec::Ac3, format.channels).with_clock_rate(format.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_rate_channels_and_length() {
        let parse = |code: u8, mode: u8, rest: u8| {
            let header = Header::parse(&[0x0b, 0x77, 0, 0, code, 8 << 3, mode, rest])?;
            Some((header.rate, header.channels, header.frame_bytes))
        };
        assert_eq!(parse(20, 0x40, 0), Some((48_000, 2, 768)), "stereo");
        assert_eq!(parse(20, 0x44, 0), Some((48_000, 3, 768)), "2.1");
        assert_eq!(parse(28, 0xe1, 0), Some((48_000, 6, 1536)), "5.1");
        assert_eq!(parse(28, 0xe0, 0), Some((48_000, 5, 1536)), "3/2");
        assert_eq!(parse(0x40, 0x20, 0), Some((44_100, 1, 138)));
        assert_eq!(parse(0x41, 0x20, 0), Some((44_100, 1, 140)));
        assert_eq!(parse(0xa5, 0x40, 0), Some((32_000, 2, 3840)));
        assert_eq!(parse(38, 0x40, 0), None, "no such rate");
        assert_eq!(parse(0xc0, 0x40, 0), None, "no such clock");
    }

    #[test]
    fn enhanced_frames_are_told_apart() {
        let frame = [0x0b, 0x77, 0x01, 0x7f, 0x34, 16 << 3, 0, 0];
        assert!(is_enhanced(&frame));
        assert_eq!(Header::parse(&frame), None);
    }
}
