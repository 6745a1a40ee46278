//! The layers of a stream that a shard reads: those that its viewers get, and those to which they move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{TrackIndex, TrackLayer};
use glassline_runtime::Key;

use super::Worker;

/// Interval at which layers that nobody gets any more are looked for while a viewer moves.
const TRIM_INTERVAL: Duration = Duration::from_millis(100);

impl Worker {
    /// Lets the viewers of the stream at `index` choose their layers, because the stream prefers others
    /// than before.
    pub(super) fn choose_layers(&mut self, index: usize, now: Instant) {
        let subscription = &mut self.streams[index];
        let stream = Arc::clone(subscription.stream());
        let tracks = TrackIndex::first(stream.tracks().len());
        // The shard reads a layer before a viewer begins with what the hub keeps of the layer, so that
        // no unit is between.
        subscription.add(tracks.map(|track| stream.preferred(track)));
        for key in subscription.viewers.clone() {
            if let Some(peer) = self.peers.get_mut(key) {
                self.serving.begin(key);
                subscription.add(peer.wanted_layer());
                peer.choose_layers(now);
            }
        }
        self.serving.end();
        self.trim_layers(index, now);
    }

    /// Moves a viewer to the layer that its path calls for.
    #[cold]
    pub(super) fn move_viewer(&mut self, key: Key, layer: TrackLayer, now: Instant) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let mut streams = self.streams.iter_mut();
        if let Some(subscription) = streams.find(|it| Arc::ptr_eq(it.stream(), peer.stream())) {
            // Before the viewer begins with what the hub keeps of the layer, as above.
            subscription.add([layer]);
            peer.choose_layers(now);
            subscription.trim_at = Some(now + TRIM_INTERVAL);
        }
    }

    /// Stops to read the layers that no viewer of the stream at `index` needs.
    pub(super) fn trim_layers(&mut self, index: usize, now: Instant) {
        let mut layers: Vec<TrackLayer> = Vec::new();
        let mut is_moving = false;
        for key in &self.streams[index].viewers {
            let Some(peer) = self.peers.get_mut(*key) else {
                continue;
            };
            is_moving |= peer.is_moving();
            for layer in peer.layers() {
                if !layers.contains(&layer) {
                    layers.push(layer);
                }
            }
        }
        let subscription = &mut self.streams[index];
        subscription.read_only(layers);
        subscription.trim_at = is_moving.then(|| now + TRIM_INTERVAL);
    }
}
