//! The section `transcoding`: audio and video that browsers cannot play.

use std::num::NonZero;

use glassline_hub::Transcode;
use glassline_media::Bitrate;
use glassline_transcode::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts;

/// Audio that browsers cannot play (AAC, MP2, MP3, PCM), transcoded to Opus while they watch, and
/// video that they cannot show: H.264 with B-frames or intra refresh, H.265, MPEG-4 visual, MPEG-1/2
/// video and JPEG, transcoded to H.264.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Transcoding {
    /// Most streams whose audio is transcoded, at about 1 % of a core each; 0 for none. Viewers of
    /// further streams get no audio.
    pub audio_streams: usize,
    /// Transcoding of video that browsers cannot show: `auto` for viewers who ask for it (*Play it
    /// anyway*, `?transcode`), `always` for every viewer who needs it, `never` for nobody. The option
    /// `transcode` of a source goes first.
    #[serde(with = "choice")]
    #[schemars(with = "String")]
    pub video: Transcode,
    /// Most streams whose video is transcoded, at a large part of a core each; 0 for none, null for half
    /// as many as there are cores, 1 to 8. Decoders are written in C and C++ and read what publishers
    /// send.
    #[schemars(range(max = 8))]
    pub video_streams: Option<usize>,
    /// The program FFmpeg, 5.1 or newer, which decodes everything but H.264: its path, or its name.
    pub ffmpeg: String,
    /// Bitrate of each Opus channel in kbit/s.
    #[serde(deserialize_with = "parts::opus_kbps")]
    #[schemars(range(min = 6, max = 255))]
    pub opus_kbps: u32,
}

impl Default for Transcoding {
    fn default() -> Self {
        Self {
            audio_streams: 64,
            video: Transcode::default(),
            video_streams: None,
            ffmpeg: "ffmpeg".to_owned(),
            opus_kbps: 48,
        }
    }
}

/// Most streams whose video is transcoded unless the configuration says otherwise.
const VIDEO_STREAMS_MAX: usize = 8;

impl Transcoding {
    /// Returns how many streams may have their video transcoded: as many as configured, or half as many
    /// as there are cores.
    pub(crate) fn video_streams(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let usual = || (cores() / 2).clamp(1, VIDEO_STREAMS_MAX);
        self.video_streams.unwrap_or_else(usual)
    }

    /// Returns the settings of the Opus encoder.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            bitrate: Bitrate::from_bps(u64::from(self.opus_kbps) * 1_000),
            ..Settings::default()
        }
    }
}

/// A choice as text.
mod choice {
    use glassline_hub::Transcode;
    use serde::de::{Deserializer, Error as _};
    use serde::{Deserialize as _, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(choice: &Transcode, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(choice.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transcode, D::Error> {
        let text = String::deserialize(from)?;
        Transcode::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("must be {}, not '{text}'", Transcode::WANTED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bitrate_is_one_that_opus_has() {
        let read = |text: &str| serde_saphyr::from_str::<Transcoding>(text);
        let settings = read("opus_kbps: 64").expect("valid").settings();
        assert_eq!(settings.bitrate, Bitrate::from_bps(64_000));
        for refused in ["opus_kbps: 5", "opus_kbps: 256"] {
            let refused = read(refused).expect_err("no such bitrate").to_string();
            assert!(refused.contains("must be 6 to 255"), "{refused}");
        }
        assert_eq!(
            read("video: always").expect("valid").video,
            Transcode::Always
        );
        let refused = read("video: sometimes").expect_err("no choice").to_string();
        assert!(refused.contains("auto, never or always"), "{refused}");
        assert_eq!(read("video_streams: 3").expect("valid").video_streams(), 3);
        let usual = Transcoding::default().video_streams();
        assert!((1..=VIDEO_STREAMS_MAX).contains(&usual), "{usual}");
        assert_eq!(read("audio_streams: 0").expect("valid").audio_streams, 0);
    }
}
