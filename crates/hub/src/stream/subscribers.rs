//! Subscribers of a stream, each with the layers for which it is woken.

use std::sync::Arc;

use glassline_media::{LayerIndex, TrackIndex, TrackLayer};

use super::dropped_units::DroppedUnits;
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
    wake: Arc<dyn Wake>,
    layers: LayerSet,
}

/// The subscribers of one stream.
#[derive(Default)]
pub(super) struct Subscribers {
    list: Vec<Subscriber>,
    /// The layers that subscribers should read, as the source says.
    pub(super) preference: Preference,
    /// The units that are gone from the rings, and not for those who had no time to read them.
    pub(super) dropped: DroppedUnits,
    /// Number of subscribers so far.
    count: u64,
}

impl Subscribers {
    /// Adds a subscriber that reads the base layer of every track.
    pub(super) fn add(&mut self, wake: Arc<dyn Wake>) -> SubscriberNumber {
        let number = SubscriberNumber(self.count);
        self.count += 1;
        self.list.push(Subscriber {
            number,
            wake,
            layers: LayerSet::Base,
        });
        number
    }

    /// Removes a subscriber, which reads no more.
    pub(super) fn remove(&mut self, number: SubscriberNumber) {
        self.list.retain(|it| it.number != number);
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
        for subscriber in &self.list {
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
    pub(super) fn wake_readers(&self, of: TrackLayer) {
        let readers = self.list.iter().filter(|it| it.layers.has(of));
        readers.for_each(|it| it.wake.wake());
    }

    /// Wakes everybody, because of something that is no unit.
    pub(super) fn wake_all(&self) {
        self.list.iter().for_each(|it| it.wake.wake());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
