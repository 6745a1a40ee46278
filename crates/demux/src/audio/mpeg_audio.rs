//! Parses the header of an MPEG audio frame: MPEG-1, MPEG-2 and MPEG-2.5, layers I to III
//! (ISO/IEC 11172-3 §2.4.1.3, ISO/IEC 13818-3 §2.4.1.3; MPEG-2.5 as common encoders write it).

use glassline_media::{Codec, Track};

use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};
use crate::error::Reason;

/// Length of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 4;

/// Bytes of a frame that [`Header::is_directory`] examines.
pub(crate) const DIRECTORY_BYTES: usize = 48;

/// Version of MPEG audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// MPEG-1: 32 to 48 kHz.
    One,
    /// MPEG-2: half the rates of MPEG-1.
    Two,
    /// MPEG-2.5: a quarter of the rates of MPEG-1; not a standard, but common.
    TwoAndAHalf,
}

/// Fields of a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    /// Layer of MPEG audio, 1 to 3.
    pub(crate) layer: u8,
    /// Sampling rate in Hz.
    pub(crate) rate: u32,
    /// Number of channels, 1 or 2.
    pub(crate) channels: u8,
    /// Samples of each channel in the frame: 384, 576 or 1152.
    pub(crate) samples: u16,
    /// Length of the whole frame in bytes, at least 24.
    pub(crate) frame_bytes: u16,
    checked: bool,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if there is none, or if its bit rate
    /// is free, so that it does not state the frame's length.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields::parse(bytes)?;
        let kbps = kbps(fields.version, fields.layer, fields.bit_rate)?;
        let rate = fields.rate();
        let samples: u16 = match (fields.layer, fields.version) {
            (1, _) => 384,
            (3, Version::Two | Version::TwoAndAHalf) => 576,
            _ => 1152,
        };
        // Layer I counts slots of four bytes, the other layers count bytes.
        let slot = if fields.layer == 1 { 4 } else { 1 };
        let slots = u32::from(samples) / 8 / slot * u32::from(kbps) * 1000 / rate;
        let frame_bytes = (slots + u32::from(fields.padded)) * slot;
        Some(Self {
            version: fields.version,
            layer: fields.layer,
            rate,
            channels: if fields.mono { 1 } else { 2 },
            samples,
            frame_bytes: u16::try_from(frame_bytes).ok()?,
            checked: fields.checked,
        })
    }

    /// Returns whether the frame at the start of `bytes` holds no audio but a directory of the
    /// file, which players use to seek (Xing, Info, VBRI).
    pub(crate) fn is_directory(&self, bytes: &[u8]) -> bool {
        let side_bytes = match (self.version, self.channels) {
            (Version::One, 2) => 32,
            (Version::One, _) | (_, 2) => 17,
            _ => 9,
        };
        let at = |offset: usize, name: &[u8]| {
            let rest = bytes.get(HEADER_BYTES + offset..);
            rest.is_some_and(|rest| rest.starts_with(name))
        };
        // Some writers ignore that a checksum moves the side information.
        let named = |name: &[u8]| at(side_bytes, name) || self.checked && at(side_bytes + 2, name);
        self.layer == 3 && (named(b"Xing") || named(b"Info") || at(32, b"VBRI"))
    }
}

/// Returns whether a frame of free bit rate, whose length is not stated, may begin here.
pub(crate) fn is_free_format(bytes: &[u8]) -> bool {
    Fields::parse(bytes).is_some_and(|fields| fields.bit_rate == 0)
}

/// The fields of a header, none of which has a reserved value.
struct Fields {
    version: Version,
    layer: u8,
    checked: bool,
    bit_rate: u8,
    rate_index: u8,
    padded: bool,
    mono: bool,
}

impl Fields {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[0xff, b1, b2, b3, ..] = bytes else {
            return None;
        };
        let version = match b1 >> 3 {
            0b11111 => Version::One,
            0b11110 => Version::Two,
            0b11100 => Version::TwoAndAHalf,
            _ => return None,
        };
        let fields = Self {
            version,
            layer: 4 - ((b1 >> 1) & 3),
            checked: b1 & 1 == 0,
            bit_rate: b2 >> 4,
            rate_index: (b2 >> 2) & 3,
            padded: b2 & 2 != 0,
            mono: b3 >> 6 == 3,
        };
        let reserved =
            fields.layer == 4 || fields.bit_rate == 15 || fields.rate_index == 3 || b3 & 3 == 2;
        (!reserved).then_some(fields)
    }

    fn rate(&self) -> u32 {
        let full = [44_100, 48_000, 32_000][usize::from(self.rate_index)];
        match self.version {
            Version::One => full,
            Version::Two => full / 2,
            Version::TwoAndAHalf => full / 4,
        }
    }
}

