//! The newest units of rings that were emptied, for subscribers that have not read them yet.

use std::sync::Arc;
use std::time::Duration;

use glassline_media::MediaUnit;

use super::Inner;
use super::rendition::Rendition;
use crate::layout::TrackLayout;
use crate::ring::Ring;

/// Time of media that is kept for subscribers that read now and then.
const KEPT: Duration = Duration::from_millis(500);

/// The newest units that the stream has dropped, all of one layout.
#[derive(Debug, Default)]
pub(super) struct DroppedUnits {
    layout: TrackLayout,
    units: Vec<Arc<MediaUnit>>,
}

impl DroppedUnits {
    /// Returns the units of `layout`, ring by ring.
    pub(super) fn of(&self, layout: TrackLayout) -> &[Arc<MediaUnit>] {
        if self.layout == layout {
            &self.units
        } else {
            &[]
        }
    }
}

impl Inner {
    /// Empties all rings, whose units are of `layout`. The numbers of units and packets go on.
    pub(super) fn drop_units(&mut self, layout: TrackLayout) {
        let made = self.made.renditions.iter().map(Rendition::ring);
        let rings = self.rings.iter().flatten().chain(made);
        let units: Vec<_> = rings.flat_map(|ring| ring.newest(KEPT)).cloned().collect();
        // Rings that are empty already have left their units here before.
        if !units.is_empty() {
            self.subscribers.dropped = DroppedUnits { layout, units };
        }
        self.rings.iter_mut().flatten().for_each(Ring::clear);
        self.made.renditions.iter_mut().for_each(Rendition::clear);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{
        Codec, LayerIndex, MediaTime, Stamps, Track, TrackIndex, TrackLayer, UnitBuilder,
    };

    use super::super::{Stream, Subscription};
    use super::*;
    use crate::{Limits, Publisher, State, StreamName, Wake};

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    fn push(publisher: &mut Publisher, track: usize, at: Instant) {
        let mut builder = UnitBuilder::default();
        builder.push(b"payload");
        let stamps = Stamps::arrived(at);
        let unit = builder.build(TrackIndex(track), MediaTime::ZERO, true, stamps);
        let unit = unit.expect("has a packet");
        publisher.push(unit, at).expect("announced");
    }

    /// Returns track and number of each unit that was dropped unread, and of each that is there.
    fn read(subscription: &mut Subscription) -> [Vec<(usize, u64)>; 2] {
        let numbers = |units: Vec<Arc<MediaUnit>>| {
            let number = |unit: &Arc<MediaUnit>| (unit.track.get(), unit.index);
            units.iter().map(number).collect()
        };
        let (mut dropped, mut present) = (Vec::new(), Vec::new());
        subscription.poll_dropped(&mut dropped);
        subscription.poll(&mut present);
        [numbers(dropped), numbers(present)]
    }

    fn stream() -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("good");
        Stream::unlisted(name, Limits::default())
    }

    #[test]
    fn what_a_source_left_unread_is_read_behind_its_end_and_before_other_tracks() {
        let (stream, start) = (stream(), Instant::now());
        let tracks = || vec![Track::new(Codec::Vp8), Track::new(Codec::Opus)];
        let mut reader = stream.subscribe(Arc::new(NoWake));
        let mut base = stream.subscribe(Arc::new(NoWake));
        base.read(&[TrackLayer {
            track: TrackIndex(0),
            layer: LayerIndex::BASE,
        }]);
        let mut first = stream.publish(tracks(), start).expect("free");
        push(&mut first, 0, start);
        assert_eq!(read(&mut reader), [vec![], vec![(0, 0)]]);
        push(&mut first, 0, start);
        push(&mut first, 1, start);
        first.finish(State::Idle);
        assert_eq!(read(&mut reader), [vec![(0, 1), (1, 0)], vec![]]);
        assert_eq!(read(&mut reader), [vec![], vec![]], "once");
        assert_eq!(reader.missed(), 0);
        // The next source goes on with these tracks, and another one does not.
        let mut second = stream.publish(tracks(), start).expect("free");
        push(&mut second, 1, start);
        drop(second);
        let before = stream.layout();
        let other = vec![Track::new(Codec::Vp9)];
        let mut third = stream.publish(other, start).expect("free");
        push(&mut third, 0, start);
        assert_eq!(read(&mut reader)[0], [(1, 1)]);
        assert!(before < reader.layout());
        let read_base = read(&mut base);
        assert_eq!(
            read_base,
            [vec![], vec![(0, 2)]],
            "what it reads, {read_base:?}"
        );
        assert_eq!(reader.missed(), 0);
    }

    #[test]
    fn half_a_second_is_kept_and_the_rest_is_missed() {
        let (stream, start) = (stream(), Instant::now());
        let mut reader = stream.subscribe(Arc::new(NoWake));
        let mut publisher = stream
            .publish(vec![Track::new(Codec::Vp8)], start)
            .expect("free");
        assert_eq!(read(&mut reader), [vec![], vec![]]);
        for number in 0..4 {
            push(
                &mut publisher,
                0,
                start + Duration::from_millis(300) * number,
            );
        }
        publisher.finish(State::Idle);
        assert_eq!(read(&mut reader), [vec![(0, 2), (0, 3)], vec![]]);
        assert_eq!(reader.missed(), 2);
    }
}
