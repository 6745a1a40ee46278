//! What the elementary streams of a program are, by the program map (ISO/IEC 13818-1 table 2-34;
//! ETSI EN 300 468 annex D; ATSC A/52 annex A).

use crate::audio::opus_control::Layout;

/// Content of an elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    H264,
    H265,
    /// AAC with ADTS headers.
    Aac,
    MpegAudio,
    Ac3,
    Opus(Layout),
    /// Private data that nothing names. FFmpeg declares AAC so in files for Blu-ray players, which
    /// play none.
    Unnamed,
    /// Video that is not taken out of the stream: its name.
    OtherVideo(&'static str),
    /// Audio that is not taken out of the stream: its name.
    OtherAudio(&'static str),
    /// Subtitles, tables and data.
    Other,
}

/// Tags of descriptors.
const REGISTRATION: u8 = 0x05;
const LANGUAGE: u8 = 0x0a;
const DVB_AC3: u8 = 0x6a;
const DVB_EAC3: u8 = 0x7a;
const DVB_DTS: u8 = 0x7b;
const EXTENSION: u8 = 0x7f;

/// Extension of the descriptor that has the channels of Opus.
const OPUS_CHANNELS: u8 = 0x80;

impl Content {
    /// Returns the content of a stream of this type with these descriptors.
    pub(super) fn of(stream_type: u8, descriptors: &[u8]) -> Self {
        match stream_type {
            0x01 | 0x02 => Self::OtherVideo("MPEG-1/2 video"),
            0x10 => Self::OtherVideo("MPEG-4 visual"),
            0x1b => Self::H264,
            0x24 => Self::H265,
            0x33 => Self::OtherVideo("H.266"),
            0xd1 => Self::OtherVideo("Dirac"),
            0x42 | 0xd2..=0xd4 => Self::OtherVideo("AVS"),
            0xea => Self::OtherVideo("VC-1"),
            0x03 | 0x04 => Self::MpegAudio,
            0x0f => Self::Aac,
            0x11 => Self::OtherAudio("AAC in LATM"),
            0x81 => Self::Ac3,
            0x84 | 0x87 => Self::OtherAudio("E-AC-3"),
            0x80 => Self::OtherAudio("LPCM"),
            0x82 | 0x85 | 0x86 | 0x8a => Self::OtherAudio("DTS"),
            0x83 => Self::OtherAudio("TrueHD"),
            0x06 => Self::of_private(descriptors),
            _ => Self::Other,
        }
    }

    /// Returns the content of a stream of private data, which its descriptors name.
    fn of_private(descriptors: &[u8]) -> Self {
        for (tag, body) in each(descriptors) {
            let found = match (tag, body) {
                (DVB_AC3, _) | (REGISTRATION, [b'A', b'C', b'-', b'3', ..]) => Self::Ac3,
                (DVB_EAC3, _) | (REGISTRATION, [b'E', b'A', b'C', b'3', ..]) => {
                    Self::OtherAudio("E-AC-3")
                }
                (DVB_DTS, _) | (REGISTRATION, [b'D', b'T', b'S', _, ..]) => Self::OtherAudio("DTS"),
                (REGISTRATION, [b'O', b'p', b'u', b's', ..]) => Self::of_opus(descriptors),
                (REGISTRATION, [b'H', b'E', b'V', b'C', ..]) => Self::H265,
                (REGISTRATION, [b'A', b'V', b'0', b'1', ..]) => Self::OtherVideo("AV1"),
                _ => continue,
            };
            return found;
        }
        match each(descriptors).all(|(tag, _)| tag == LANGUAGE) {
            true => Self::Unnamed,
            false => Self::Other,
        }
    }

    /// Returns the content of a stream of Opus, whose channels a descriptor has.
    fn of_opus(descriptors: &[u8]) -> Self {
        let code = each(descriptors).find_map(|(tag, body)| match body {
            [OPUS_CHANNELS, code, ..] if tag == EXTENSION => Some(*code),
            _ => None,
        });
        match code.and_then(Layout::of) {
            Some(layout) => Self::Opus(layout),
            None => Self::OtherAudio("Opus of unknown channels"),
        }
    }

    /// Returns the name of content that is left out; `None` if it is played, or neither video nor
    /// audio.
    pub(super) const fn left_out(self) -> Option<&'static str> {
        match self {
            Self::OtherVideo(name) | Self::OtherAudio(name) => Some(name),
            _ => None,
        }
    }

    /// Returns whether the content is video that is played.
    pub(super) const fn is_video(self) -> bool {
        matches!(self, Self::H264 | Self::H265)
    }

    /// Returns whether the content is audio that is played.
    pub(super) const fn is_audio(self) -> bool {
        matches!(
            self,
            Self::Aac | Self::MpegAudio | Self::Ac3 | Self::Opus(_)
        )
    }
}

/// Returns the tags and bodies of descriptors.
fn each(descriptors: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = descriptors;
    std::iter::from_fn(move || {
        let (&[tag, length], after) = rest.split_first_chunk()?;
        let (body, after) = after.split_at_checked(length.into())?;
        rest = after;
        Some((tag, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: Content = Content::OtherAudio("Opus of unknown channels");

    #[test]
    fn private_streams_are_named_by_their_descriptors() {
        let surround = Layout::of(6).map(Content::Opus).expect("5.1");
        for (descriptors, expected) in [
            (b"\x05\x04AC-3".as_slice(), Content::Ac3),
            (b"\x0a\x04eng\0\x6a\x01\0", Content::Ac3),
            (b"\x7a\x01\0", Content::OtherAudio("E-AC-3")),
            (b"\x05\x04Opus\x7f\x02\x80\x02", Content::Opus(Layout::One)),
            (b"\x05\x04Opus\x7f\x02\x80\x06", surround),
            (b"\x05\x04Opus\x7f\x02\x80\x81", UNKNOWN),
            (b"\x05\x04Opus", UNKNOWN),
            (b"\x59\x08engxxxxx", Content::Other),
            (b"\x05\x09AC-3", Content::Unnamed),
            (b"\x0a\x04und\0", Content::Unnamed),
            (b"", Content::Unnamed),
        ] {
            assert_eq!(Content::of(6, descriptors), expected, "{descriptors:?}");
        }
        assert_eq!(Content::of(0x1b, b""), Content::H264);
        assert!(Content::of(0x0f, b"").is_audio());
        assert_eq!(Content::of(0x11, b"").left_out(), Some("AAC in LATM"));
    }
}
