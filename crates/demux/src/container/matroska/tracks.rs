//! Parses the description of the tracks (RFC 9559 §5.1.4), and selects those that are played.

use glassline_media::{Codec, Kind};

use super::ebml::{self, id};
use crate::FrameRate;
use crate::audio::opus;
use crate::audio::pcm::Sample;
use crate::container::coding::{Coding, Described};
use crate::container::describe::{self, SAMPLE_RATE_MAX};
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::container::pcm::SampleFormat;
use crate::error::{Fault, Reason, WarningReason, Warnings};

/// The tracks that are played: the first one of video, of audio and of text.
pub(super) struct PlayedTracks(Vec<PlayedTrack>);

pub(super) struct PlayedTrack {
    number: u64,
    pub(super) builder: IndexedTrackBuilder,
    /// Codec delay in ns: times are earlier than blocks state by this much.
    pub(super) delay_ns: i64,
    pub(super) default_duration_ns: Option<i64>,
}

impl PlayedTracks {
    /// Reads the `body` of the Tracks element, which lies at `offset` in the file.
    pub(super) fn read(
        body: &[u8],
        offset: u64,
        scale_ns: u64,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let mut tracks: Vec<PlayedTrack> = Vec::new();
        let mut others = Vec::new();
        for (child, body) in ebml::children(body) {
            if child != id::TRACK_ENTRY {
                continue;
            }
            let entry = TrackEntry::read(body);
            let described = entry.describe(offset, warnings);
            let described = match described {
                Ok(described) => described,
                // The video of a film goes without such audio.
                Err(reason @ Reason::OpusMapping { .. }) => {
                    others.push(format!("{}: {reason}", entry.name()));
                    continue;
                }
                Err(reason) => return Err(Fault::at(offset, reason)),
            };
            let same = |kind| {
                tracks
                    .iter()
                    .any(|track| track.builder.track.kind() == kind)
            };
            match described {
                Some(described) if !same(described.track.kind()) => {
                    tracks.push(entry.track(described, scale_ns));
                }
                Some(_) => others.push(format!("{} is the second of its kind", entry.name())),
                None => others.push(format!("the coding of {} is unknown", entry.name())),
            }
        }
        if tracks.is_empty() {
            let what = match others.is_empty() {
                true => "it describes no track".to_owned(),
                false => others.join("; "),
            };
            return Err(Fault::at(offset, Reason::NothingToPlay(what)));
        }
        if !others.is_empty() {
            let reason = WarningReason::OtherTrack(others.join("; "));
            warnings.add(Some(offset), reason);
        }
        Ok(Self(tracks))
    }

    pub(super) fn by_number(&mut self, number: u64) -> Option<&mut PlayedTrack> {
        self.0.iter_mut().find(|track| track.number == number)
    }

    /// Returns whether any track has a unit so far.
    pub(super) fn has_units(&self) -> bool {
        self.0.iter().any(|track| track.builder.has_begun())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PlayedTrack> {
        self.0.iter_mut()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = PlayedTrack> {
        self.0.into_iter()
    }
}

/// Fields of a TrackEntry.
#[derive(Default)]
struct TrackEntry<'a> {
    number: u64,
    kind: u64,
    codec: &'a [u8],
    private: &'a [u8],
    delay_ns: u64,
    default_duration_ns: u64,
    width: u64,
    height: u64,
    rate: f64,
    channels: u64,
    bits: u64,
    encoding: Option<Encoding<'a>>,
}

/// Content encoding of a track's frames.
enum Encoding<'a> {
    /// Header stripping: these bytes are missing at the start of every frame.
    LeftOut(&'a [u8]),
    /// The track is compressed in another way, or encrypted.
    Other,
}

const TYPE_VIDEO: u64 = 1;
const TYPE_AUDIO: u64 = 2;
const TYPE_SUBTITLE: u64 = 17;

impl<'a> TrackEntry<'a> {
    fn read(body: &'a [u8]) -> Self {
        let mut entry = Self {
            rate: 8000.0,
            channels: 1,
            ..Self::default()
        };
        for (child, body) in ebml::children(body) {
            match child {
                id::TRACK_NUMBER => entry.number = ebml::unsigned(body),
                id::TRACK_TYPE => entry.kind = ebml::unsigned(body),
                id::CODEC_ID => entry.codec = body,
                id::CODEC_PRIVATE => entry.private = body,
                id::CODEC_DELAY => entry.delay_ns = ebml::unsigned(body),
                id::DEFAULT_DURATION => entry.default_duration_ns = ebml::unsigned(body),
                id::VIDEO => entry.read_video(body),
                id::AUDIO => entry.read_audio(body),
                id::CONTENT_ENCODINGS => {
                    for (child, body) in ebml::children(body) {
                        if child == id::CONTENT_ENCODING {
                            entry.add_encoding(body);
                        }
                    }
                }
                _ => {}
            }
        }
        entry
    }