/// Returns the bitrate in kbit/s; `None` if it is free or the index is invalid.
fn kbps(version: Version, layer: u8, index: u8) -> Option<u16> {
    const TABLE: [[u16; 14]; 5] = [
        [
            32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
        ],
        [
            32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
        ],
        [
            32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
        ],
        [
            32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
        ],
        [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let row = match (version, layer) {
        (Version::One, 1) => 0,
        (Version::One, 2) => 1,
        (Version::One, _) => 2,
        (_, 1) => 3,
        _ => 4,
    };
    let place = usize::from(index).checked_sub(1)?;
    TABLE[row].get(place).copied()
}

/// The syntax of MPEG audio files without a container, such as MP3.
pub(crate) struct MpegAudio;

impl Syntax for MpegAudio {
    fn expected(&self) -> &'static str {
        "MPEG audio"
    }

    fn frame_name(&self) -> &'static str {
        "MPEG audio frame"
    }

    fn head_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let header = Header::parse(head)?;
        let format = StreamFormat {
            setup: [header.version as u8, header.layer],
            ..StreamFormat::new(header.rate, header.samples.into(), header.channels)
        };
        Some(FrameHeader::whole(header.frame_bytes, format))
    }

    fn refusal(&self, head: &[u8]) -> Option<Reason> {
        is_free_format(head).then_some(Reason::Refused {
            found: "MPEG audio of free bit rate",
            instead: "encode it with one of the usual bit rates",
        })
    }

    fn directory_bytes(&self) -> usize {
        DIRECTORY_BYTES
    }

    fn is_directory(&self, bytes: &[u8]) -> bool {
        Header::parse(bytes).is_some_and(|header| header.is_directory(bytes))
    }

    /// Returns the track. Its RTP clock is 90 kHz, whatever the sampling rate (RFC 2250 §3.5).
    fn track(&self, format: &StreamFormat) -> Track {
        Track::audio(Codec::MpegAudio, format.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_rate_channels_samples_and_length() {
        let parse = |bytes: [u8; 4]| {
            let header = Header::parse(&bytes)?;
            let Header {
                layer,
                rate,
                channels,
                samples,
                frame_bytes,
                ..
            } = header;
            Some((layer, rate, channels, samples, frame_bytes))
        };
        // 128 kbit/s at 44.1 kHz: 417 bytes and 418 in turn.
        assert_eq!(
            parse([0xff, 0xfb, 0x90, 0x64]),
            Some((3, 44_100, 2, 1152, 417))
        );
        assert_eq!(
            parse([0xff, 0xfb, 0x92, 0x64]),
            Some((3, 44_100, 2, 1152, 418))
        );
        // MPEG-2 layer III, 64 kbit/s at 22.05 kHz, mono.
        assert_eq!(
            parse([0xff, 0xf3, 0x80, 0xc4]),
            Some((3, 22_050, 1, 576, 208))
        );
        // MPEG-2.5 layer III, 8 kbit/s at 8 kHz.
        assert_eq!(
            parse([0xff, 0xe3, 0x18, 0xc4]),
            Some((3, 8_000, 1, 576, 72))
        );
        // Layer II, 192 kbit/s at 48 kHz.
        assert_eq!(
            parse([0xff, 0xfd, 0xa4, 0x00]),
            Some((2, 48_000, 2, 1152, 576))
        );
        // Layer I, 384 kbit/s at 44.1 kHz.
        assert_eq!(
            parse([0xff, 0xff, 0xc2, 0x00]),
            Some((1, 44_100, 2, 384, 420))
        );
    }

    #[test]
    fn every_frame_has_bytes_behind_its_header() {
        for b1 in 0xe0..=0xff {
            for b2 in 0..=0xff {
                if let Some(header) = Header::parse(&[0xff, b1, b2, 0]) {
                    assert!((24..=2_881).contains(&header.frame_bytes), "{header:?}");
                }
            }
        }
    }

    #[test]
    fn reserved_values_are_no_header() {
        assert_eq!(Header::parse(&[0xff, 0xeb, 0x90, 0x64]), None, "version");
        assert_eq!(Header::parse(&[0xff, 0xf9, 0x90, 0x64]), None, "layer");
        assert_eq!(Header::parse(&[0xff, 0xfb, 0xf0, 0x64]), None, "bit rate");
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x9c, 0x64]), None, "rate");
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x90, 0x66]), None, "emphasis");
        assert!(is_free_format(&[0xff, 0xfb, 0x00, 0x64]));
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x00, 0x64]), None);
    }
}
