//! What a track's description says of its audio, and whether that can be transcoded.

use glassline_media::aac::{AudioSpecificConfig, Program, from_hex};
use glassline_media::{Codec, Kind, OpusStreams, Track};
use glassline_rtp::opus;
use glassline_rtp::payload::parameter;
use thiserror::Error;

/// Sample rates that are decoded, in Hz.
const RATES_HZ: std::ops::RangeInclusive<u32> = 7_350..=96_000;

/// Most channels of frames that are decoded as a whole.
const CHANNELS_MAX: u8 = 2;

/// Most channels that are decoded and mixed down.
const SURROUND_CHANNELS_MAX: u8 = 8;

/// Audio object type of AAC-LC (ISO/IEC 14496-3, table 1.17).
const AAC_LC: u32 = 2;

/// Audio of a track that can be transcoded, as far as the track's description knows it.
///
/// The coded frames may differ: a description may be wrong, and MPEG audio states rate and channels
/// in every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioSource {
    /// Codec of the frames.
    pub(crate) codec: Codec,
    /// Sample rate of the coded audio, in Hz.
    pub(crate) rate: u32,
    /// Number of coded channels, 1 to 8.
    pub(crate) channels: u8,
    /// Where the channels are in a frame.
    pub(crate) layout: Layout,
    /// Whether the codec adds a high band that is not decoded (HE-AAC).
    is_band_limited: bool,
}

/// Where the channels of a source are in its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One or two channels, as every frame says.
    Plain,
    /// Several elements of AAC.
    Program(Program),
    /// Several streams of Opus.
    Multistream(OpusStreams),
}

/// The reason why the audio of a track cannot be transcoded, and what its publisher can send instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Untranscodable {
    /// The track is no audio, or audio that receivers take as it is.
    #[error("{codec} needs no audio transcoding")]
    NotNeeded {
        /// Codec of the track.
        codec: Codec,
    },
    /// There is no decoder for the codec.
    #[error("there is no decoder for {codec}: send AAC-LC or Opus instead (ffmpeg: -c:a aac)")]
    Codec {
        /// Codec of the track.
        codec: Codec,
    },
    /// There is no decoder for this kind of AAC.
    #[error(
        "there is no decoder for AAC of object type {object_type}{}: send AAC-LC or Opus instead \
         (ffmpeg: -c:a aac)",
        object_name(*object_type)
    )]
    ObjectType {
        /// Audio object type (ISO/IEC 14496-3, table 1.17).
        object_type: u32,
    },
    /// There is no decoder for AAC with this number of samples in a frame.
    #[error(
        "there is no decoder for AAC frames of {samples} samples, only for those of 1024: encode \
         again (ffmpeg: -c:a aac)"
    )]
    FrameLength {
        /// Number of samples in a frame.
        samples: u32,
    },
    /// There is no decoder for this number of channels.
    #[error(
        "{codec} with {channels} channels is not decoded, only 1 {}: mix down (ffmpeg: -ac 2)",
        match channels_max(*codec) { CHANNELS_MAX => "or 2", _ => "to 8" }
    )]
    Channels {
        /// Codec of the track.
        codec: Codec,
        /// Number of channels that the description states.
        channels: u8,
    },
    /// The description of several Opus streams is missing or contradicts itself.
    #[error(
        "the description does not say which Opus streams hold the channels \
         (num_streams, coupled_streams, channel_mapping)"
    )]
    Streams,
    /// The sample rate is not decoded.
    #[error(
        "{codec} at {rate} Hz is not decoded, only 7350 to 96000 Hz: resample (ffmpeg: -ar 48000)"
    )]
    Rate {
        /// Codec of the track.
        codec: Codec,
        /// Sample rate that the description states, in Hz.
        rate: u32,
    },
}

/// Returns the most channels that are decoded of a codec.
const fn channels_max(codec: Codec) -> u8 {
    match codec {
        Codec::Aac | Codec::MultiOpus => SURROUND_CHANNELS_MAX,
        _ => CHANNELS_MAX,
    }
}

