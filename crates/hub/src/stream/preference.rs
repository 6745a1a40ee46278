//! The layers that a source recommends: the best encoding of each track that is alive.

use glassline_media::{TrackIndex, TrackLayer};

use super::Stream;

/// The best encoding of each track, as the present source states.
#[derive(Debug, Default)]
pub(super) struct Preference {
    /// Tracks without an entry have none.
    best: Vec<TrackLayer>,
    /// Counts the changes.
    number: u64,
}

impl Preference {
    /// Returns a number that is another one after each change.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Forgets what the source before stated. Returns whether that changes anything.
    pub(super) fn clear(&mut self) -> bool {
        let is_changed = !self.best.is_empty();
        self.best.clear();
        self.number += u64::from(is_changed);
        is_changed
    }

    /// Sets the best encoding of a track. Returns whether that changes anything.
    pub(super) fn set(&mut self, layer: TrackLayer) -> bool {
        let known = self.best.iter_mut().find(|it| it.track == layer.track);
        match known {
            Some(known) if *known == layer => return false,
            Some(known) => *known = layer,
            None => self.best.push(layer),
        }
        self.number += 1;
        true
    }

    /// Has receivers choose anew, because layers other than the best have failed or come again.
    pub(super) const fn renew(&mut self) {
        self.number += 1;
    }

    pub(super) fn of(&self, track: TrackIndex) -> TrackLayer {
        let known = self.best.iter().find(|it| it.track == track);
        known.copied().unwrap_or(track.into())
    }
}

impl Stream {
    /// Returns the layer that a receiver which can move from layer to layer should get of a track: the
    /// best encoding that is alive, or the base layer of a track with a single encoding.
    pub fn preferred(&self, track: TrackIndex) -> TrackLayer {
        self.inner.lock().subscribers.preference.of(track)
    }

    /// States the best encoding of a track, if publisher `number` is the one whose units are published.
    pub(crate) fn prefer(&self, number: u64, layer: TrackLayer) {
        let mut inner = self.inner.lock();
        if inner.present() == Some(number) && inner.subscribers.preference.set(layer) {
            // Readers of a layer that ended would not be woken otherwise.
            inner.subscribers.wake_all();
        }
    }
}
