//! The layers of a source that brings all of them in one session, on one timeline: the renditions of a
//! MoQ broadcast.
//!
//! ```text
//! rendition 0 ─► layer 1 of the video ┐
//! rendition 1 ─► layer 2              ├─► hub     a layer that nobody reads is not fetched
//! the best that comes ─► base layer ──┘
//! ```
//!
//! The base layer has the codec of the best rendition. Layers in another codec are read by the receivers
//! that negotiated it.

use std::time::{Duration, Instant};

use glassline_hub::{LayersRead, Stream, WantedKeyframes};
use glassline_media::{
    Bitrate, Codec, Layer, LayerAbsence, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer,
};

use super::layer_pauses::{LayerNeed, LayerPauses};
use super::simulcast::{Ranking, Simulcast};

/// Track of the video.
const VIDEO: TrackIndex = TrackIndex(0);

/// Time without frames after which a layer counts as one that does not come.
const SILENCE: Duration = Duration::from_secs(2);

/// The layers of a source, which are its first tracks.
#[derive(Debug)]
pub(crate) struct SourceLayers {
    layers: Vec<SourceLayer>,
    simulcast: Simulcast,
    pauses: LayerPauses,
    /// Whether a keyframe is needed for what the layers do, and not for a viewer.
    wants_keyframe: bool,
}

/// One layer of a source.
#[derive(Debug)]
struct SourceLayer {
    rid: String,
    /// Bitrate that the source states.
    bitrate: Option<Bitrate>,
    /// Whether the layer has the codec of the base layer.
    is_of_codec: bool,
    has_begun: bool,
    /// Arrival of the latest frame.
    latest: Option<Instant>,
    /// Whether a keyframe of the layer was requested since the last look.
    is_requested: bool,
    has_ended: bool,
}

/// A layer as its source describes it.
#[derive(Clone, Debug)]
pub(crate) struct DescribedLayer {
    pub(crate) rid: String,
    pub(crate) codec: Codec,
    pub(crate) bitrate: Option<Bitrate>,
}

/// The units that a unit of the source becomes.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) unit: Option<MediaUnit>,
    /// Unit of the base layer with the same frame.
    pub(crate) base: Option<MediaUnit>,
    /// Whether the description of the tracks has changed.
    pub(crate) is_redescribed: bool,
}

impl SourceLayers {
    /// Creates the state of `layers`, the best first; `None` of a single one, which is no choice.
    pub(crate) fn new(layers: Vec<DescribedLayer>, now: Instant) -> Option<Self> {
        let codec = layers.first().filter(|_| layers.len() > 1)?.codec;
        let count = layers.len();
        let layers = layers.into_iter().map(|it| SourceLayer {
            rid: it.rid,
            bitrate: it.bitrate,
            is_of_codec: it.codec == codec,
            has_begun: false,
            latest: None,
            is_requested: false,
            has_ended: false,
        });
        Some(Self {
            layers: layers.collect(),
            simulcast: Simulcast::new(count, codec, Ranking::Order, now),
            pauses: LayerPauses::new(count),
            wants_keyframe: false,
        })
    }

    /// Returns whether the stream can begin with this unit of the source: a keyframe in the codec of the
    /// base layer.
    pub(crate) fn starts(&self, unit: &MediaUnit) -> bool {
        let layer = self.layers.get(unit.track.get());
        unit.keyframe && layer.is_some_and(|it| it.is_of_codec)
    }

    /// Returns what a unit of the source, whose track is its place there, becomes.
    pub(crate) fn place(&mut self, mut unit: MediaUnit, now: Instant) -> Placed {
        let place = unit.track.get();
        let Some(layer) = self.layers.get_mut(place) else {
            unit.track = TrackIndex(1 + place - self.layers.len());
            return Placed {
                unit: Some(unit),
                ..Placed::default()
            };
        };
        // Frames of a paused layer were on their way.
        if self.pauses.is_paused(place) || !(layer.has_begun || unit.keyframe) {
            return Placed::default();
        }
        layer.has_begun = true;
        layer.latest = Some(now);
        let mut placed = Placed {
            is_redescribed: unit.keyframe && self.pauses.take_arrival(place),
            ..Placed::default()
        };
        unit.track = VIDEO;
        if layer.is_of_codec {
            let followed = self.simulcast.followed();
            self.simulcast.admits(place, &unit, now);
            let is_past = followed != Some(place) && self.simulcast.is_past(unit.time);
            if is_past {
                // The base layer moves at a keyframe of the present.
                self.wants_keyframe |= unit.keyframe;
            } else {
                placed.base = self.simulcast.base(place, &unit);
            }
            self.wants_keyframe |= self.simulcast.choose(now).is_some();
            placed.is_redescribed |= self.simulcast.followed() != followed;
        }
        unit.layer = LayerIndex::of_encoding(place);
        placed.unit = Some(unit);
        placed
    }

