use std::sync::Arc;
use std::time::Instant;

use glassline_media::{Kind, MediaUnit, TrackIndex, TrackLayer};

use super::subscribers::{LayerSet, SubscriberNumber};
use super::{Demand, Inner, Stream};
use crate::layout::TrackLayout;
use crate::ring::Ring;
use crate::wake::Wake;

/// A layer that a subscription reads, and how far the subscription has read it.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    of: TrackLayer,
    /// Number of the next unit to read.
    next: u64,
}

/// One cursor for each layer that is read of a layout.
#[derive(Debug)]
struct Cursors {
    layout: TrackLayout,
    layers: LayerSet,
    list: Vec<Cursor>,
}

impl Cursors {
    /// Makes the cursors those of the stream's present layout.
    fn follow(&mut self, inner: &Inner) {
        if self.layout != inner.layout.number() {
            self.layout = inner.layout.number();
            self.list.clear();
            // The rings hold units of the new layout only, which are read from the first on.
            self.extend(inner, Ring::oldest_index);
        }
        if self.layers == LayerSet::Base && self.list.len() < inner.rings.len() {
            self.extend(inner, |_| 0);
        }
    }

    /// Adds the cursors that are missing, at the place in their rings that `next` returns. A layer
    /// without a ring is read from its first unit on.
    fn extend(&mut self, inner: &Inner, next: impl Fn(&Ring) -> u64) {
        let mut add = |of| {
            if !self.list.iter().any(|it| it.of == of) {
                let next = inner.ring(of).map_or(0, &next);
                self.list.push(Cursor { of, next });
            }
        };
        match &self.layers {
            LayerSet::Base => TrackIndex::first(inner.rings.len())
                .map(TrackLayer::from)
                .for_each(&mut add),
            LayerSet::Only(layers) => layers.iter().copied().for_each(&mut add),
        }
    }
}

/// A reader of one stream: reads every unit of a set of layers, in publishing order per layer. The
/// set is the base layer of every track until [`read`](Self::read) names another.
///
/// [`Stream::subscribe`] creates subscriptions.
#[derive(derive_more::Debug)]
#[debug("Subscription {{ stream: {:?}, cursors: {cursors:?}, .. }}", self.stream().name())]
pub struct Subscription {
    /// The stream that is read, which is needed while it is.
    demand: Demand,
    number: SubscriberNumber,
    /// Layout of the units that the latest poll returned.
    layout: TrackLayout,
    /// Number of the preference of layers at the latest poll.
    preference: u64,
    cursors: Cursors,
    /// Units that left a ring before they were read.
    missed: u64,
}

