//! What the connections to a camera publish together.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_hub::{LayersRead, Publisher, SourceNote, State, Stream, Wake};
use glassline_media::{
    Codec, Kind, LayerIndex, MediaTime, MediaUnit, Track, TrackIndex, TrackLayer,
};
use glassline_rtp::units::TimedUnit;

use super::camera_layer::CameraLayer;
use super::clock::{Disagreement, LayerClocks};
use crate::publishing::HubRefusal;
use crate::simulcast::{Ranking, Simulcast};

/// Time for which a sub stream waits for the description of the main stream, whose codec is the stream's.
const DESCRIPTION: Duration = Duration::from_secs(3);

/// Time for which the main stream may be away before the stream gets the codec of another layer. All
/// viewers join again then.
const OTHER_CODEC: Duration = Duration::from_secs(10);

/// Track of the video.
const VIDEO: TrackIndex = TrackIndex(0);

/// The layers of a camera, and the stream that they make.
#[derive(Debug)]
pub(super) struct Publication {
    stream: Arc<Stream>,
    layers: Vec<CameraLayer>,
    clocks: LayerClocks,
    simulcast: Simulcast,
    publisher: Option<Published>,
    /// Time of the first unit that waited for the description of the main stream.
    waiting: Option<Instant>,
    watchers: Vec<Weak<dyn Wake>>,
}

/// The right to publish, and what was announced.
#[derive(Debug)]
struct Published {
    publisher: Publisher,
    codec: Codec,
    /// The tracks beside the video.
    others: Vec<Track>,
    /// Layer that the hub was told to prefer.
    preferred: Option<LayerIndex>,
}

/// The needs of the receivers of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demands {
    /// Whether anybody needs the stream, or the camera stays connected.
    pub(super) is_demanded: bool,
    /// The layers of the video that are read.
    pub(super) read: LayersRead,
}

impl Publication {
    /// Creates the state of layers with these names, the best first.
    pub(super) fn new(stream: Arc<Stream>, rids: Vec<String>, now: Instant) -> Self {
        let count = rids.len();
        let layers = rids.into_iter().map(|rid| CameraLayer {
            rid,
            state: stream.state(),
            since: now,
            session: None,
            left_out: Vec::new(),
            video: None,
            has_begun: false,
            bitrate: None,
            is_keyframe_wanted: false,
        });
        Self {
            layers: layers.collect(),
            clocks: LayerClocks::new(count, now),
            simulcast: Simulcast::new(count, Codec::H264, Ranking::Order, now),
            publisher: None,
            waiting: None,
            watchers: Vec::new(),
            stream,
        }
    }

    pub(super) fn watch(&mut self, watcher: &Arc<dyn Wake>) {
        self.watchers.push(Arc::downgrade(watcher));
    }

    pub(super) fn state(&self, layer: usize) -> State {
        self.layers[layer].state.clone()
    }

    pub(super) fn publisher(&self) -> Option<&Publisher> {
        self.publisher.as_ref().map(|it| &it.publisher)
    }

    /// Sets what the connection of `layer` is doing, while it publishes nothing.
    pub(super) fn set_state(&mut self, layer: usize, state: State, now: Instant) {
        let of_layer = &mut self.layers[layer];
        if of_layer.state != state {
            of_layer.state = state;
            of_layer.since = now;
        }
        self.show();
        self.tell();
    }

    /// Describes the session of `layer`, which has begun, or whose tracks have changed.
    pub(super) fn describe_session(&mut self, layer: usize, tracks: &[Track], left_out: &[String]) {
        let of_layer = &mut self.layers[layer];
        of_layer.video = tracks
            .first()
            .filter(|it| it.kind() == Kind::Video)
            .cloned();
        of_layer.session = Some(tracks.to_vec());
        of_layer.left_out = left_out.to_vec();
        self.tell();
    }

