//! Subscribers of a stream, each with the layers for which it is woken.

use std::sync::{Arc, Weak};

use glassline_media::{LayerIndex, TrackIndex, TrackLayer};

use super::layers::LayersRead;
use super::preference::Preference;
use crate::wake::Wake;

/// The layers that a subscription reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LayerSet {
    /// The base layer of every track.
    #[default]
    Base,
    /// The listed layers, and no other one.
    Only(Arc<[TrackLayer]>),
}

impl LayerSet {
    fn has(&self, of: TrackLayer) -> bool {
        match self {
            Self::Base => of.layer == LayerIndex::BASE,
            Self::Only(layers) => layers.contains(&of),
        }
    }
}

/// Number by which a stream knows a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubscriberNumber(u64);

struct Subscriber {
    number: SubscriberNumber,
    wake: Weak<dyn Wake>,
    layers: LayerSet,
}

/// The subscribers of one stream. Subscribers that were dropped are removed when they would be woken,
/// or when another one comes.
#[derive(Default)]
pub(super) struct Subscribers {
    list: Vec<Subscriber>,
    /// The layers that subscribers should read, as the source says.
    pub(super) preference: Preference,
    /// Number of subscribers so far.
    count: u64,
}

impl Subscribers {
    /// Adds a subscriber that reads the base layer of every track.
    pub(super) fn add(&mut self, wake: &Arc<dyn Wake>) -> SubscriberNumber {
        // Nothing may be published that would remove those that were dropped.
        self.list.retain(|it| it.wake.strong_count() > 0);
        let number = SubscriberNumber(self.count);
        self.count += 1;
        self.list.push(Subscriber {
            number,
            wake: Arc::downgrade(wake),
            layers: LayerSet::Base,
        });
        number
    }

    /// Sets the layers that a subscriber reads from now on.
    pub(super) fn set(&mut self, number: SubscriberNumber, layers: LayerSet) {
        let mut known = self.list.iter_mut();
        if let Some(subscriber) = known.find(|it| it.number == number) {
            subscriber.layers = layers;
        }
    }

    /// Returns the layers of a track that are read.
    pub(super) fn layers_read(&self, track: TrackIndex) -> LayersRead {
        let mut read = LayersRead::default();
        let present = self.list.iter().filter(|it| it.wake.strong_count() > 0);
        for subscriber in present {
            match &subscriber.layers {
                LayerSet::Base => read.add(LayerIndex::BASE),
                LayerSet::Only(layers) => {
                    let of_track = layers.iter().filter(|it| it.track == track);
                    of_track.for_each(|it| read.add(it.layer));
                }
            }
        }
        read
    }

    /// Wakes the readers of a layer.
    pub(super) fn wake_readers(&mut self, of: TrackLayer) {
        self.list.retain(|it| !it.layers.has(of) || wake(&it.wake));
    }

    /// Wakes everybody, because of something that is no unit.
    pub(super) fn wake_all(&mut self) {
        self.list.retain(|it| wake(&it.wake));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

/// Wakes a subscriber; returns false if it was dropped.
fn wake(subscriber: &Weak<dyn Wake>) -> bool {
    let alive = subscriber.upgrade();
    if let Some(alive) = &alive {
        alive.wake();
    }
    alive.is_some()
}
