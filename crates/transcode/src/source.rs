//! What a track's description says of its audio, and whether that can be transcoded.

use glassline_media::aac::{AudioSpecificConfig, from_hex};
use glassline_media::{Codec, Kind, Track};
use glassline_rtp::payload::parameter;
use thiserror::Error;

/// Sample rates that are decoded, in Hz.
const RATES_HZ: std::ops::RangeInclusive<u32> = 7_350..=96_000;

/// Most channels that are decoded.
const CHANNELS_MAX: u8 = 2;

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
    /// Number of channels, 1 or 2.
    pub(crate) channels: u8,
    /// Whether the codec adds a high band that is not decoded (HE-AAC).
    is_band_limited: bool,
}

/// Why the audio of a track cannot be transcoded, and what its publisher can send instead.
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
        "{codec} with {channels} channels is not decoded, only 1 or 2: mix down (ffmpeg: -ac 2)"
    )]
    Channels {
        /// Codec of the track.
        codec: Codec,
        /// Number of channels that the description states.
        channels: u8,
    },
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
            is_band_limited: false,
        };
        match codec {
            Codec::Aac => Self::of_aac(track, plain)?.checked(),
            Codec::L16 => plain.checked(),
            // The clock of its payload format says nothing of the samples; each frame does.
            Codec::MpegAudio => Self {
                rate: crate::RATE,
                channels: track.channels.clamp(1, CHANNELS_MAX),
                ..plain
            }
            .checked(),
            Codec::Ac3 | Codec::Amr | Codec::AmrWb | Codec::Vorbis => {
                Err(Untranscodable::Codec { codec })
            }
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
            return Ok(plain);
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
        Ok(Self {
            rate: config.coded_rate,
            channels: config.channels.unwrap_or(track.channels),
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
        if !(1..=CHANNELS_MAX).contains(&channels) {
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

    /// Returns the track that the transcoder makes: Opus with the source's channels.
    pub fn transcoded(&self) -> Track {
        Track::audio(Codec::Opus, self.channels)
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
        let six = aac("11b0", 48_000, 6).expect_err("5.1").to_string();
        assert!(six.contains("6 channels") && six.contains("-ac 2"), "{six}");
        let short = aac("1194", 48_000, 2).expect_err("960").to_string();
        assert!(short.contains("960 samples"), "{short}");
        let fast = refused(&Track::audio(Codec::L16, 2).with_clock_rate(192_000));
        assert!(fast.contains("192000 Hz"), "{fast}");
        for playable in [Codec::Opus, Codec::Pcmu, Codec::H264] {
            let refused = AudioSource::of(&Track::new(playable));
            assert_eq!(refused, Err(Untranscodable::NotNeeded { codec: playable }));
        }
    }
}
