//! Parses tags, and the first bytes of their payload, which name coding and content.

use glassline_media::{Codec, Kind};

use crate::audio::{ac3, mpeg_audio, opus, pcm};
use crate::container::coding::Described;
use crate::container::describe;
use crate::container::pcm::SampleFormat;
use crate::error::{Reason, Warnings};

/// Header of a tag of video or audio, or of data that is not played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    /// Decoding time in ms.
    pub(super) time_ms: u32,
    /// Offsets of the payload, and behind it.
    pub(super) body: u64,
    pub(super) end: u64,
}

impl Tag {
    /// Length of the header in bytes.
    pub(super) const HEAD_BYTES: usize = 11;

    /// Parses the header at the start of `head`, which lies at `at` in the file; `None` if no tag
    /// begins there.
    pub(super) fn parse(head: &[u8], at: u64) -> Option<Self> {
        let &[kind, l0, l1, l2, t0, t1, t2, t3, 0, 0, 0] = head.first_chunk()? else {
            return None;
        };
        let kind = match kind {
            8 => Kind::Audio,
            9 => Kind::Video,
            18 => Kind::Text,
            _ => return None,
        };
        let body = at + Self::HEAD_BYTES as u64;
        Some(Self {
            kind,
            time_ms: u32::from_be_bytes([t3, t0, t1, t2]),
            body,
            end: body + u64::from(u32::from_be_bytes([0, l0, l1, l2])),
        })
    }
}

/// Meaning of the bytes behind the payload's own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Configuration,
    Frame,
}

/// The payload's own header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) kind: Kind,
    /// Name of the coding: four characters, or a name for those that FLV numbers.
    pub(super) coding: String,
    pub(super) content: Content,
    pub(super) keyframe: bool,
    /// Milliseconds from decoding to presentation.
    pub(super) later_ms: i32,
    pub(super) head_bytes: u64,
    /// First byte of an audio payload, which has sampling rate, sample size and channels.
    flags: u8,
}

impl Payload {
    /// Longest header in bytes.
    pub(super) const HEAD_BYTES_MAX: usize = 8;

    /// Parses the header at the start of `head`; `None` for payloads that are neither a frame nor a
    /// configuration.
    pub(super) fn parse(kind: Kind, head: &[u8]) -> Option<Self> {
        match kind {
            Kind::Video => Self::video(head),
            Kind::Audio => Self::audio(head),
            Kind::Text => None,
        }
    }

    fn video(head: &[u8]) -> Option<Self> {
        const COMMAND: u8 = 5;
        let (&first, rest) = head.split_first()?;
        let kind_of_frame = first >> 4 & 7;
        if kind_of_frame == COMMAND {
            return None;
        }
        let named = |coding: &str, content, later_ms, head_bytes| Self {
            kind: Kind::Video,
            coding: coding.to_owned(),
            content,
            keyframe: kind_of_frame == 1,
            later_ms,
            head_bytes,
            flags: 0,
        };
        if first & 0x80 != 0 {
            let coding = four_characters(rest)?;
            let has_delay = matches!(coding.as_str(), "avc1" | "hvc1" | "vvc1");
            return Some(match first & 0x0f {
                0 => named(&coding, Content::Configuration, 0, 5),
                1 if has_delay => named(&coding, Content::Frame, delay(rest.get(4..)?)?, 8),
                1 | 3 => named(&coding, Content::Frame, 0, 5),
                _ => return None,
            });
        }
        Some(match first & 0x0f {
            number @ (7 | 12) => {
                let coding = if number == 7 { "avc1" } else { "hvc1" };
                match rest.first()? {
                    0 => named(coding, Content::Configuration, 0, 5),
                    1 => named(coding, Content::Frame, delay(rest.get(1..)?)?, 5),
                    _ => return None,
                }
            }
            2 => named("Sorenson H.263", Content::Frame, 0, 1),
            3 | 6 => named("screen video", Content::Frame, 0, 1),
            4 | 5 => named("VP6", Content::Frame, 0, 1),
            number => named(&format!("video coding {number}"), Content::Frame, 0, 1),
        })
    }

    fn audio(head: &[u8]) -> Option<Self> {
        let (&first, rest) = head.split_first()?;
        let named = |coding: &str, content, head_bytes| Self {
            kind: Kind::Audio,
            coding: coding.to_owned(),
            content,
            keyframe: true,
            later_ms: 0,
            head_bytes,
            flags: first,
        };
        Some(match first >> 4 {
            9 => {
                let coding = four_characters(rest)?;
                match first & 0x0f {
                    0 => named(&coding, Content::Configuration, 5),
                    1 => named(&coding, Content::Frame, 5),
                    _ => return None,
                }
            }
            10 => match rest.first()? {
                0 => named("mp4a", Content::Configuration, 2),
                1 => named("mp4a", Content::Frame, 2),
                _ => return None,
            },
            0 | 3 => named("pcm", Content::Frame, 1),
            2 | 14 => named(".mp3", Content::Frame, 1),
            7 => named("alaw", Content::Frame, 1),
            8 => named("ulaw", Content::Frame, 1),
            11 => named("Speex", Content::Frame, 1),
            1 => named("Adobe ADPCM", Content::Frame, 1),
            4..=6 => named("Nellymoser", Content::Frame, 1),
            number => named(&format!("audio coding {number}"), Content::Frame, 1),
        })
    }