    /// Ends the session of `layer`.
    pub(super) fn end_session(&mut self, layer: usize, now: Instant) {
        let index = LayerIndex::of_encoding(layer);
        let of_layer = TrackLayer {
            track: VIDEO,
            layer: index,
        };
        let figures = self.stream.figures(of_layer, now);
        let ended = &mut self.layers[layer];
        if ended.has_begun && figures.bitrate.bps() > 0 {
            ended.bitrate = Some(figures.bitrate);
        }
        ended.session = None;
        ended.has_begun = false;
        ended.since = now;
        if matches!(ended.state, State::Live { .. }) {
            ended.state = State::Connecting;
        }
        self.clocks.end(layer);
        self.simulcast.end(layer);
        // The base layer goes on at a keyframe of another one.
        for other in &mut self.layers {
            other.is_keyframe_wanted |= other.has_begun;
        }
        self.show();
        self.tell();
    }

    /// Returns the time of an access unit of `layer` on the stream's timeline.
    pub(super) fn place(&mut self, layer: usize, unit: &TimedUnit) -> MediaTime {
        match unit.track {
            VIDEO => self.clocks.place(layer, unit.time, unit.received),
            _ => self.clocks.beside(layer, unit.time),
        }
    }

    /// Notes how far the camera's wall clock is ahead of the times of the session of `layer`.
    ///
    /// # Errors
    /// The reports of two sessions do not fit each other.
    pub(super) fn note_wall_clock(
        &mut self,
        layer: usize,
        ahead_ns: i128,
    ) -> Result<(), Disagreement> {
        self.clocks.note_wall_clock(layer, ahead_ns)
    }

    /// Publishes a unit of the session of `layer`. Returns whether it is a keyframe of the video; `None` if
    /// it is not published.
    ///
    /// # Errors
    /// Returns why the hub refuses it.
    pub(super) fn publish(
        &mut self,
        layer: usize,
        mut unit: MediaUnit,
        now: Instant,
    ) -> Result<Option<bool>, HubRefusal> {
        if unit.track != VIDEO {
            return self
                .publish_beside(layer, unit, now)
                .map(|is_taken| is_taken.then_some(false));
        }
        let is_keyframe = unit.keyframe;
        if !self.layers[layer].has_begun {
            if !is_keyframe || self.waits(layer, now) {
                return Ok(None);
            }
            self.begin_layer(layer, now)?;
        } else if is_keyframe {
            self.follow_codec(layer, now)?;
        }
        let is_of_codec = self.is_of_codec(layer);
        let mut base = None;
        if is_of_codec {
            let followed = self.simulcast.followed();
            self.simulcast.count(layer, unit.payload_bytes());
            self.simulcast.admits(layer, &unit, now);
            base = self.simulcast.base(layer, &unit);
            self.simulcast.choose(now);
            if self.simulcast.followed() != followed {
                self.tell();
            }
        }
        let Some(published) = &mut self.publisher else {
            return Ok(None);
        };
        unit.layer = LayerIndex::of_encoding(layer);
        published.publisher.push(unit, now)?;
        if let Some(base) = base {
            published.publisher.push(base, now)?;
        }
        self.prefer();
        Ok(Some(is_keyframe))
    }

    /// Publishes a unit of a track beside the video, if `layer` is the one from which such units come.
    fn publish_beside(
        &mut self,
        layer: usize,
        unit: MediaUnit,
        now: Instant,
    ) -> Result<bool, HubRefusal> {
        let source = self.layers.iter().position(|it| self.brings_others(it));
        let Some(published) = self.publisher.as_mut().filter(|_| source == Some(layer)) else {
            return Ok(false);
        };
        published.publisher.push(unit, now)?;
        Ok(true)
    }

    /// Returns whether a session plays that has the tracks beside the video.
    fn brings_others(&self, layer: &CameraLayer) -> bool {
        let (Some(published), Some(tracks)) = (&self.publisher, &layer.session) else {
            return false;
        };
        let others = tracks.get(1..).unwrap_or_default();
        let continues = |(known, next): (&Track, &Track)| known.is_continued_by(next);
        layer.has_begun
            && !others.is_empty()
            && others.len() == published.others.len()
            && published.others.iter().zip(others).all(continues)
    }

    /// Returns whether `layer` has to wait: the codec of the main stream is not known yet.
    fn waits(&mut self, layer: usize, now: Instant) -> bool {
        let is_unknown = |it: &CameraLayer| it.video.is_none() && !it.is_failed();
        let better = &self.layers[..layer];
        if self.publisher.is_some() || !better.iter().any(is_unknown) {
            return false;
        }
        let since = *self.waiting.get_or_insert(now);
        now.saturating_duration_since(since) < DESCRIPTION
    }

