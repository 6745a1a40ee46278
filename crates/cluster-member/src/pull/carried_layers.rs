//! The layers of a pulled stream that are carried: those that receivers of this server read.

use std::time::{Duration, Instant};

use glassline_hub::LayersRead;
use glassline_media::{LayerIndex, Track, TrackIndex, TrackLayer};

/// Time in which nobody reads a layer after which it is carried no more.
const UNREAD: Duration = Duration::from_secs(5);

/// The layers that are carried. Tracks with a single encoding are carried always, and the base layer of
/// others while nobody reads a layer, so that whoever comes finds something.
#[derive(Debug, Default)]
pub(super) struct CarriedLayers(Vec<CarriedLayer>);

#[derive(Clone, Copy, Debug)]
struct CarriedLayer {
    of: TrackLayer,
    /// When it was needed last.
    needed: Instant,
}

impl CarriedLayers {
    /// Returns the layers to carry of `tracks`, of which `read` tells the layers that are read.
    pub(super) fn look(
        &mut self,
        tracks: &[Track],
        read: impl Fn(TrackIndex) -> LayersRead,
        now: Instant,
    ) -> Vec<TrackLayer> {
        for (track, described) in TrackIndex::enumerate(tracks) {
            let read = read(track);
            let count = u8::try_from(described.layer_count()).unwrap_or(u8::MAX);
            let layers = (0..count).map(LayerIndex);
            let mut needed: Vec<_> = layers.filter(|it| read.has(*it)).collect();
            if needed.is_empty() || described.layers.is_empty() {
                needed = vec![LayerIndex::BASE];
            }
            needed
                .into_iter()
                .for_each(|layer| self.need(TrackLayer { track, layer }, now));
        }
        let is_needed = |it: &CarriedLayer| now.saturating_duration_since(it.needed) < UNREAD;
        let exists = |of: TrackLayer| {
            let track = tracks.get(of.track.get());
            track.is_some_and(|it| usize::from(of.layer.0) < it.layer_count())
        };
        self.0.retain(|it| is_needed(it) && exists(it.of));
        self.0.iter().map(|it| it.of).collect()
    }

    /// Returns when the next layer may be carried no more.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let unneeded = self.0.iter().filter(|it| it.needed < now);
        unneeded.map(|it| it.needed + UNREAD).min()
    }

    fn need(&mut self, of: TrackLayer, now: Instant) {
        match self.0.iter_mut().find(|it| it.of == of) {
            Some(known) => known.needed = now,
            None => self.0.push(CarriedLayer { of, needed: now }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glassline_hub::{Limits, Stream, StreamName, Subscription, Wake};
    use glassline_media::{Codec, Layer};

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    fn of(track: usize, layer: u8) -> TrackLayer {
        TrackLayer {
            track: TrackIndex(track),
            layer: LayerIndex(layer),
        }
    }

    #[test]
    fn layers_that_nobody_reads_are_carried_no_more_after_five_seconds() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let layers = vec![Layer::default(); 2];
        let tracks = [
            Track::new(Codec::Vp8).with_layers(layers),
            Track::audio(Codec::Opus, 2),
        ];
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        let reader = |layer| -> Subscription {
            let mut reader = stream.subscribe(Arc::new(NoWake));
            reader.read(&[of(0, layer)]);
            reader
        };
        let mut carried = CarriedLayers::default();
        let mut look = |second| {
            let read = |track| stream.layers_read(track);
            carried.look(&tracks, read, at(second))
        };
        assert_eq!(look(0), [of(0, 0), of(1, 0)], "for whoever comes");
        let high = reader(1);
        assert_eq!(look(60), [of(1, 0), of(0, 1)], "the base is nobody's");
        let low = reader(2);
        drop(high);
        assert_eq!(look(61), [of(1, 0), of(0, 1), of(0, 2)]);
        assert_eq!(look(64), [of(1, 0), of(0, 1), of(0, 2)]);
        assert_eq!(look(65), [of(1, 0), of(0, 2)]);
        drop(low);
        assert_eq!(look(66), [of(1, 0), of(0, 2), of(0, 0)]);
        assert_eq!(look(70), [of(1, 0), of(0, 0)]);
        assert_eq!(carried.deadline(at(71)), Some(at(75)));
        assert_eq!(carried.deadline(at(70)), None, "all are needed");
    }
}