/// Returns the usual name of an audio object type in brackets; nothing for the rare ones.
const fn object_name(object_type: u32) -> &'static str {
    match object_type {
        1 => " (AAC Main)",
        3 => " (AAC SSR)",
        4 => " (AAC-LTP)",
        17 => " (ER AAC-LC)",
        23 => " (AAC-LD)",
        39 => " (AAC-ELD)",
        42 => " (xHE-AAC)",
        _ => "",
    }
}

impl Layout {
    /// Returns the layout of AAC frames that hold a program, if it is known.
    fn of_program(program: Option<Program>) -> Self {
        match program {
            Some(program) if program.channels() > CHANNELS_MAX => Self::Program(program),
            _ => Self::Plain,
        }
    }
}

impl AudioSource {
    /// Reads the description of a track.
    ///
    /// # Errors
    /// Returns [`Untranscodable`], whose text also says what to send instead.
    pub fn of(track: &Track) -> Result<Self, Untranscodable> {
        let codec = track.codec;
        let plain = Self {
            codec,
            rate: track.clock_rate,
            channels: track.channels,
            layout: Layout::Plain,
            is_band_limited: false,
        };
        match codec {
            Codec::Aac => Self::of_aac(track, plain)?.checked(),
            Codec::L16 => plain.checked(),
            Codec::Pcmu | Codec::Pcma if !track.is_played_by_browsers() => plain.checked(),
            Codec::MultiOpus => {
                let streams = opus::streams(track).ok_or(Untranscodable::Streams)?;
                Self {
                    layout: Layout::Multistream(streams),
                    ..plain
                }
                .checked()
            }
            // The clock of its payload format says nothing of the samples; each frame does.
            Codec::MpegAudio => Self {
                rate: crate::RATE,
                channels: track.channels.clamp(1, CHANNELS_MAX),
                ..plain
            }
            .checked(),
            _ if codec.kind() == Kind::Audio && !codec.is_played_by_browsers() => {
                Err(Untranscodable::Codec { codec })
            }
            _ => Err(Untranscodable::NotNeeded { codec }),
        }
    }

    /// Reads the configuration of an AAC track. Without a legible one, AAC-LC at the track's clock
    /// rate is assumed, which is what cameras with a damaged description send.
    fn of_aac(track: &Track, plain: Self) -> Result<Self, Untranscodable> {
        let config = parameter(&track.format_parameters, "config").and_then(from_hex);
        let Some(config) = config.and_then(|bytes| AudioSpecificConfig::parse(&bytes)) else {
            return Ok(Self {
                layout: Layout::of_program(Program::of_channels(plain.channels)),
                ..plain
            });
        };
        if config.object_type != AAC_LC {
            return Err(Untranscodable::ObjectType {
                object_type: config.object_type,
            });
        }
        if config.samples != 1024 {
            return Err(Untranscodable::FrameLength {
                samples: config.samples,
            });
        }
        let channels = config.channels.unwrap_or(track.channels);
        let program = config.program.or_else(|| Program::of_channels(channels));
        Ok(Self {
            rate: config.coded_rate,
            channels,
            layout: Layout::of_program(program),
            is_band_limited: config.rate != config.coded_rate,
            ..plain
        })
    }

    fn checked(self) -> Result<Self, Untranscodable> {
        let Self {
            codec,
            rate,
            channels,
            ..
        } = self;
        if !(1..=channels_max(codec)).contains(&channels) {
            return Err(Untranscodable::Channels { codec, channels });
        }
        if !RATES_HZ.contains(&rate) {
            return Err(Untranscodable::Rate { codec, rate });
        }
        Ok(self)
    }

    /// Returns the codec of the source.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Returns the track that the transcoder makes: Opus with the source's channels, at most two.
    pub fn transcoded(&self) -> Track {
        Track::audio(Codec::Opus, self.channels.min(CHANNELS_MAX))
    }

    /// Returns what becomes of the source's channels, as a text for people; `None` if they stay.
    pub fn mixdown(&self) -> Option<String> {
        let channels = self.channels;
        (channels > CHANNELS_MAX).then(|| format!("{channels} channels are mixed down to two"))
    }

