//! The section `transcoding`: audio and video that browsers cannot play.

use glassline_media::Bitrate;
use glassline_transcode::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts;

/// Audio that browsers cannot play (AAC, MP2, MP3, PCM), transcoded to Opus while they watch, and
/// H.264 with B-frames or intra refresh, encoded again for viewers that ask for it (`?transcode`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Transcoding {
    /// Most streams whose audio is transcoded, at about 1 % of a core each; 0 for none. Viewers of
    /// further streams get no audio.
    pub audio_streams: usize,
    /// Most streams whose video is transcoded, at a large part of a core each; 0 for none. The
    /// decoder is written in C++ and reads what publishers send.
    #[schemars(range(max = 8))]
    pub video_streams: usize,
    /// Bitrate of each Opus channel in kbit/s.
    #[serde(deserialize_with = "parts::opus_kbps")]
    #[schemars(range(min = 6, max = 255))]
    pub opus_kbps: u32,
}

impl Default for Transcoding {
    fn default() -> Self {
        Self {
            audio_streams: 64,
            video_streams: 1,
            opus_kbps: 48,
        }
    }
}

impl Transcoding {
    /// Returns the settings of the Opus encoder.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            bitrate: Bitrate::from_bps(u64::from(self.opus_kbps) * 1_000),
            ..Settings::default()
        }
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
        assert_eq!(read("audio_streams: 0").expect("valid").audio_streams, 0);
    }
}