    /// Returns whether a configuration must come before the first frame.
    pub(super) fn needs_configuration(&self) -> bool {
        matches!(
            self.coding.as_str(),
            "avc1" | "hvc1" | "av01" | "mp4a" | "fLaC"
        )
    }

    /// Describes the track; `None` if its coding is not played. `bytes`: the configuration at
    /// `offset`, or the start of a frame of a coding without one.
    pub(super) fn describe(
        &self,
        bytes: &[u8],
        offset: u64,
        warnings: &mut Warnings,
    ) -> Result<Option<Described>, Reason> {
        // The frames have the true size.
        let size = (0, 0);
        let rate = [5_512, 11_025, 22_050, 44_100][usize::from(self.flags >> 2 & 3)];
        let channels = 1 + (self.flags & 1);
        let sample = match self.flags & 2 {
            0 => pcm::Sample::Unsigned8,
            _ => pcm::Sample::Signed16,
        };
        Ok(Some(match self.coding.as_str() {
            "avc1" => describe::h264(bytes, size, offset, warnings)?,
            "hvc1" => describe::h265(bytes, size)?,
            "av01" => describe::av1(bytes, size)?,
            "vp08" => describe::plain_frames(Codec::Vp8, size),
            "vp09" => describe::vp9(size),
            "mp4a" => describe::aac(bytes, 2)?,
            "fLaC" => describe::flac(bytes)?,
            "Opus" => match opus::Head::parse(bytes) {
                Ok(head) => describe::opus(head.channels, head.streams),
                Err(_) => describe::opus(2, None),
            },
            "ac-3" => {
                let header = ac3::Header::parse(bytes);
                header.map_or_else(
                    || describe::ac3(48_000, 2),
                    |it| describe::ac3(it.rate, it.channels),
                )
            }
            // The field of the rate has no 48 kHz.
            ".mp3" => {
                let header = mpeg_audio::Header::parse(bytes);
                let (rate, channels) = header.map_or((rate, channels), |it| (it.rate, it.channels));
                describe::mpeg_audio(rate, channels)
            }
            "alaw" => describe::pcm(SampleFormat::Little(pcm::Sample::ALaw), 8_000, channels),
            "ulaw" => describe::pcm(SampleFormat::Little(pcm::Sample::MuLaw), 8_000, channels),
            "pcm" => describe::pcm(SampleFormat::Little(sample), rate, channels),
            _ => return Ok(None),
        }))
    }
}

fn four_characters(bytes: &[u8]) -> Option<String> {
    let name: &[u8; 4] = bytes.first_chunk()?;
    let letters = name.iter().map(|&letter| match letter {
        b' '..=b'~' => char::from(letter),
        _ => '?',
    });
    Some(letters.collect())
}

/// Reads a signed number of 24 bits.
fn delay(bytes: &[u8]) -> Option<i32> {
    let &[a, b, c] = bytes.first_chunk()?;
    Some(i32::from_be_bytes([a, b, c, 0]) >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_highest_byte_last() {
        let head = [9, 0, 1, 2, 0x11, 0x22, 0x33, 0x44, 0, 0, 0];
        let tag = Tag::parse(&head, 13).expect("a tag");
        assert_eq!((tag.kind, tag.time_ms), (Kind::Video, 0x4411_2233));
        assert_eq!((tag.body, tag.end), (24, 24 + 0x102));
        for (place, value) in [(0, 10), (0, 0x29), (8, 1), (10, 7)] {
            let mut head = head;
            head[place] = value;
            assert_eq!(Tag::parse(&head, 13), None, "byte {place}");
        }
        assert_eq!(Tag::parse(&head[..10], 13), None);
    }

    #[test]
    fn payloads_name_coding_content_and_delay() {
        let video = |head: &[u8]| Payload::parse(Kind::Video, head);
        let found = video(&[0x17, 1, 0xff, 0xff, 0xfe, 9]).expect("a frame");
        assert_eq!((found.coding.as_str(), found.later_ms), ("avc1", -2));
        assert!(found.keyframe && found.content == Content::Frame && found.head_bytes == 5);
        let found = video(b"\x90hvc1\x01\x02").expect("a configuration");
        assert_eq!(found.content, Content::Configuration);
        let found = video(b"\xa1hvc1\0\0\x28").expect("a frame with a delay");
        assert_eq!((found.later_ms, found.head_bytes), (40, 8));
        assert!(!found.keyframe);
        let found = video(b"\xa3hvc1\0\0\x28").expect("a frame without one");
        assert_eq!((found.later_ms, found.head_bytes), (0, 5));
        for none in [
            &[][..],
            &[0x17],
            &[0x17, 2, 0, 0, 0],
            &[0x57, 1],
            b"\x92av01",
        ] {
            assert_eq!(video(none), None, "{none:?}");
        }
        let audio = |head: &[u8]| Payload::parse(Kind::Audio, head).map(|it| it.coding);
        assert_eq!(audio(&[0xaf, 1]).as_deref(), Some("mp4a"));
        assert_eq!(audio(b"\x91Opus").as_deref(), Some("Opus"));
        assert_eq!(audio(&[0xb2]).as_deref(), Some("Speex"));
        assert_eq!(audio(&[0xaf]), None);
    }
}
