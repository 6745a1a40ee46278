use std::fmt;
use std::sync::Arc;

use glassline_media::{LayerIndex, MediaUnit, TrackIndex, TrackLayer};

use super::{Demand, Inner, Stream};
use crate::layout::TrackLayout;
use crate::ring::Ring;
use crate::wake::Wake;

/// Layer of a track that a subscription reads, and how far the subscription has read it.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    layer: LayerIndex,
    /// Number of the next unit to read.
    next: u64,
}

impl Cursor {
    /// Creates a cursor behind the newest unit of `ring`.
    fn at(layer: LayerIndex, ring: &Ring) -> Self {
        Self {
            layer,
            next: ring.next_index(),
        }
    }

    /// Creates a cursor before the oldest unit of `ring`, the ring of a track's base layer.
    fn at_oldest(ring: &Ring) -> Self {
        Self {
            layer: LayerIndex::BASE,
            next: ring.oldest_index(),
        }
    }
}

/// One cursor for each track of a layout.
#[derive(Debug)]
struct Cursors {
    layout: TrackLayout,
    tracks: Vec<Cursor>,
}

impl Cursors {
    /// Makes the cursors those of the stream's present layout.
    fn follow(&mut self, inner: &Inner) {
        let unread = Cursor {
            layer: LayerIndex::BASE,
            next: 0,
        };
        if self.layout != inner.layout.number() {
            self.layout = inner.layout.number();
            self.tracks.clear();
            // The rings hold units of the new layout only, which are read from the first on.
            let base = inner.rings.iter().filter_map(|layers| layers.first());
            self.tracks.extend(base.map(Cursor::at_oldest));
        }
        let count = inner.rings.len().max(self.tracks.len());
        self.tracks.resize(count, unread);
    }
}

/// A reader of one stream: reads every unit of one layer of each track, in publishing order per
/// track. It reads the base layer until [`select`](Self::select) chooses another, and again from
/// the beginning of a new [`TrackLayout`] on.
///
/// [`Stream::subscribe`] creates subscriptions.
pub struct Subscription {
    /// The stream that is read, which is needed while it is.
    demand: Demand,
    /// Layout of the units that the latest poll returned.
    layout: TrackLayout,
    cursors: Cursors,
    /// Units that left a ring before they were read.
    missed: u64,
    /// Keeps the waker alive, to which the stream has a weak reference.
    wake: Arc<dyn Wake>,
}

impl Stream {
    /// Subscribes to what is published from now on. `wake` is called whenever there is more to
    /// read, for as long as the subscription lives.
    pub fn subscribe(self: &Arc<Self>, wake: Arc<dyn Wake>) -> Subscription {
        let mut inner = self.lock();
        // Remove subscribers that were dropped while nothing was published.
        inner.subscribers.retain(|it| it.strong_count() > 0);
        inner.subscribers.push(Arc::downgrade(&wake));
        let base = inner.rings.iter().filter_map(|layers| layers.first());
        let tracks = base.map(|ring| Cursor::at(LayerIndex::BASE, ring));
        let tracks = tracks.collect();
        let layout = inner.layout.number();
        drop(inner);
        Subscription {
            demand: self.demand(),
            layout,
            cursors: Cursors { layout, tracks },
            missed: 0,
            wake,
        }
    }
}