    /// Returns what is missing in the transcoded audio, as a text for people; `None` if nothing is.
    pub fn loss(&self) -> Option<String> {
        self.is_band_limited.then(|| {
            let khz = f64::from(self.rate) / 2_000.0;
            format!(
                "HE-AAC: its high band is not decoded, so nothing above {khz} kHz is heard; send AAC-LC for all of it"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aac(config: &str, rate: u32, channels: u8) -> Result<AudioSource, Untranscodable> {
        let track = Track::audio(Codec::Aac, channels)
            .with_clock_rate(rate)
            .with_format_parameters(format!("mode=AAC-hbr;config={config};sizelength=13"));
        AudioSource::of(&track)
    }

    #[test]
    fn rate_and_channels_are_those_of_the_configuration() {
        let source = aac("1408", 8_000, 2).expect("AAC-LC, 16 kHz, mono");
        assert_eq!((source.rate, source.channels), (16_000, 1));
        assert_eq!(source.transcoded(), Track::audio(Codec::Opus, 1));
        assert_eq!(source.loss(), None);
    }

    #[test]
    fn a_configuration_that_nobody_can_read_leaves_the_description() {
        for config in ["", "1", "xyzzy", "17"] {
            let source = aac(config, 32_000, 2).expect("assumed to be AAC-LC");
            assert_eq!((source.rate, source.channels), (32_000, 2), "{config}");
        }
    }

    #[test]
    fn several_channels_are_mixed_down() {
        let source = aac("11b0", 48_000, 6).expect("5.1");
        assert_eq!(source.transcoded(), Track::audio(Codec::Opus, 2));
        let mixdown = source.mixdown().expect("six into two");
        assert!(mixdown.starts_with("6 channels"), "{mixdown}");
        let unlisted = aac("1180", 48_000, 8).expect("eight channels, listed in the frames");
        assert!(matches!(unlisted.layout, Layout::Program(_)));
        let stereo = aac("1190", 48_000, 2).expect("stereo");
        assert_eq!((stereo.layout, stereo.mixdown()), (Layout::Plain, None));
        let opus = Track::audio(Codec::MultiOpus, 6)
            .with_format_parameters("num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5");
        let source = AudioSource::of(&opus).expect("5.1");
        assert!(matches!(source.layout, Layout::Multistream(streams) if streams.streams() == 4));
        assert_eq!(source.transcoded(), Track::audio(Codec::Opus, 2));
    }

    #[test]
    fn what_high_efficiency_aac_loses_is_said() {
        let source = aac("2b118800", 48_000, 2).expect("its core is AAC-LC");
        assert_eq!((source.rate, source.channels), (24_000, 2));
        let loss = source.loss().expect("the high band");
        assert!(loss.contains("above 12 kHz"), "{loss}");
    }

    #[test]
    fn refusals_say_what_to_send_instead() {
        let refused = |track: &Track| AudioSource::of(track).expect_err("refused").to_string();
        let ac3 = refused(&Track::audio(Codec::Ac3, 2));
        assert!(ac3.contains("AC-3") && ac3.contains("-c:a aac"), "{ac3}");
        let low_delay = aac("b98c00", 48_000, 2).expect_err("AAC-LD").to_string();
        assert!(low_delay.contains("AAC-LD"), "{low_delay}");
        let many = refused(&Track::audio(Codec::Aac, 9));
        assert!(
            many.contains("only 1 to 8") && many.contains("-ac 2"),
            "{many}"
        );
        let six = refused(&Track::audio(Codec::L16, 6));
        assert!(
            six.contains("6 channels") && six.contains("1 or 2"),
            "{six}"
        );
        let unmapped = refused(&Track::audio(Codec::MultiOpus, 6));
        assert!(unmapped.contains("channel_mapping"), "{unmapped}");
        let short = aac("1194", 48_000, 2).expect_err("960").to_string();
        assert!(short.contains("960 samples"), "{short}");
        let fast = refused(&Track::audio(Codec::L16, 2).with_clock_rate(192_000));
        assert!(fast.contains("192000 Hz"), "{fast}");
        let wide = refused(&Track::audio(Codec::Pcma, 4));
        assert!(wide.contains("4 channels"), "{wide}");
        for playable in [Codec::Opus, Codec::Pcmu, Codec::H264] {
            let refused = AudioSource::of(&Track::new(playable));
            assert_eq!(refused, Err(Untranscodable::NotNeeded { codec: playable }));
        }
    }

    #[test]
    fn every_codec_is_transcoded_or_named() {
        let transcoded = [
            Codec::Aac,
            Codec::L16,
            Codec::MpegAudio,
            Codec::Pcmu,
            Codec::Pcma,
        ];
        let unknown = [Codec::Ac3, Codec::Amr, Codec::AmrWb, Codec::Vorbis];
        for codec in Codec::all() {
            let source = AudioSource::of(&Track::audio(codec, 2).with_clock_rate(48_000));
            if transcoded.contains(&codec) {
                assert_eq!(source.map(|it| it.codec()), Ok(codec));
            } else if codec == Codec::MultiOpus {
                assert_eq!(source, Err(Untranscodable::Streams));
            } else if unknown.contains(&codec) {
                assert_eq!(source, Err(Untranscodable::Codec { codec }));
            } else {
                assert_eq!(source, Err(Untranscodable::NotNeeded { codec }));
            }
        }
    }

    #[test]
    fn rates_and_channels_have_limits() {
        let linear = |channels, rate| {
            AudioSource::of(&Track::audio(Codec::L16, channels).with_clock_rate(rate))
        };
        let codec = Codec::L16;
        for (channels, rate) in [(1, 7_350), (2, 96_000)] {
            let source = linear(channels, rate).expect("within the limits");
            assert_eq!((source.channels, source.rate), (channels, rate));
            assert_eq!(source.layout, Layout::Plain);
        }
        for rate in [7_349, 96_001] {
            assert_eq!(linear(1, rate), Err(Untranscodable::Rate { codec, rate }));
        }
        for channels in [0, 3] {
            let refused = Err(Untranscodable::Channels { codec, channels });
            assert_eq!(linear(channels, 48_000), refused);
        }
        assert!(aac("", 48_000, 8).is_ok());
        let nine = Untranscodable::Channels {
            codec: Codec::Aac,
            channels: 9,
        };
        assert_eq!(aac("", 48_000, 9), Err(nine));
        for (channels, made) in [(0, 1), (1, 1), (2, 2), (6, 2)] {
            let source = AudioSource::of(&Track::audio(Codec::MpegAudio, channels));
            let source = source.expect("each frame says how many");
            assert_eq!((source.channels, source.rate), (made, 48_000));
        }
    }

    #[test]
    fn layouts_are_those_of_more_than_two_channels() {
        for (channels, is_program) in [(1, false), (2, false), (3, true), (6, true)] {
            for config in ["", "1180"] {
                let source = aac(config, 48_000, channels).expect("AAC-LC");
                let made =
                    matches!(source.layout, Layout::Program(it) if it.channels() == channels);
                assert_eq!(made, is_program, "{channels} {config}");
                assert_eq!(source.mixdown().is_some(), is_program);
            }
        }
    }

    #[test]
    fn kinds_of_aac_that_are_not_decoded_have_names() {
        for (object_type, name) in [
            (1, " (AAC Main)"),
            (3, " (AAC SSR)"),
            (4, " (AAC-LTP)"),
            (17, " (ER AAC-LC)"),
            (23, " (AAC-LD)"),
            (39, " (AAC-ELD)"),
            (42, " (xHE-AAC)"),
            (2, ""),
            (20, ""),
        ] {
            assert_eq!(object_name(object_type), name);
        }
        // Object type 1 at 48 kHz in stereo.
        let main = aac("0990", 48_000, 2);
        assert_eq!(main, Err(Untranscodable::ObjectType { object_type: 1 }));
    }
}