    /// Notes that no more frames come of the source's track `place`. Returns whether that is a layer.
    pub(crate) fn end(&mut self, place: usize) -> bool {
        let Some(layer) = self.layers.get_mut(place) else {
            return false;
        };
        layer.has_ended = true;
        layer.latest = None;
        self.leave(place);
        true
    }

    /// Lets the base layer go on with another layer than `place`.
    fn leave(&mut self, place: usize) {
        let followed = self.simulcast.followed();
        self.simulcast.end(place);
        self.layers[place].has_begun = false;
        self.wants_keyframe |= followed != self.simulcast.followed();
    }

    /// Returns when [`look`](Self::look) is to be called again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pauses.deadline(true)
    }

    /// Looks which layers the readers of `stream` need. Returns whether another one is to be fetched, or
    /// left, now.
    pub(crate) fn look(&mut self, stream: &Stream, now: Instant) -> bool {
        if !self.pauses.is_due(true, now) {
            return false;
        }
        let read = stream.layers_read(VIDEO);
        let places = 0..self.layers.len();
        let needs: Vec<_> = places.map(|place| self.need(place, read, now)).collect();
        self.layers
            .iter_mut()
            .for_each(|it| it.is_requested = false);
        let rate = |place| stream.figures(layer(place), now).bitrate;
        let change = self.pauses.look(&needs, true, rate, now);
        for place in &change.paused {
            self.leave(*place);
        }
        !change.is_empty()
    }

    /// Returns the need of the layer `place`. Whoever reads the base layer needs the layer that it
    /// follows, and the best one.
    fn need(&self, place: usize, read: LayersRead, now: Instant) -> LayerNeed {
        let layer = &self.layers[place];
        let is_of_base = self.simulcast.followed() == Some(place) || self.best() == Some(place);
        let is_recent = |at| now.saturating_duration_since(at) < SILENCE;
        LayerNeed {
            is_needed: read.has(LayerIndex::of_encoding(place))
                || is_of_base && read.has(LayerIndex::BASE)
                || layer.is_requested,
            is_alive: layer.has_begun && layer.latest.is_some_and(is_recent),
        }
    }

    /// Returns whether the source's track `place` is to be fetched.
    pub(crate) fn is_fetched(&self, place: usize) -> bool {
        !self.pauses.is_paused(place)
    }

    /// Returns the best layer of the base layer's codec that comes, or would if somebody read it.
    fn best(&self) -> Option<usize> {
        let comes = |(place, it): &(usize, &SourceLayer)| {
            let may_come = it.has_begun || self.pauses.absence(*place).is_some();
            it.is_of_codec && !it.has_ended && may_come
        };
        let mut layers = self.layers.iter().enumerate().filter(comes);
        layers.next().map(|(place, _)| place)
    }

    /// Returns the layer for viewers that can move from layer to layer.
    pub(crate) fn preferred(&self) -> Option<TrackLayer> {
        self.best().map(layer)
    }

    /// Notes that keyframes of layers are wanted.
    pub(crate) fn note_requests(&mut self, wanted: WantedKeyframes) {
        for (place, layer) in self.layers.iter_mut().enumerate() {
            layer.is_requested |= wanted.has(LayerIndex::of_encoding(place));
        }
    }

    /// Returns whether a keyframe is needed for what the layers do, since the last call.
    pub(crate) fn take_keyframe_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_keyframe)
    }

    /// Returns the tracks of the stream, of which `described` are those of the source.
    pub(crate) fn tracks(&self, described: &[Track]) -> Vec<Track> {
        let followed = self.simulcast.followed().unwrap_or(0);
        let layers = self.layers.iter().zip(described).enumerate();
        let layers = layers.map(|(place, (layer, track))| self.describe(place, layer, track));
        let video = described[followed].clone().with_layers(layers.collect());
        let others = described.iter().skip(self.layers.len()).cloned();
        std::iter::once(video).chain(others).collect()
    }

    fn describe(&self, place: usize, layer: &SourceLayer, track: &Track) -> Layer {
        let (paused, rate) = self.pauses.absence(place).unzip();
        let ended = || LayerAbsence::Failed("the publisher sends it no more".to_owned());
        let side = |pixels: u32| u16::try_from(pixels).ok().filter(|it| *it > 0);
        Layer {
            rid: layer.rid.clone(),
            size: side(track.video.width).zip(side(track.video.height)),
            bitrate: rate.or(layer.bitrate),
            absence: layer.has_ended.then(ended).or(paused),
            other_codec: (!layer.is_of_codec).then(|| Box::new(track.clone())),
            is_made_here: false,
        }
    }
}

fn layer(place: usize) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex::of_encoding(place),
    }
}
