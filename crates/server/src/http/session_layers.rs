//! The layers among which a viewer's session can choose.

use std::time::Instant;

use glassline_media::{Kind, LayerIndex, TrackIndex, TrackLayer};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::sessions::SessionRecord;

/// A layer that the session can get.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(in crate::http) struct SessionLayer {
    /// Name of the layer.
    pub(in crate::http) rid: String,
    pub(in crate::http) width: Option<u16>,
    pub(in crate::http) height: Option<u16>,
    /// Payload bits a second: of a layer that is paused, those that it had.
    pub(in crate::http) bitrate: u64,
    /// Whether the viewer gets this layer.
    pub(in crate::http) in_use: bool,
}

/// The choice that a session has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::http) struct SessionLayers {
    /// Identification tag of the video's `m=` line.
    pub(in crate::http) mid: String,
    /// The layers in the codec that the session negotiated; empty if the stream has a single one, or the
    /// session cannot move between them.
    pub(in crate::http) layers: Vec<SessionLayer>,
    /// The reason why the viewer gets its layer.
    pub(in crate::http) reason: String,
}

impl SessionLayers {
    /// Returns the choice that the session of `record` has now.
    pub(in crate::http) fn of(app: &App, record: &SessionRecord, now: Instant) -> Self {
        let Some(stream) = app.hub.stream(record.stream.as_str()) else {
            return Self::default();
        };
        let Some(got) = app.latencies.layer(&record.stream, &record.id, now) else {
            return Self::default();
        };
        let tracks = stream.tracks();
        let mut videos = TrackIndex::enumerate(tracks.iter());
        let video = videos.find(|(_, it)| it.kind() == Kind::Video);
        let Some((track, described)) = video else {
            return Self::default();
        };
        let layers = described.layers.iter().enumerate();
        let layers = layers.filter(|(_, it)| it.other_codec.is_none() && it.is_available());
        let layers = layers.map(|(place, it)| {
            let layer = LayerIndex::of_encoding(place);
            let figures = stream.figures(TrackLayer { track, layer }, now);
            let rate = it.bitrate.filter(|_| it.is_paused());
            let (width, height) = it.size.unzip();
            SessionLayer {
                rid: it.rid.clone(),
                width,
                height,
                bitrate: rate.unwrap_or(figures.bitrate).bps(),
                in_use: got.rid.as_ref() == Some(&it.rid),
            }
        });
        Self {
            mid: got.mid,
            layers: layers.collect(),
            reason: got.reason,
        }
    }
}
