//! The broadcast of a stream: its renditions, and which of them are read.

use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use glassline_hub::{Stream, Subscription, TrackLayout};
use glassline_media::{
    Bitrate, Kind, Layer, LayerIndex, MediaTime, MediaUnit, Track, TrackIndex, TrackLayer,
    VideoParameters,
};
use glassline_quic::moq::{self, AwaitedBroadcast, Broadcast, Origin, TrackConfig};
use glassline_runtime::{Clock, Counter};

use super::remuxer::TrackRemuxer;
use super::{DEADLINE, LINGER, OfferedTracks};

/// A broadcast, and what copies the layers of the stream into its tracks.
pub(super) struct Publication {
    pub(super) broadcast: Broadcast,
    remuxers: Vec<TrackRemuxer>,
    /// Layers that are read from the hub.
    read: Vec<TrackLayer>,
    /// The description by which layers are offered, and the layer that stands for the video.
    described: Option<(Arc<[Track]>, TrackLayer)>,
}

impl Publication {
    /// Creates the broadcast of a stream, or gives the one that `awaited` the tracks to it. Returns `None`
    /// if MoQ carries none of the tracks, or if the name is taken.
    ///
    /// Tracks of each layout have names of their own: a session that reads a track goes on with the
    /// track of the same name in the next broadcast, and its decoder would get frames of another codec.
    pub(super) fn begin(
        offered: &OfferedTracks<'_>,
        origin: &Origin,
        awaited: Option<AwaitedBroadcast>,
        clock: Clock,
    ) -> Option<Self> {
        let stream = offered.stream;
        let (configs, remuxers) = renditions(offered);
        if configs.is_empty() {
            return None;
        }
        let name = stream.name().as_str();
        let begun = match awaited {
            Some(awaited) => awaited.with_tracks(configs),
            None => origin.publish(name, configs),
        };
        let begun = begun.inspect_err(
            |error| tracing::warn!(stream = name, %error, "stream is not offered over QUIC"),
        );
        let mut broadcast = begun.ok()?;
        if let Some(zero) = clock_of(stream) {
            broadcast.set_clock(zero.0, UNIX_EPOCH + clock.wall().unix(zero.1));
        }
        let mut publication = Self {
            broadcast,
            remuxers,
            read: Vec::new(),
            described: None,
        };
        publication.offer_layers(stream);
        Some(publication)
    }

    /// Offers the layers that come, or would if somebody read them. The best one is there already: the
    /// first rendition is the base layer, which follows it.
    pub(super) fn offer_layers(&mut self, stream: &Stream) {
        let is_layer = |it: &&TrackRemuxer| it.of.layer != LayerIndex::BASE;
        let Some(first) = self.remuxers.iter().find(is_layer) else {
            return;
        };
        let (tracks, best) = (stream.tracks(), stream.preferred(first.of.track));
        let is_known =
            |(known, of): &(Arc<[Track]>, TrackLayer)| Arc::ptr_eq(known, &tracks) && *of == best;
        if self.described.as_ref().is_some_and(is_known) {
            return;
        }
        for remuxer in self.remuxers.iter().filter(is_layer) {
            let is_offered = described(&tracks, remuxer.of).is_some_and(|(track, layer)| {
                let is_best = match best.layer {
                    LayerIndex::BASE => size_of(track) == layer.size,
                    _ => remuxer.of == best,
                };
                layer.is_available() && !is_best
            });
            // The end of the broadcast is seen elsewhere.
            let _ = self.broadcast.set_offered(remuxer.place, is_offered);
        }
        self.described = Some((tracks, best));
    }

    /// Returns the layers that are to be read from the hub at `now`, given the tracks that sessions
    /// `read`: also those that were read until lately. `is_awaited`: whether readers are about to come, or
    /// frames are needed for the catalog.
    pub(super) fn wanted(
        &mut self,
        read: &[TrackIndex],
        is_awaited: bool,
        now: Instant,
    ) -> Vec<TrackLayer> {
        for remuxer in &mut self.remuxers {
            let is_base = remuxer.of.layer == LayerIndex::BASE;
            if read.contains(&remuxer.place) || is_awaited && is_base {
                remuxer.read_at = Some(now);
            }
        }
        let lingers = |it: &&TrackRemuxer| {
            let since = it.read_at.map(|at| now.saturating_duration_since(at));
            since.is_some_and(|since| since < LINGER)
        };
        let wanted = self.remuxers.iter().filter(lingers);
        wanted.map(|it| it.of).collect()
    }

    /// Reads the layers `wanted`, those that were not read before from their newest keyframe on.
    pub(super) fn read(
        &mut self,
        subscription: &mut Subscription,
        wanted: Vec<TrackLayer>,
        left_out: &Counter,
    ) {
        if wanted == self.read {
            return;
        }
        subscription.read(&wanted);
        let stream = Arc::clone(subscription.stream());
        for remuxer in &mut self.remuxers {
            if wanted.contains(&remuxer.of) && !self.read.contains(&remuxer.of) {
                remuxer.begin(&stream, &mut self.broadcast, left_out);
            }
        }
        self.read = wanted;
    }

