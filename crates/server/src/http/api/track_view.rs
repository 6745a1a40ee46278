//! A track of a stream, as `/api/v1/streams` shows it to whoever may read the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{LayerFigures, Stream};
use glassline_media::{Kind, TrackIndex};
use glassline_rtp::payload::is_recovery_point;
use glassline_transcoding::BrowserView;
use schemars::JsonSchema;
use serde::Serialize;

use super::known;
use super::publishing::{PublishedLayer, layers, temporal_layers};
use crate::app::App;

/// A track of a stream.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TrackView {
    kind: &'static str,
    codec: &'static str,
    width: Option<u32>,
    height: Option<u32>,
    channels: Option<u8>,
    /// Seconds between the latest two keyframes of video; null before the second one.
    keyframe_interval_s: Option<f64>,
    /// Seconds since the latest keyframe of video; null before the first one.
    since_keyframe_s: Option<f64>,
    /// Whether browsers begin with the latest keyframe of video. They do not begin at the recovery
    /// points of a stream without IDR pictures. Null without a keyframe.
    begins_in_browsers: Option<bool>,
    /// How browsers receive the track.
    browser: BrowserView,
    /// Number of temporal layers of the best encoding; absent for a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal_layers: Option<usize>,
    /// Encodings of the track that its publisher sends at the same time; absent for a single one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<PublishedLayer>,
}

impl TrackView {
    /// Returns the tracks that `stream` has now.
    pub(super) fn of_all(app: &App, stream: &Arc<Stream>, now: Instant) -> Vec<Self> {
        let (layout, tracks) = (stream.layout(), stream.tracks());
        let browsers = app.transcoders.browser_views(stream, layout, &tracks);
        let tracks = TrackIndex::enumerate(tracks.iter()).zip(browsers);
        let views = tracks.map(|((index, track), browser)| {
            let is_video = track.kind() == Kind::Video;
            let figures = match is_video {
                true => stream.figures(index, now),
                false => LayerFigures::default(),
            };
            let keyframe = is_video.then(|| stream.latest_keyframe(index)).flatten();
            let seconds = |time: Option<Duration>| time.map(|it| it.as_secs_f64());
            Self {
                kind: track.kind().as_str(),
                codec: track.codec.encoding_name(),
                width: known(track.video.width),
                height: known(track.video.height),
                channels: (track.kind() == Kind::Audio).then_some(track.channels),
                keyframe_interval_s: seconds(figures.keyframe_interval),
                since_keyframe_s: seconds(figures.since_keyframe),
                begins_in_browsers: keyframe.map(|it| !is_recovery_point(track.codec, &it)),
                browser,
                temporal_layers: temporal_layers(&figures),
                layers: layers(stream, index, now),
            }
        });
        views.collect()
    }
}
