//! The section `transcoding`: audio and video that browsers cannot play.

use std::num::NonZero;

use glassline_hub::{Ladder, Transcode};
use glassline_media::Bitrate;
use glassline_transcode::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts;
use super::sources::LadderKey;

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
    /// Lower layers that are encoded in H.264 while somebody needs them, for each source with a single one: up
    /// to three heights, perhaps with bitrates, like `[720p, 360p:500k]`, or `off`. The option `ladder` of
    /// a source goes first.
    #[serde(with = "ladder")]
    #[schemars(with = "LadderKey")]
    pub ladder: Ladder,
    /// Most streams whose video is transcoded or has its ladder encoded, at a large part of a core
    /// each; 0 for none, null for half as many as there are cores, 1 to 8.
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
            ladder: Ladder::OFF,
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
    pub fn video_streams(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let usual = || (cores() / 2).clamp(1, VIDEO_STREAMS_MAX);
        self.video_streams.unwrap_or_else(usual)
    }

    /// Returns the settings of the Opus encoder.
    pub fn settings(&self) -> Settings {
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

    pub(super) fn serialize<S: Serializer>(choice: &Transcode, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(choice.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transcode, D::Error> {
        let text = String::deserialize(from)?;
        Transcode::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("must be {}, not '{text}'", Transcode::WANTED)))
    }
}

/// The layers of a ladder as a list or a text.
mod ladder {
    use glassline_hub::Ladder;
    use serde::de::{Deserializer, Error as _};
    use serde::{Deserialize as _, Serializer};

    use super::LadderKey;

    pub(super) fn serialize<S: Serializer>(ladder: &Ladder, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(ladder)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ladder, D::Error> {
        let text = LadderKey::deserialize(from)?.text();
        Ladder::parse(&text).map_err(D::Error::custom)
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
        let ladder = read("ladder: [360p, 720p:1500k]").expect("valid").ladder;
        assert_eq!(ladder.to_string(), "720p:1500k,360p:500k");
        for off in ["ladder: off", "ladder: []", "video_streams: 3"] {
            assert!(read(off).expect("valid").ladder.is_off(), "{off}");
        }
        let refused = read("ladder: [361p]").expect_err("odd").to_string();
        assert!(refused.contains("361p is no height"), "{refused}");
        assert_eq!(read("video_streams: 3").expect("valid").video_streams(), 3);
        let usual = Transcoding::default().video_streams();
        assert!((1..=VIDEO_STREAMS_MAX).contains(&usual), "{usual}");
        assert_eq!(read("audio_streams: 0").expect("valid").audio_streams, 0);
    }
}