impl Subscription {
    /// Returns the stream that is read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.demand.stream()
    }

    /// Returns the layout of the units that the latest [`poll`](Self::poll) returned; before the
    /// first poll, the layout at the time of the subscription.
    pub fn layout(&self) -> TrackLayout {
        self.layout
    }

    /// Appends the units that were published since the last call to `out`, track by track. All of
    /// them belong to one [`layout`](Self::layout): once the stream has a new one, those of the old
    /// layout that were not read yet are gone.
    pub fn poll(&mut self, out: &mut Vec<Arc<MediaUnit>>) {
        let inner = self.demand.stream().lock();
        self.cursors.follow(&inner);
        self.layout = self.cursors.layout;
        for (track, cursor) in TrackIndex::enumerate(&mut self.cursors.tracks) {
            let layer = cursor.layer;
            let Some(ring) = inner.ring(TrackLayer { track, layer }) else {
                continue;
            };
            self.missed += ring.read_from(cursor.next, out);
            cursor.next = ring.next_index();
        }
    }

    /// Switches a track to another layer, from the next unit of that layer on. Returns false if
    /// the stream has no such layer; the subscription then stays on the layer that it reads.
    ///
    /// The transcoded layer of a track ([`LayerIndex::TRANSCODED`]) may be selected before anybody
    /// publishes it.
    pub fn select(&mut self, layer: TrackLayer) -> bool {
        let mut inner = self.demand.stream().lock();
        self.cursors.follow(&inner);
        let cursors = &mut self.cursors.tracks;
        let selected = cursors.get(layer.track.get()).map(|it| it.layer);
        if layer.layer == LayerIndex::TRANSCODED && selected != Some(LayerIndex::TRANSCODED) {
            inner.read_rendition(layer.track, &self.wake);
        }
        let cursor = cursors.get_mut(layer.track.get());
        let Some((ring, cursor)) = inner.ring(layer).zip(cursor) else {
            return false;
        };
        if cursor.layer != layer.layer {
            *cursor = Cursor::at(layer.layer, ring);
        }
        true
    }

    /// Number of units that left the ring before this subscription read them.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("stream", self.stream().name())
            .field("cursors", &self.cursors)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, StreamName};
    use glassline_media::{Codec, Layer, MediaTime, Stamps, Track, UnitBuilder};
    use std::time::Instant;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    fn layered() -> Arc<Stream> {
        let name = StreamName::parse("layers").expect("good");
        Stream::unlisted(name, Limits::default())
    }

    fn track() -> Vec<Track> {
        vec![Track::new(Codec::Vp8).with_layers(vec![Layer::default(), Layer::default()])]
    }

    fn unit(layer: u8, at: Instant) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(b"payload");
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(at));
        let mut unit = unit.expect("has a packet");
        unit.layer = LayerIndex(layer);
        unit
    }

    fn layer(track: usize, layer: u8) -> TrackLayer {
        TrackLayer {
            track: TrackIndex(track),
            layer: LayerIndex(layer),
        }
    }

    /// To choose the layer that is read already must skip nothing that was not read yet.
    #[test]
    fn another_layer_begins_with_its_next_unit_and_the_same_layer_goes_on() {
        let (stream, start) = (layered(), Instant::now());
        let mut publisher = stream.publish(track(), start).expect("free");
        let mut subscription = stream.subscribe(Arc::new(NoWake));
        let mut push = |of| {
            publisher.push(unit(of, start), start).expect("announced");
        };
        let read = |subscription: &mut Subscription| {
            let mut out = Vec::new();
            subscription.poll(&mut out);
            let numbers = out.iter().map(|unit| (unit.layer.0, unit.index));
            numbers.collect::<Vec<_>>()
        };
        (0..2).for_each(&mut push);
        assert!(subscription.select(layer(0, 0)));
        assert_eq!(read(&mut subscription), [(0, 0)], "nothing was skipped");
        assert!(subscription.select(layer(0, 1)));
        (0..2).for_each(&mut push);
        assert_eq!(read(&mut subscription), [(1, 1)]);
        assert!(!subscription.select(layer(0, 2)), "no such layer");
        assert!(!subscription.select(layer(1, 0)), "no such track");
        (0..2).for_each(&mut push);
        assert_eq!(read(&mut subscription), [(1, 2)]);
        assert_eq!(subscription.missed(), 0);
        assert!(format!("{subscription:?}").contains("layers"));
    }

    #[test]
    fn subscribers_that_left_are_forgotten_although_nothing_is_published() {
        let stream = layered();
        for _ in 0..3 {
            drop(stream.subscribe(Arc::new(NoWake)));
        }
        let _held = [(); 2].map(|()| stream.subscribe(Arc::new(NoWake)));
        assert_eq!(stream.lock().subscribers.len(), 2, "those that are held");
    }
}
