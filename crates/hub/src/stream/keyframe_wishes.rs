//! Keyframes that viewers want of a stream's source, by layer.

use std::sync::atomic::{AtomicU32, Ordering};

use glassline_media::{LayerIndex, TrackLayer};

use super::Stream;

/// Layers of which a keyframe is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedKeyframes(u32);

impl WantedKeyframes {
    /// Returns the wish for a keyframe of the base layer.
    pub(super) const BASE: Self = Self(1);

    /// Returns whether no keyframe is wanted.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a keyframe of `layer` is wanted.
    pub fn has(self, layer: LayerIndex) -> bool {
        self.0 & bit(layer) != 0
    }
}

/// The wishes of all viewers, until the publisher takes them.
#[derive(Debug, Default)]
pub(super) struct KeyframeWishes(AtomicU32);

impl KeyframeWishes {
    /// Adds a wish; returns whether it is new.
    pub(super) fn add(&self, layer: LayerIndex) -> bool {
        self.0.fetch_or(bit(layer), Ordering::Relaxed) & bit(layer) == 0
    }

    /// Returns the wishes.
    pub(super) fn get(&self) -> WantedKeyframes {
        WantedKeyframes(self.0.load(Ordering::Relaxed))
    }

    /// Takes the wishes that came since the last call.
    pub(super) fn take(&self) -> WantedKeyframes {
        WantedKeyframes(self.0.swap(0, Ordering::Relaxed))
    }
}

impl Stream {
    /// Requests a keyframe of the base layer from the source; a source that cannot produce one ignores
    /// the request.
    pub fn request_keyframe(&self) {
        self.request_source_keyframe(LayerIndex::BASE);
    }

    /// Requests a keyframe of a track's layer: from the transcoder if the layer is made here, else
    /// from the source.
    pub fn request_keyframe_of(&self, layer: TrackLayer) {
        let mut of_source = layer.layer;
        if of_source != LayerIndex::BASE {
            let mut inner = self.inner.lock();
            if inner.is_rendition(layer) {
                inner.request_rendition_keyframe(layer);
                return;
            }
            of_source = inner.made.ladder.asked(layer);
        }
        self.request_source_keyframe(of_source);
    }

    fn request_source_keyframe(&self, layer: LayerIndex) {
        if self.keyframe_wishes.add(layer) {
            self.source_watchers.wake();
        }
    }
}

/// Returns the bit of a layer. Layers beyond those that publishers have share the last one.
fn bit(layer: LayerIndex) -> u32 {
    1 << layer.0.min(31)
}