    /// Notes that nothing is read from the hub any more.
    pub(super) fn leave(&mut self) {
        self.read.clear();
    }

    /// Requests keyframes of the video that is read.
    pub(super) fn request_keyframes(&self, stream: &Stream) {
        let video = self.remuxers.iter().filter(|it| !it.is_audio);
        for remuxer in video.filter(|it| self.read.contains(&it.of)) {
            stream.request_keyframe_of(remuxer.of);
        }
    }

    pub(super) fn write(&mut self, unit: &MediaUnit, left_out: &Counter) {
        let of = unit.track_layer();
        if let Some(remuxer) = self.remuxers.iter_mut().find(|it| it.of == of) {
            remuxer.write(unit, &mut self.broadcast, left_out);
        }
    }
}

/// Returns the tracks of the broadcast, the base layers first, and what copies each.
fn renditions(offered: &OfferedTracks<'_>) -> (Vec<TrackConfig>, Vec<TrackRemuxer>) {
    let stream = offered.stream;
    let (mut configs, mut remuxers) = (Vec::new(), Vec::new());
    let mut add = |config: TrackConfig, of: TrackLayer, kind: Kind| {
        remuxers.push(TrackRemuxer {
            place: TrackIndex(configs.len()),
            of,
            is_audio: kind == Kind::Audio,
            next: 0,
            read_at: None,
        });
        configs.push(config);
    };
    let carried = |it: &(TrackIndex, &Track)| moq::is_carried(it.1.codec);
    let tracks = TrackIndex::enumerate(offered.tracks.iter()).filter(carried);
    let named = tracks.enumerate().map(|(place, (index, track))| {
        let name = match offered.layout == TrackLayout::default() {
            true => format!("{}{place}", track.kind()),
            false => format!("{}{index}-{}", track.kind(), offered.layout),
        };
        (TrackIndex(place), index, track, name)
    });
    let named: Vec<_> = named.collect();
    for (_, index, track, name) in &named {
        add(
            base_config(track, *index, stream).named(name),
            (*index).into(),
            track.kind(),
        );
    }
    for (place, index, track, name) in named {
        for (layer, encoding) in track.layers.iter().enumerate() {
            let of = TrackLayer {
                track: index,
                layer: LayerIndex::of_encoding(layer),
            };
            let described = described_layer(track, encoding);
            if moq::is_carried(described.codec) {
                let measured = stream.figures(of, Instant::now()).bitrate;
                let rate = encoding.bitrate.unwrap_or(measured);
                let config = config(described, rate).as_layer_of(place);
                // Names sort behind that of the best one, for readers that take the first.
                let config = config.named(format!("{name}-{}", encoding.rid));
                add(config, of, track.kind());
            }
        }
    }
    (configs, remuxers)
}

/// Returns how the base layer of a track is sent.
fn base_config(track: &Track, index: TrackIndex, stream: &Stream) -> TrackConfig {
    let now = Instant::now();
    let rate = match (track.kind(), track.layers.is_empty()) {
        // The catalog gives the stream's whole bit rate for its video, since audio is a small part of
        // it.
        (Kind::Video, true) => stream.bitrate(now),
        (Kind::Video, false) => stream.figures(stream.preferred(index), now).bitrate,
        _ => Bitrate::default(),
    };
    let mut track = track.clone();
    // The size of the largest layer is that of the best.
    if size_of(&track).is_none()
        && let Some((width, height)) = track.layers.iter().filter_map(|it| it.size).max()
    {
        (track.video.width, track.video.height) = (width.into(), height.into());
    }
    config(track, rate)
}

fn config(track: Track, rate: Bitrate) -> TrackConfig {
    let config = TrackConfig::new(track).with_deadline(DEADLINE);
    match rate > Bitrate::default() {
        true => config.with_bitrate(rate),
        false => config,
    }
}

/// Returns the track that a layer of `track` is for its readers.
fn described_layer(track: &Track, layer: &Layer) -> Track {
    let (width, height) = layer.size.unwrap_or_default();
    match &layer.other_codec {
        Some(other) => (**other).clone(),
        None => Track {
            video: VideoParameters {
                width: width.into(),
                height: height.into(),
                ..VideoParameters::default()
            },
            ..track.clone().with_layers(Vec::new())
        },
    }
}

/// Returns the track and the description of a layer.
fn described(tracks: &[Track], of: TrackLayer) -> Option<(&Track, &Layer)> {
    let track = tracks.get(of.track.get())?;
    let place = usize::from(of.layer.0).checked_sub(1)?;
    Some((track, track.layers.get(place)?))
}

fn size_of(track: &Track) -> Option<(u16, u16)> {
    let side = |pixels: u32| u16::try_from(pixels).ok().filter(|it| *it > 0);
    side(track.video.width).zip(side(track.video.height))
}

/// Returns a media time of the stream, with the instant at which the stream's own clock had it due.
fn clock_of(stream: &Stream) -> Option<(MediaTime, Instant)> {
    let anchor = stream.latency_track();
    let latest = stream.since_keyframe(anchor).pop()?;
    Some((latest.time, latest.stamps.reference))
}
