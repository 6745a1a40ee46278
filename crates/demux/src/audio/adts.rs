//! Parses the header of each AAC frame in a file without a container (ADTS, ISO/IEC 13818-7
//! §6.2).

use glassline_media::{Codec, Track, aac};

use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};
use crate::error::Reason;
use crate::parameters;

/// Samples of each channel in a raw data block.
pub(crate) const SAMPLES: u32 = 1024;

/// Bytes of a header that [`Header::parse`] needs.
pub(crate) const HEADER_BYTES: usize = 7;

/// Fields of an ADTS header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// MPEG-4 audio object type, 1..=4; 2 is AAC-LC.
    pub(crate) object_type: u8,
    /// Sampling rate in Hz.
    pub(crate) rate: u32,
    rate_index: u8,
    /// Channel configuration, 1..=7; 0 if a program config element describes the channels.
    pub(crate) channel_configuration: u8,
    /// Length of the header in bytes: 7, or 9 with a checksum.
    pub(crate) header_bytes: u16,
    /// Length of header and audio in bytes, more than `header_bytes`.
    pub(crate) frame_bytes: u16,
    /// Number of raw data blocks, 1..=4. Each one is an access unit.
    pub(crate) blocks: u8,
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[0xff, b1, b2, b3, b4, b5, b6, ..] = bytes else {
            return None;
        };
        // Twelve bits of sync word precede the MPEG version and two zero bits of layer.
        if b1 & 0xf6 != 0xf0 {
            return None;
        }
        let rate_index = (b2 >> 2) & 0xf;
        let header = Self {
            object_type: (b2 >> 6) + 1,
            rate: *aac::RATES.get(usize::from(rate_index))?,
            rate_index,
            channel_configuration: (b2 & 1) << 2 | b3 >> 6,
            header_bytes: if b1 & 1 == 1 { 7 } else { 9 },
            frame_bytes: u16::from(b3 & 3) << 11 | u16::from(b4) << 3 | u16::from(b5 >> 5),
            blocks: (b6 & 3) + 1,
        };
        (header.frame_bytes > header.header_bytes).then_some(header)
    }

    /// Returns the number of channels; `None` if only a program config element describes them.
    pub(crate) fn channels(&self) -> Option<u8> {
        match self.channel_configuration {
            0 => None,
            7 => Some(8),
            count => Some(count),
        }
    }

    /// Returns the same configuration as an AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1).
    pub(crate) fn audio_specific_config(&self) -> [u8; 2] {
        [
            self.object_type << 3 | self.rate_index >> 1,
            self.rate_index << 7 | self.channel_configuration << 3,
        ]
    }
}

/// The syntax of AAC files without a container, whose frames each have an ADTS header.
pub(crate) struct Adts;

impl Syntax for Adts {
    fn expected(&self) -> &'static str {
        "AAC with ADTS headers"
    }

    fn frame_name(&self) -> &'static str {
        "AAC frame with an ADTS header"
    }

    fn head_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let header = Header::parse(head).filter(|header| header.blocks == 1)?;
        Some(FrameHeader {
            header_bytes: header.header_bytes,
            bytes: header.frame_bytes,
            format: StreamFormat {
                rate: header.rate,
                samples: SAMPLES,
                channels: header.channels()?,
                setup: header.audio_specific_config(),
            },
        })
    }

    fn refusal(&self, head: &[u8]) -> Option<Reason> {
        let refused = |found, instead| Some(Reason::Refused { found, instead });
        let header = Header::parse(head)?;
        if header.blocks > 1 {
            return refused(
                "AAC with several access units in each ADTS frame",
                "write it again (ffmpeg: -c:a copy -f adts)",
            );
        }
        let instead = "encode it again with a usual number of channels (ffmpeg: -ac 2)";
        match header.channels() {
            Some(_) => None,
            None => refused(
                "AAC whose channels only a program config element states",
                instead,
            ),
        }
    }

    fn track(&self, format: &StreamFormat) -> Track {
        Track::audio(Codec::Aac, format.channels)
            .with_clock_rate(format.rate)
            .with_format_parameters(parameters::aac(&format.setup))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ffmpeg writes AAC-LC at 44.1 kHz in stereo.
    const HEADER: [u8; 7] = [0xff, 0xf1, 0x50, 0x80, 0x2e, 0x7f, 0xfc];

    #[test]
    fn a_header_says_rate_channels_and_length() {
        let header = Header::parse(&HEADER).expect("a header");
        assert_eq!((header.object_type, header.rate), (2, 44_100));
        assert_eq!((header.channels(), header.blocks), (Some(2), 1));
        assert_eq!((header.header_bytes, header.frame_bytes), (7, 371));
        assert_eq!(header.audio_specific_config(), [0x12, 0x10]);
    }

    #[test]
    fn what_is_no_header_is_told() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = HEADER;
            bytes[at] = byte;
            Header::parse(&bytes)
        };
        assert_eq!(changed(1, 0xfb), None, "layer III");
        assert_eq!(changed(2, 0x7c), None, "a reserved rate");
        assert_eq!(changed(4, 0), None, "shorter than its header");
        assert_eq!(Header::parse(&HEADER[..6]), None);
    }
}
