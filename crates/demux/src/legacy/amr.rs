//! Files of AMR and AMR-WB speech (RFC 4867 §5): a magic number, then frames that each begin
//! with a byte for their type.

use glassline_media::{Codec, Track};

use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};
use crate::error::Reason;
use crate::parameters;

/// First bytes of a narrowband file.
pub(crate) const MAGIC: &[u8] = b"#!AMR\n";
/// First bytes of a wideband file.
pub(crate) const MAGIC_WB: &[u8] = b"#!AMR-WB\n";
/// First bytes of files with several channels; a version follows.
pub(crate) const MAGICS_OF_SEVERAL_CHANNELS: [&[u8]; 2] = [b"#!AMR_MC", b"#!AMR-WB_MC"];

/// Samples of a frame at 8 kHz: 20 ms.
pub(crate) const SAMPLES: u32 = 160;
/// Samples of a frame at 16 kHz: 20 ms.
pub(crate) const SAMPLES_WB: u32 = 320;

/// Returns the length of a frame in bytes with its first byte, which states its type (3GPP TS
/// 26.101 table 1a, TS 26.201 table 1a); `None` for a reserved type.
pub(crate) fn frame_bytes(first: u8, wideband: bool) -> Option<u16> {
    // With one channel, no other frame follows in the table of contents: that bit and the
    // padding are zero.
    if first & 0b1000_0011 != 0 {
        return None;
    }
    let speech = match ((first >> 3) & 0xf, wideband) {
        (kind @ 0..=8, false) => [12, 13, 15, 17, 19, 20, 26, 31, 5][usize::from(kind)],
        (kind @ 0..=9, true) => [17, 23, 32, 36, 40, 46, 50, 58, 60, 5][usize::from(kind)],
        // These types are lost speech and no data.
        (14, true) | (15, _) => 0,
        _ => return None,
    };
    Some(1 + speech)
}

/// Name of the formats AMR and AMR-WB, for error texts.
pub(crate) const EXPECTED: &str = "AMR";

/// The syntax of AMR or AMR-WB files.
pub(crate) struct Amr {
    wideband: bool,
}

impl Amr {
    /// Returns the syntax of a file that begins with `head`.
    ///
    /// # Errors
    /// If `head` begins with neither of the magic numbers.
    pub(crate) fn of(head: &[u8]) -> Result<Self, Reason> {
        let wideband = head.starts_with(MAGIC_WB);
        match wideband || head.starts_with(MAGIC) {
            true => Ok(Self { wideband }),
            false => Err(Reason::Damaged(NO_MAGIC)),
        }
    }
}

const NO_MAGIC: &str = "it does not begin with #!AMR or #!AMR-WB and a line feed";

impl Syntax for Amr {
    fn expected(&self) -> &'static str {
        EXPECTED
    }

    fn frame_name(&self) -> &'static str {
        match self.wideband {
            true => "AMR-WB frame",
            false => "AMR frame",
        }
    }

    fn magic_bytes(&self) -> u64 {
        let magic = if self.wideband { MAGIC_WB } else { MAGIC };
        magic.len() as u64
    }

    fn head_bytes(&self) -> usize {
        1
    }

    fn witnesses(&self) -> usize {
        25
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let bytes = frame_bytes(*head.first()?, self.wideband)?;
        let format = match self.wideband {
            true => StreamFormat::new(16_000, SAMPLES_WB, 1),
            false => StreamFormat::new(8_000, SAMPLES, 1),
        };
        Some(FrameHeader::whole(bytes, format))
    }

    fn track(&self, format: &StreamFormat) -> Track {
        let codec = match self.wideband {
            true => Codec::AmrWb,
            false => Codec::Amr,
        };
        Track::audio(codec, format.channels)
            .with_clock_rate(format.rate)
            .with_format_parameters(parameters::AMR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_tables_of_both_codings() {
        assert_eq!(frame_bytes(0x3c, false), Some(32), "12.2 kbit/s");
        assert_eq!(frame_bytes(0x04, false), Some(13), "4.75 kbit/s");
        assert_eq!(frame_bytes(0x44, false), Some(6), "silence");
        assert_eq!(frame_bytes(0x7c, false), Some(1), "nothing");
        assert_eq!(frame_bytes(0x44, true), Some(61), "23.85 kbit/s");
        assert_eq!(frame_bytes(0x4c, true), Some(6), "silence");
        assert_eq!(frame_bytes(0x4c, false), None, "a reserved type");
        assert_eq!(frame_bytes(0x74, false), None, "lost, in narrowband");
        assert_eq!(frame_bytes(0xbc, false), None, "another frame follows");
        assert_eq!(frame_bytes(0x3d, false), None, "padding");
    }
}
