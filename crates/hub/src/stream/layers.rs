//! The layers of a track that somebody reads and those that are sent, for sources that fetch layers on
//! demand.

use std::sync::Arc;

use glassline_media::{Layer, LayerIndex, Track, TrackIndex, TrackLayer};

use super::{Inner, Stream};
use crate::ring::Ring;

/// The layers of a track that receivers read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayersRead(u32);

impl LayersRead {
    pub(super) fn add(&mut self, layer: LayerIndex) {
        if layer != LayerIndex::TRANSCODED {
            self.0 |= 1 << layer.0.min(31);
        }
    }

    /// Returns whether somebody reads `layer`.
    pub fn has(self, layer: LayerIndex) -> bool {
        self.0 & 1 << layer.0.min(31) != 0
    }

    /// Returns whether nobody reads a layer of the source.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Inner {
    /// Returns whether a track has several layers.
    pub(super) fn has_layers(&self) -> bool {
        self.rings.iter().any(|layers| layers.len() > 1)
    }

    /// Empties the rings of the layers that are not sent now, with whose keyframes nobody may begin any
    /// more.
    pub(super) fn drop_absent_layers(&mut self) {
        for (rings, track) in self.rings.iter_mut().zip(&*self.tracks) {
            let of_layers = rings.iter_mut().skip(1).zip(&track.layers);
            let absent = of_layers.filter(|(_, layer)| layer.absence.is_some());
            absent.map(|(ring, _)| ring).for_each(Ring::clear);
        }
    }
}

impl Inner {
    /// Describes the tracks anew, and wakes receivers. They choose among the layers anew if a layer has failed,
    /// or comes again after that.
    pub(super) fn redescribe(&mut self, tracks: Arc<[Track]>) {
        self.make_rings(&tracks);
        let available = |of: &[Track]| -> Vec<bool> {
            let layers = of.iter().flat_map(|it| &it.layers);
            layers.map(Layer::is_available).collect()
        };
        if available(&self.tracks) != available(&tracks) {
            self.subscribers.preference.renew();
        }
        self.tracks = tracks;
        self.subscribers.wake_all();
    }
}

impl Stream {
    /// Returns the layers of a track that somebody reads now. The stream's
    /// [watchers](Self::watch) are woken when receivers begin to read another layer.
    pub fn layers_read(&self, track: TrackIndex) -> LayersRead {
        self.inner.lock().subscribers.layers_read(track)
    }

    /// Returns the layer with which a receiver begins that is to get the
    /// [preferred](Self::preferred) one: that one, or while that is not sent, the layer of the same codec
    /// with the most bytes of those that come.
    pub fn beginning(&self, track: TrackIndex) -> TrackLayer {
        let inner = self.inner.lock();
        let preferred = inner.subscribers.preference.of(track);
        let layers = inner.tracks.get(track.get()).map(|it| &it.layers[..]);
        let layers = layers.unwrap_or_default().iter().enumerate();
        let layers = layers.map(|(place, it)| (LayerIndex::of_encoding(place), it));
        let is_sent = |layer: LayerIndex| {
            let mut layers = layers.clone();
            let described = layers.find(|(index, _)| *index == layer);
            described.is_none_or(|(_, it)| it.absence.is_none())
        };
        if is_sent(preferred.layer) {
            return preferred;
        }
        let present = layers.filter(|(_, it)| it.absence.is_none() && it.other_codec.is_none());
        let present = present.map(|(layer, _)| TrackLayer { track, layer });
        let with_keyframe = present.filter_map(|it| {
            let ring = inner.ring(it)?;
            ring.latest_keyframe().map(|_| (it, ring.bytes()))
        });
        let most = with_keyframe.max_by_key(|(_, bytes)| *bytes);
        most.map_or(preferred, |(layer, _)| layer)
    }
}