    fn read_video(&mut self, body: &[u8]) {
        for (child, body) in ebml::children(body) {
            match child {
                id::PIXEL_WIDTH => self.width = ebml::unsigned(body),
                id::PIXEL_HEIGHT => self.height = ebml::unsigned(body),
                _ => {}
            }
        }
    }

    fn read_audio(&mut self, body: &[u8]) {
        for (child, body) in ebml::children(body) {
            match child {
                id::SAMPLING_FREQUENCY => self.rate = ebml::float(body),
                id::CHANNELS => self.channels = ebml::unsigned(body),
                id::BIT_DEPTH => self.bits = ebml::unsigned(body),
                _ => {}
            }
        }
    }

    fn add_encoding(&mut self, body: &'a [u8]) {
        const HEADER_STRIPPING: u64 = 3;
        let mut encoding = Encoding::Other;
        for (child, body) in ebml::children(body) {
            let mut settings = [].as_slice();
            let mut algorithm = 0;
            match child {
                id::CONTENT_COMPRESSION => {
                    for (child, body) in ebml::children(body) {
                        match child {
                            id::COMPRESSION_ALGORITHM => algorithm = ebml::unsigned(body),
                            id::COMPRESSION_SETTINGS => settings = body,
                            _ => {}
                        }
                    }
                    if algorithm == HEADER_STRIPPING && self.encoding.is_none() {
                        encoding = Encoding::LeftOut(settings);
                    }
                }
                id::CONTENT_ENCRYPTION => encoding = Encoding::Other,
                _ => {}
            }
        }
        self.encoding = Some(encoding);
    }

    /// Returns the name of the track for errors and warnings.
    fn name(&self) -> String {
        let codec: String = String::from_utf8_lossy(self.codec)
            .chars()
            .filter(|letter| !letter.is_control())
            .take(40)
            .collect();
        format!("track {} ({codec})", self.number)
    }

    fn track(&self, described: Described, scale_ns: u64) -> PlayedTrack {
        let ns = |ns: u64| i64::try_from(ns).unwrap_or(0);
        let duration = Some(ns(self.default_duration_ns)).filter(|&duration| duration > 0);
        let video = described.track.kind() == Kind::Video;
        let rate = duration.filter(|_| video);
        let rate = rate.and_then(|ns| FrameRate::from_decimal(1e9 / ns as f64));
        // No coding has a delay of more than one second; a longer one is damage.
        let delay_ns = ns(self.delay_ns);
        PlayedTrack {
            number: self.number,
            builder: IndexedTrackBuilder::new(described, ns(scale_ns), rate),
            delay_ns: if delay_ns <= 1_000_000_000 {
                delay_ns
            } else {
                0
            },
            default_duration_ns: duration,
        }
    }

    /// Describes the track; `None` if its coding is unknown.
    fn describe(&self, at: u64, warnings: &mut Warnings) -> Result<Option<Described>, Reason> {
        let codec = std::str::from_utf8(self.codec).unwrap_or_default();
        let codec = codec.trim_end_matches('\0');
        let described = match self.kind {
            TYPE_VIDEO => self.describe_frames(codec, at, warnings)?,
            TYPE_AUDIO => self.describe_audio(codec)?,
            TYPE_SUBTITLE => (codec == "S_TEXT/UTF8").then(describe::text),
            _ => None,
        };
        let Some(mut described) = described else {
            return Ok(None);
        };
        match (&self.encoding, &mut described.coding) {
            (None, _) => {}
            (Some(Encoding::LeftOut(bytes)), Coding::Plain(left_out)) => {
                *left_out = bytes.to_vec();
            }
            _ => return Ok(None),
        }
        Ok(Some(described))
    }