    /// Begins to publish a layer, and the stream unless it has begun.
    fn begin_layer(&mut self, layer: usize, now: Instant) -> Result<(), HubRefusal> {
        let of_layer = &mut self.layers[layer];
        of_layer.has_begun = true;
        of_layer.state = State::Live { since: now };
        of_layer.since = now;
        self.follow_codec(layer, now)?;
        self.tell();
        Ok(())
    }

    /// Begins to publish the stream in the codec that it should have, at a keyframe of `layer`.
    fn follow_codec(&mut self, layer: usize, now: Instant) -> Result<(), HubRefusal> {
        let present = self.publisher.as_ref().map(|it| it.codec);
        let Some(codec) = self.codec(now).filter(|it| present != Some(*it)) else {
            return Ok(());
        };
        // The others begin anew at their next keyframes.
        for (place, other) in self.layers.iter_mut().enumerate() {
            other.has_begun &= place == layer;
        }
        self.begin(codec, now)
    }

    /// Returns the codec that the stream should have: that of the first layer which is not away for long.
    fn codec(&self, now: Instant) -> Option<Codec> {
        let is_away = |it: &&CameraLayer| {
            it.is_failed() && (self.publisher.is_none() || self.is_away_for_long(it, now))
        };
        let mut present = self.layers.iter().filter(|it| !is_away(it));
        present.find_map(|it| Some(it.video.as_ref()?.codec))
    }

    fn is_away_for_long(&self, layer: &CameraLayer, now: Instant) -> bool {
        layer.is_failed() && now.saturating_duration_since(layer.since) >= OTHER_CODEC
    }

    /// Begins to publish the stream in `codec`, in place of what was published in another one.
    fn begin(&mut self, codec: Codec, now: Instant) -> Result<(), HubRefusal> {
        let with_others = self
            .layers
            .iter()
            .filter_map(|it| it.session.as_ref()?.get(1..));
        let others = with_others.into_iter().find(|it| !it.is_empty());
        let others = others.unwrap_or_default().to_vec();
        let note = SourceNote {
            protocol: "camera",
            left_out: self.left_out(),
        };
        self.simulcast = Simulcast::new(self.layers.len(), codec, Ranking::Order, now);
        let tracks = self.tracks(codec, &others);
        let publisher = match self.publisher.take() {
            Some(old) => {
                let publisher = self.stream.take_over(note, tracks, now)?;
                drop(old);
                publisher
            }
            None => self.stream.publish_as(note, tracks, now)?,
        };
        self.waiting = None;
        self.publisher = Some(Published {
            publisher,
            codec,
            others,
            preferred: None,
        });
        Ok(())
    }

    fn left_out(&self) -> Vec<String> {
        let mut all = Vec::new();
        for layer in &self.layers {
            let named = layer
                .left_out
                .iter()
                .map(|why| format!("{}: {why}", layer.rid));
            all.extend(named);
        }
        all
    }

    fn tracks(&self, codec: Codec, others: &[Track]) -> Vec<Track> {
        let followed = self.simulcast.followed().and_then(|it| self.layers.get(it));
        let of_codec = |it: &&CameraLayer| it.video.as_ref().is_some_and(|it| it.codec == codec);
        let described = followed.filter(of_codec);
        let described = described.or_else(|| self.layers.iter().find(of_codec));
        let video = described.and_then(|it| it.video.clone());
        let layers = self.layers.iter().map(|it| it.describe(codec)).collect();
        let video = video
            .unwrap_or_else(|| Track::new(codec))
            .with_layers(layers);
        std::iter::once(video)
            .chain(others.iter().cloned())
            .collect()
    }

    fn is_of_codec(&self, layer: usize) -> bool {
        let codec = self.layers[layer].video.as_ref().map(|it| it.codec);
        self.publisher.as_ref().map(|it| it.codec) == codec
    }

