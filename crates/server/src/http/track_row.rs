//! A track in a few words, as pages for operators show it.

use glassline_media::{Kind, Track};
use schemars::JsonSchema;
use serde::Serialize;

/// A track of a stream.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TrackRow {
    kind: &'static str,
    codec: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<u8>,
    /// Whether the video has B-frames.
    b_frames: bool,
}

impl From<&Track> for TrackRow {
    fn from(track: &Track) -> Self {
        let known = |pixels| (pixels > 0).then_some(pixels);
        Self {
            kind: track.kind().as_str(),
            codec: track.codec.encoding_name(),
            width: known(track.video.width),
            height: known(track.video.height),
            channels: (track.kind() == Kind::Audio).then_some(track.channels),
            b_frames: track.video.reordered,
        }
    }
}