    fn describe_frames(
        &self,
        codec: &str,
        at: u64,
        warnings: &mut Warnings,
    ) -> Result<Option<Described>, Reason> {
        let side = |pixels: u64| u32::try_from(pixels).unwrap_or(0);
        let size = (side(self.width), side(self.height));
        Ok(Some(match codec {
            "V_MPEG4/ISO/AVC" => describe::h264(self.private, size, at, warnings)?,
            "V_MPEGH/ISO/HEVC" => describe::h265(self.private, size)?,
            "V_VP8" => describe::plain_frames(Codec::Vp8, size),
            "V_VP9" => describe::vp9(size),
            "V_AV1" => describe::av1(self.private, size)?,
            "V_THEORA" => describe::theora(self.private)?,
            "V_MPEG4/ISO/SP" | "V_MPEG4/ISO/ASP" | "V_MPEG4/ISO/AP" => {
                describe::mpeg4_visual(self.private, size)
            }
            "V_MPEG1" | "V_MPEG2" => describe::plain_frames(Codec::MpegVideo, size),
            "V_MJPEG" => describe::plain_frames(Codec::Jpeg, size),
            _ => return Ok(None),
        }))
    }

    fn describe_audio(&self, codec: &str) -> Result<Option<Described>, Reason> {
        // What is out of range ends as the nearest number.
        let rate = self.rate.round() as u32;
        let channels = u8::try_from(self.channels).unwrap_or(u8::MAX);
        if rate == 0 || rate > SAMPLE_RATE_MAX || channels == 0 {
            let reason = "a track of audio has no channels, or no sampling rate";
            return Err(Reason::Damaged(reason));
        }
        Ok(Some(match codec {
            "A_OPUS" => match opus::Head::parse(self.private) {
                Ok(head) => describe::opus(head.channels, head.streams),
                Err(_) if self.private.is_empty() => {
                    describe::opus(channels, opus::streams(0, channels, &[])?)
                }
                Err(reason) => return Err(reason),
            },
            "A_VORBIS" => describe::vorbis(self.private)?,
            "A_AAC" => describe::aac(self.private, channels)?,
            "A_AC3" => describe::ac3(rate, channels),
            "A_FLAC" => describe::flac(self.private)?,
            "A_MPEG/L3" | "A_MPEG/L2" | "A_MPEG/L1" => describe::mpeg_audio(rate, channels),
            "A_PCM/INT/LIT" | "A_PCM/INT/BIG" | "A_PCM/FLOAT/IEEE" | "A_MS/ACM" => {
                return Ok(self.describe_samples(codec, rate, channels));
            }
            _ => return Ok(None),
        }))
    }

    fn describe_samples(&self, codec: &str, rate: u32, channels: u8) -> Option<Described> {
        // A WAVEFORMATEX begins with its format tag.
        let tag = self.private.first_chunk().copied().map(u16::from_le_bytes);
        let format = match (codec, self.bits) {
            ("A_MS/ACM", _) if tag == Some(6) => SampleFormat::Little(Sample::ALaw),
            ("A_MS/ACM", _) if tag == Some(7) => SampleFormat::Little(Sample::MuLaw),
            ("A_PCM/INT/LIT" | "A_PCM/INT/BIG", 8) => SampleFormat::Little(Sample::Unsigned8),
            ("A_PCM/INT/LIT", 16) => SampleFormat::Little(Sample::Signed16),
            ("A_PCM/INT/LIT", 24) => SampleFormat::Little(Sample::Signed24),
            ("A_PCM/INT/LIT", 32) => SampleFormat::Little(Sample::Signed32),
            ("A_PCM/INT/BIG", 16) => SampleFormat::Big(Sample::Signed16),
            ("A_PCM/INT/BIG", 24) => SampleFormat::Big(Sample::Signed24),
            ("A_PCM/INT/BIG", 32) => SampleFormat::Big(Sample::Signed32),
            ("A_PCM/FLOAT/IEEE", 32) => SampleFormat::Little(Sample::Float32),
            ("A_PCM/FLOAT/IEEE", 64) => SampleFormat::Little(Sample::Float64),
            _ => return None,
        };
        Some(describe::pcm(format, rate, channels))
    }
}