    /// Tells the hub what there is, and wakes the connections, which may be needed or not any more.
    fn tell(&mut self) {
        if let Some(published) = &self.publisher {
            let tracks = self.tracks(published.codec, &published.others);
            if let Some(published) = &mut self.publisher {
                // What the hub refuses, it refuses with the next unit.
                let _ = published.publisher.describe(&tracks);
            }
            self.prefer();
        }
        self.watchers.retain(|it| it.strong_count() > 0);
        for watcher in self.watchers.iter().filter_map(Weak::upgrade) {
            watcher.wake();
        }
    }

    /// Tells the hub the best layer that comes, or would come if somebody read it.
    fn prefer(&mut self) {
        let Some(published) = &mut self.publisher else {
            return;
        };
        let codec = published.codec;
        let is_available = |it: &&CameraLayer| {
            let video = it.video.as_ref();
            !it.is_failed() && video.is_some_and(|it| it.codec == codec)
        };
        let layers = self.layers.iter().enumerate();
        let best = layers
            .filter(|(_, it)| is_available(it))
            .map(|(place, _)| place)
            .next();
        let best = best.map(LayerIndex::of_encoding);
        if let Some(layer) = best.filter(|_| published.preferred != best) {
            published.preferred = best;
            published.publisher.prefer(TrackLayer {
                track: VIDEO,
                layer,
            });
        }
    }

    /// Shows what the camera is doing, while nothing is published: ends publishing behind the last layer.
    fn show(&mut self) {
        if self.layers.iter().any(|it| it.has_begun) {
            return;
        }
        let state = self.combined();
        match self.publisher.take() {
            Some(published) => published.publisher.finish(state),
            None => self.stream.set_state(state),
        }
    }

    /// Returns the state of a stream of which no layer comes.
    fn combined(&self) -> State {
        let mut states = self.layers.iter().map(|it| &it.state);
        if states.clone().all(|it| *it == State::Idle) {
            return State::Idle;
        }
        let is_connecting = |it: &State| matches!(it, State::Connecting | State::Live { .. });
        if states.any(is_connecting) {
            return State::Connecting;
        }
        let failed = self
            .layers
            .iter()
            .filter_map(|it| Some((&it.rid, it.state.detail()?)));
        let reasons = failed.map(|(rid, detail)| format!("{rid}: {detail}"));
        State::Down {
            detail: reasons.collect::<Vec<_>>().join("; "),
        }
    }

    /// Returns whether a keyframe of `layer` is wanted, since the last call.
    pub(super) fn take_keyframe_wish(&mut self, layer: usize) -> bool {
        if let Some(published) = &self.publisher {
            let wanted = published.publisher.wanted_keyframes();
            let of_base = self.simulcast.of_base().next();
            for (place, of_layer) in self.layers.iter_mut().enumerate() {
                let is_base = of_base == Some(place) && wanted.has(LayerIndex::BASE);
                of_layer.is_keyframe_wanted |=
                    is_base || wanted.has(LayerIndex::of_encoding(place));
            }
        }
        let of_layer = &mut self.layers[layer];
        std::mem::take(&mut of_layer.is_keyframe_wanted) || !of_layer.has_begun
    }

    /// Returns whether anybody needs the connection of `layer`.
    pub(super) fn needs(&self, layer: usize, demands: Demands) -> bool {
        let Demands { is_demanded, read } = demands;
        let of_layer = &self.layers[layer];
        let is_live = |it: &CameraLayer| it.has_begun;
        if read.has(LayerIndex::of_encoding(layer)) {
            return true;
        }
        if !is_demanded {
            return false;
        }
        if layer > 0 {
            // What was never seen is tried until it is known; what failed, until it works.
            let is_unknown = of_layer.bitrate.is_none() && !is_live(of_layer);
            let is_unknown = is_unknown || of_layer.is_failed();
            return is_unknown || !self.layers[..layer].iter().any(is_live);
        }
        let mut lower = self.layers.iter().enumerate().skip(1);
        let is_enough = lower.any(|(place, it)| {
            is_live(it) && self.is_of_codec(place) && read.has(LayerIndex::of_encoding(place))
        });
        !is_enough || read.has(LayerIndex::BASE) || of_layer.bitrate.is_none() && !is_live(of_layer)
    }
}
