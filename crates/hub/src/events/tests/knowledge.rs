//! Readers know of streams what the hub knows, whatever happens and whenever they come.

use std::collections::BTreeMap;
use std::thread::ScopedJoinHandle;

use proptest::prelude::*;

use super::*;
use crate::{Publisher, Stream, ViewerToken};

/// Publishers, viewers and readers that come at any moment: no change may fall between the streams that a
/// reader gets and the changes that follow, none is told twice, and no lock waits for another in a circle.
#[test]
fn nothing_is_lost_between_threads() {
    const TURNS: usize = 2_000;
    let hub = hub();
    let streams: Vec<_> = ["a", "b"]
        .map(|it| hub.create(name(it)).expect("room"))
        .into();
    let (mut known, mut reader) = (Known::default(), Reader::new(&hub));
    let view = |stream: &Arc<Stream>| (0..TURNS).for_each(|_| drop(stream.add_viewer()));
    let publish = |stream: &Arc<Stream>| {
        for turn in 0..TURNS {
            let codec = [Codec::Opus, Codec::Pcmu][turn % 2];
            let begun = stream.publish(tracks(codec), Instant::now());
            drop(begun.expect("free"));
        }
    };
    let make = || {
        for _ in 0..TURNS {
            hub.admit(name("c")).expect("room");
            hub.remove("c");
        }
    };
    std::thread::scope(|scope| {
        let mut working = vec![scope.spawn(make)];
        for stream in &streams {
            working.extend([(); 2].map(|()| scope.spawn(|| view(stream))));
            working.push(scope.spawn(|| publish(stream)));
        }
        while !working.iter().all(ScopedJoinHandle::is_finished) {
            (known, reader) = (Known::default(), Reader::new(&hub));
            for _ in 0..3 {
                reader.poll().iter().for_each(|it| known.apply(it));
            }
        }
    });
    reader.poll().iter().for_each(|it| known.apply(it));
    known.assert_equals(&hub);
}

/// Knowledge of a reader who believes the changes alone, beside the summaries.
#[derive(Debug, Default)]
struct Known(BTreeMap<Incarnation, KnownStream>);

#[derive(Debug)]
struct KnownStream {
    summary: Arc<StreamSummary>,
    source: Option<SourceNumber>,
    layout: crate::TrackLayout,
    has_viewers: bool,
}

impl KnownStream {
    fn new(summary: &Arc<StreamSummary>) -> Self {
        Self {
            summary: Arc::clone(summary),
            source: summary.source,
            layout: summary.layout,
            has_viewers: summary.viewers > 0,
        }
    }
}

impl Known {
    fn apply(&mut self, event: &StreamEvent) {
        let (change, stream) = match event {
            StreamEvent::Present(streams) => {
                let streams = streams.iter();
                self.0 = streams
                    .map(|it| (it.incarnation, KnownStream::new(it)))
                    .collect();
                return;
            }
            StreamEvent::Changed { change, stream } => (*change, stream),
        };
        if change == StreamChange::Listed {
            self.0.insert(stream.incarnation, KnownStream::new(stream));
            return;
        }
        let known = self.0.get_mut(&stream.incarnation);
        let known = known.unwrap_or_else(|| panic!("{event:?} of an unknown stream"));
        assert!(
            known.summary.revision <= stream.revision,
            "{event:?} is late"
        );
        known.summary = Arc::clone(stream);
        match change {
            StreamChange::Ready(number) => assert_eq!(known.source.replace(number), None),
            StreamChange::Gone(number) => assert_eq!(known.source.take(), Some(number)),
            StreamChange::Layout(layout) => known.layout = layout,
            StreamChange::FirstViewer => assert!(!std::mem::replace(&mut known.has_viewers, true)),
            StreamChange::LastViewer => assert!(std::mem::take(&mut known.has_viewers)),
            StreamChange::Removed => drop(self.0.remove(&stream.incarnation)),
            _ => {}
        }
    }

    #[track_caller]
    fn assert_equals(&self, hub: &Arc<Hub>) {
        let present = Reader::new(hub).events.present();
        assert_eq!(self.0.len(), present.len());
        for stream in present {
            let known = &self.0[&stream.incarnation];
            // Viewers between the first and the last one are no event.
            let summary = StreamSummary {
                viewers: stream.viewers,
                ..(*known.summary).clone()
            };
            assert_eq!(summary, *stream);
            let by_changes = (known.source, known.layout, known.has_viewers);
            assert_eq!(
                by_changes,
                (stream.source, stream.layout, stream.viewers > 0)
            );
        }
    }
}

/// The world of the property test: two names, with what holds their streams.
#[derive(Default)]
struct World {
    streams: [Option<Arc<Stream>>; 2],
    publishers: [Option<Publisher>; 2],
    viewers: [Vec<ViewerToken>; 2],
    seconds: u32,
}

/// A step of the property test.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Index of the name that the step is about.
    of: usize,
    /// Number of the change that is made to the stream of that name.
    kind: u8,
    /// Whether the reader of events looks afterwards.
    is_polled: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = (0..2_usize, 0..13_u8, 0..4_u8).prop_map(|(of, kind, polls)| Step {
        of,
        kind,
        is_polled: polls == 0,
    });
    prop::collection::vec(one, 0..120)
}

impl World {
    fn step(&mut self, hub: &Arc<Hub>, start: Instant, step: Step) {
        let of = step.of;
        let now = start + Duration::from_secs(1) * self.seconds;
        let codec = [Codec::Opus, Codec::Pcmu][usize::from(step.kind % 2)];
        let name = name(["one", "two"][of]);
        let Some(stream) = self.streams[of].clone() else {
            self.streams[of] = Some(hub.admit(name).expect("room"));
            return;
        };
        match step.kind {
            0 | 1 => {
                let begun = stream.take_over(SourceNote::default(), tracks(codec), now);
                self.publishers[of] = begun.ok();
            }
            2 => self.publishers[of] = None,
            3 | 4 => self.viewers[of].push(stream.add_viewer()),
            5 => drop(self.viewers[of].pop()),
            6 if self.publishers[of].is_none() => stream.set_state(down()),
            7 => self.seconds += 5,
            8 => drop(hub.sweep(now)),
            9 => {
                hub.delete(name.as_str());
                self.streams[of] = None;
            }
            10 => {
                if let Some(publisher) = &mut self.publishers[of] {
                    // A stream that was deleted refuses the unit.
                    let _ = publisher.push(unit(now), now);
                }
            }
            11 => {
                hub.remove(name.as_str());
                // Another stream may have the name by now.
                let _ = hub.list(&stream);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn the_present_streams_and_the_changes_after_them_give_the_state(
        steps in steps(),
        bound in 1..12_usize,
    ) {
        let (hub, start) = (hub(), Instant::now());
        let wake = Arc::new(WakeCount::default());
        let bound = Bound { events: bound, ..OF_ALL };
        let mut reader = StreamEvents::new(&hub, None, wake, bound);
        let (mut world, mut known) = (World::default(), Known::default());
        let mut out = Vec::new();
        for step in steps {
            world.step(&hub, start, step);
            if step.is_polled {
                reader.poll(&mut out);
                out.drain(..).for_each(|it| known.apply(&it));
                known.assert_equals(&hub);
            }
        }
        reader.poll(&mut out);
        out.iter().for_each(|it| known.apply(it));
        known.assert_equals(&hub);
    }
}