impl Stream {
    /// Subscribes to the units that are published from now on. `wake` is called whenever there is more to
    /// read, for as long as the subscription lives.
    pub fn subscribe(self: &Arc<Self>, wake: Arc<dyn Wake>) -> Subscription {
        let mut inner = self.inner.lock();
        let number = inner.subscribers.add(wake);
        let layout = inner.layout.number();
        let mut cursors = Cursors {
            layout,
            layers: LayerSet::Base,
            list: Vec::new(),
        };
        cursors.extend(&inner, Ring::next_index);
        let preference = inner.subscribers.preference.number();
        let has_layers = inner.has_layers();
        drop(inner);
        if has_layers {
            self.source_watchers.wake();
        }
        Subscription {
            demand: self.demand(),
            number,
            layout,
            preference,
            cursors,
            missed: 0,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let stream = self.demand.stream();
        let mut inner = stream.inner.lock();
        inner.subscribers.remove(self.number);
        let has_layers = inner.has_layers();
        drop(inner);
        if has_layers {
            // A source that fetches layers on demand looks which ones are read.
            stream.source_watchers.wake();
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

    /// Returns the number of the stream's [preference](Stream::preferred) at the latest
    /// [`poll`](Self::poll): another number means that the best layer of a track may be another one.
    pub const fn preference(&self) -> u64 {
        self.preference
    }

    /// Appends the units that were published since the last call to `out`, layer by layer. All of
    /// them belong to one [`layout`](Self::layout): once the stream has a new one, those of the old
    /// layout that were not read yet are gone.
    pub fn poll(&mut self, out: &mut Vec<Arc<MediaUnit>>) {
        let inner = self.demand.stream().inner.lock();
        self.cursors.follow(&inner);
        self.layout = self.cursors.layout;
        self.preference = inner.subscribers.preference.number();
        for cursor in &mut self.cursors.list {
            let Some(ring) = inner.ring(cursor.of) else {
                continue;
            };
            self.missed += ring.read_from(cursor.next, out);
            cursor.next = ring.next_index();
        }
    }

    /// Appends the units of the present [`layout`](Self::layout) that the stream dropped before this
    /// subscription had read them, ring by ring: at most the last half second of a source that ended, or
    /// of one with other tracks. To be called before [`poll`](Self::poll), by a subscriber that reads now
    /// and then and must lose nothing.
    pub fn poll_dropped(&mut self, out: &mut Vec<Arc<MediaUnit>>) {
        let inner = self.demand.stream().inner.lock();
        for unit in inner.subscribers.dropped.of(self.cursors.layout) {
            let mut cursors = self.cursors.list.iter_mut();
            let cursor = cursors.find(|it| it.of == unit.track_layer());
            if let Some(cursor) = cursor
                && cursor.next <= unit.index
            {
                self.missed += unit.index - cursor.next;
                cursor.next = unit.index + 1;
                out.push(Arc::clone(unit));
            }
        }
    }

    /// Reads these layers and no others from now on, also after a new layout. A layer that was not read
    /// before is read from its next unit on, and one that nobody publishes yet from its first. The
    /// subscriber is woken for these layers only.
    pub fn read(&mut self, layers: &[TrackLayer]) {
        let mut inner = self.demand.stream().inner.lock();
        self.cursors.follow(&inner);
        self.cursors.layers = LayerSet::Only(layers.into());
        let cursors = &mut self.cursors.list;
        cursors.retain(|it| layers.contains(&it.of));
        self.cursors.extend(&inner, Ring::next_index);
        inner
            .subscribers
            .set(self.number, self.cursors.layers.clone());
        let has_layers = inner.has_layers();
        drop(inner);
        if has_layers {
            // A source that fetches layers on demand looks whether another one is read.
            self.stream().source_watchers.wake();
        }
    }

    /// Goes back to the first keyframe of the present source that the stream still has, and on other tracks
    /// to what is decoded from then on; without video, to the first unit. A subscriber that must lose
    /// nothing of a source that it learns of late begins so. Units that were published at `after` or before
    /// are left out. The place stays where it is if there is no such keyframe, or if something stands in
    /// for the source.
    pub fn rewind(&mut self, after: Option<Instant>) {
        let inner = self.demand.stream().inner.lock();
        self.cursors.follow(&inner);
        if inner.source.is_none() || inner.stand_in.is_some() {
            return;
        }
        let is_new = |it: &&Arc<MediaUnit>| after.is_none_or(|after| it.stamps.published > after);
        let is_video = |of: TrackLayer| {
            let track = inner.tracks.get(of.track.get());
            track.is_some_and(|it| it.kind() == Kind::Video)
        };
        let keyframe = |of: TrackLayer| {
            let mut units = inner.ring(of)?.of_source().filter(is_new);
            units.find(|it| it.keyframe && it.first)
        };
        let cursors = &mut self.cursors.list;
        let has_video = cursors.iter().any(|it| is_video(it.of));
        let videos = cursors.iter().filter(|it| is_video(it.of));
        let from = videos
            .filter_map(|it| keyframe(it.of))
            .map(|it| it.decode_time())
            .min();
        if has_video && from.is_none() {
            return;
        }
        for cursor in cursors {
            let first = match is_video(cursor.of) {
                true => keyframe(cursor.of),
                false => inner.ring(cursor.of).and_then(|ring| {
                    let mut units = ring.of_source().filter(is_new);
                    units.find(|unit| from.is_none_or(|it| unit.decode_time() >= it))
                }),
            };
            cursor.next = first.map_or(cursor.next, |it| it.index.min(cursor.next));
        }
    }

    /// Number of units that left the ring before this subscription read them.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, StreamName};
    use glassline_media::{Codec, Layer, LayerIndex, MediaTime, Stamps, Track, UnitBuilder};
    use std::sync::atomic::{AtomicUsize, Ordering};
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

    fn read(subscription: &mut Subscription) -> Vec<(u8, u64)> {
        let mut out = Vec::new();
        subscription.poll(&mut out);
        let numbers = out.iter().map(|unit| (unit.layer.0, unit.index));
        numbers.collect()
    }

    /// To name a layer that is read already must skip nothing that was not read yet.
    #[test]
    fn another_layer_begins_with_its_next_unit_and_the_same_layer_goes_on() {
        let (stream, start) = (layered(), Instant::now());
        let mut publisher = stream.publish(track(), start).expect("free");
        let mut subscription = stream.subscribe(Arc::new(NoWake));
        let mut push = |of| {
            publisher.push(unit(of, start), start).expect("announced");
        };
        (0..2).for_each(&mut push);
        subscription.read(&[layer(0, 0)]);
        assert_eq!(read(&mut subscription), [(0, 0)], "nothing was skipped");
        subscription.read(&[layer(0, 1)]);
        (0..2).for_each(&mut push);
        assert_eq!(read(&mut subscription), [(1, 1)]);
        subscription.read(&[layer(0, 1), layer(0, 2), layer(0, 9), layer(3, 0)]);
        (0..3).for_each(&mut push);
        let both = [(1, 2), (2, 0)];
        assert_eq!(read(&mut subscription), both, "others do not exist");
        assert_eq!(subscription.missed(), 0);
        assert!(format!("{subscription:?}").contains("layers"));
    }

    #[test]
    fn a_reader_that_comes_late_goes_back_to_a_keyframe_of_the_present_source_and_its_audio() {
        let (stream, start) = (layered(), Instant::now());
        let tracks = || vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
        let at = |ms: u64| start + std::time::Duration::from_millis(ms);
        let push = |publisher: &mut crate::Publisher, track: usize, ms: u64, keyframe: bool| {
            let mut builder = UnitBuilder::default();
            builder.push(b"payload");
            let time = MediaTime::from_nanos(ms.cast_signed() * 1_000_000);
            let stamps = Stamps::arrived(at(ms));
            let unit = builder.build(TrackIndex(track), time, keyframe, stamps);
            publisher
                .push(unit.expect("has a packet"), at(ms))
                .expect("announced");
        };
        let rewound = |after: Option<u64>| {
            let mut subscription = stream.subscribe(Arc::new(NoWake));
            subscription.rewind(after.map(at));
            let mut out = Vec::new();
            subscription.poll(&mut out);
            let places = out.iter().map(|unit| (unit.track.get(), unit.index));
            places.collect::<Vec<_>>()
        };
        let mut first = stream.publish(tracks(), start).expect("free");
        push(&mut first, 0, 0, true);
        push(&mut first, 1, 0, true);
        drop(first);
        let mut second = stream.publish(tracks(), at(100)).expect("free");
        push(&mut second, 1, 110, true);
        assert_eq!(rewound(None), [], "the keyframe is of the source before");
        for (ms, keyframe) in [(120, true), (140, false), (160, true), (180, false)] {
            push(&mut second, 0, ms, keyframe);
            push(&mut second, 1, ms, true);
        }
        let all = [0, 1].map(|track| (0..4).map(move |unit| (track, 1 + track as u64 + unit)));
        let all: Vec<_> = all.into_iter().flatten().collect();
        assert_eq!(rewound(None), all);
        let from_second_keyframe = [(0, 3), (0, 4), (1, 4), (1, 5)];
        assert_eq!(rewound(Some(140)), from_second_keyframe);
        assert_eq!(rewound(Some(160)), [], "the keyframe was read before");
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_subscriber_is_woken_for_the_layers_that_it_reads_and_for_what_is_no_unit() {
        let (stream, start) = (layered(), Instant::now());
        let mut publisher = stream.publish(track(), start).expect("free");
        let wakes = [(); 3].map(|()| Arc::new(Wakes::default()));
        let [base, high, both] = wakes.clone();
        let _base = stream.subscribe(base);
        let [mut high, mut both] = [high, both].map(|it| stream.subscribe(it));
        high.read(&[layer(0, 2)]);
        both.read(&[layer(0, 1), layer(0, 2)]);
        let mut counted = |of| {
            publisher.push(unit(of, start), start).expect("announced");
            wakes.each_ref().map(|it| it.0.swap(0, Ordering::Relaxed))
        };
        assert_eq!(counted(0), [1, 0, 0]);
        assert_eq!(counted(1), [0, 0, 1]);
        assert_eq!(counted(2), [0, 1, 1]);
        drop(publisher);
        let counts = wakes.each_ref().map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!(counts, [1; 3], "the publisher left");
    }

    #[test]
    fn the_layers_that_are_read_stay_those_in_a_new_layout() {
        let (stream, start) = (layered(), Instant::now());
        let first = stream.publish(track(), start).expect("free");
        let mut chosen = stream.subscribe(Arc::new(NoWake));
        let mut plain = stream.subscribe(Arc::new(NoWake));
        chosen.read(&[layer(0, 2)]);
        drop(first);
        let other = Track::new(Codec::Vp9).with_layers(vec![Layer::default(); 2]);
        let mut second = stream.publish(vec![other], start).expect("free");
        for of in 0..3 {
            second.push(unit(of, start), start).expect("announced");
        }
        assert_eq!(read(&mut chosen), [(2, 0)]);
        assert_eq!(read(&mut plain), [(0, 0)]);
    }

    #[test]
    fn subscribers_that_left_are_forgotten_although_nothing_is_published() {
        let stream = layered();
        let of_a_shard: Arc<dyn Wake> = Arc::new(NoWake);
        for _ in 0..3 {
            drop(stream.subscribe(Arc::clone(&of_a_shard)));
        }
        assert!(!stream.layers_read(TrackIndex(0)).has(LayerIndex::BASE));
        let _held = [(); 2].map(|()| stream.subscribe(Arc::clone(&of_a_shard)));
        assert_eq!(
            stream.inner.lock().subscribers.len(),
            2,
            "those that are held"
        );
    }
}
