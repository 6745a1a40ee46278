use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassline_media::{Codec, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder};
use proptest::prelude::*;

use super::*;
use crate::{Limits, Publisher, SourceNote, State, Status, Stream, ViewerToken};

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn name(name: &str) -> StreamName {
    StreamName::parse(name).expect("a good name")
}

fn tracks(codec: Codec) -> Vec<Track> {
    vec![Track::audio(codec, 1)]
}

fn unit(at: Instant) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    builder.push(b"payload");
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(at));
    unit.expect("has a packet")
}

fn down() -> State {
    State::Down {
        detail: "no route".to_owned(),
    }
}

fn hub() -> Arc<Hub> {
    Arc::new(Hub::default())
}

/// A reader with the number of its wakes.
struct Reader {
    events: StreamEvents,
    wakes: Arc<WakeCount>,
}

impl Reader {
    fn new(hub: &Arc<Hub>) -> Self {
        let wakes = Arc::new(WakeCount::default());
        let events = hub.events(Arc::clone(&wakes) as Arc<dyn Wake>);
        Self { events, wakes }
    }

    fn poll(&mut self) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        self.events.poll(&mut out);
        out
    }

    /// Reads the streams that there are, and returns their names.
    #[track_caller]
    fn present(&mut self) -> Vec<String> {
        let events = self.poll();
        let [StreamEvent::Present(streams)] = &events[..] else {
            panic!("{events:?}");
        };
        streams.iter().map(|it| it.name.to_string()).collect()
    }

    /// Reads changes, and returns each with the name of its stream.
    #[track_caller]
    fn changes(&mut self) -> Vec<(String, StreamChange)> {
        let changed = self.changed().into_iter();
        changed
            .map(|(change, it)| (it.name.to_string(), change))
            .collect()
    }

    #[track_caller]
    fn changed(&mut self) -> Vec<(StreamChange, Arc<StreamSummary>)> {
        let events = self.poll().into_iter().map(|event| match event {
            StreamEvent::Changed { change, stream } => (change, stream),
            other => panic!("{other:?}"),
        });
        events.collect()
    }

    fn woken(&self) -> usize {
        self.wakes.0.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn a_late_reader_gets_the_present_streams_and_then_each_change() {
    use StreamChange::{Gone, Listed, Ready, Removed, State as OtherState};
    let (hub, now) = (hub(), Instant::now());
    let cam = hub.create(name("cam")).expect("room");
    let film = hub.unlisted(name("film"));
    let mut reader = Reader::new(&hub);
    assert_eq!(reader.woken(), 1, "for the streams that there are");
    assert_eq!(reader.present(), ["cam"]);
    assert_eq!(reader.poll(), [], "nothing has happened since");

    let note = SourceNote {
        protocol: "camera",
        left_out: Vec::new(),
    };
    let publisher = cam.publish_as(note, tracks(Codec::Opus), now);
    assert_eq!(reader.woken(), 1);
    let changed = reader.changed();
    let (change, live) = &changed[0];
    let number = live.source.expect("it publishes");
    assert_eq!((changed.len(), *change), (1, Ready(number)));
    assert_eq!((live.status, live.protocol), (Status::Live, Some("camera")));
    publisher.expect("free").finish(down());
    let changed = reader.changed();
    assert_eq!((changed.len(), changed[0].0), (1, Gone(number)));
    let gone = &changed[0].1;
    assert_eq!((&gone.state, gone.status), (&down(), Status::Unreachable));
    assert_eq!((gone.source, gone.is_published), (None, false));

    cam.set_state(State::Idle);
    drop(film.publish(tracks(Codec::Opus), now).expect("free"));
    hub.list(&film).expect("the name is free");
    hub.list(&film).expect("it is listed already");
    assert!(hub.remove("film").is_some() && hub.remove("film").is_none());
    film.set_state(State::Idle);
    let of = |name: &str, change| (name.to_owned(), change);
    let expected = [
        of("cam", OtherState),
        of("film", Listed),
        of("film", Removed),
    ];
    assert_eq!(reader.changes(), expected, "film, while it is listed");
    assert!(hub.delete("cam"));
    assert_eq!(reader.changes(), [of("cam", Removed)]);
    drop(reader);
    assert!(hub.events.is_empty(), "nobody reads");
}

#[test]
fn a_reader_that_falls_behind_gets_the_present_streams_and_holds_up_nobody() {
    let hub = hub();
    let cam = hub.create(name("cam")).expect("room");
    let (mut slow, mut fast) = (Reader::new(&hub), Reader::new(&hub));
    assert_eq!(
        (slow.present(), fast.present().len()),
        (vec!["cam".to_owned()], 1)
    );
    for _ in 0..OF_ALL.events {
        cam.set_state(State::Idle);
    }
    assert_eq!(fast.changes().len(), OF_ALL.events, "as many as may wait");
    cam.set_state(down());
    hub.create(name("late")).expect("room");
    assert_eq!(fast.changes().len(), 2);
    slow.woken();
    hub.create(name("later")).expect("room");
    assert_eq!(slow.woken(), 1, "also while it is behind");
    assert_eq!(slow.present(), ["cam", "late", "later"]);
    assert_eq!(slow.poll(), [], "nothing is told twice");
    cam.set_state(State::Idle);
    assert_eq!(slow.changes(), [("cam".to_owned(), StreamChange::State)]);
    // The bytes of long reasons are bounded, too.
    let detail = "x".repeat(OF_ALL.bytes / 4);
    for _ in 0..5 {
        let detail = detail.clone();
        cam.set_state(State::Down { detail });
    }
    assert_eq!(slow.present().len(), 3);
}

#[test]
fn the_end_of_an_old_source_or_stream_is_told_from_a_new_one() {
    use StreamChange::{Gone, Layout, Listed, Ready, Removed};
    let (hub, now) = (hub(), Instant::now());
    let old = hub.admit(name("cam")).expect("room");
    let mut reader = Reader::new(&hub);
    reader.present();
    let note = SourceNote::default;
    let first = old.publish(tracks(Codec::Opus), now).expect("free");
    let second = old.take_over(note(), tracks(Codec::Pcmu), now);
    let second = second.expect("by right");
    drop(first);
    let changed = reader.changed();
    let kinds: Vec<_> = changed.iter().map(|(change, _)| *change).collect();
    let [Ready(one), Gone(ended), Layout(layout), Ready(two)] = kinds[..] else {
        panic!("{kinds:?}");
    };
    assert!(one == ended && one < two, "{kinds:?}");
    assert_eq!(layout, old.layout());
    assert_eq!(changed[3].1.source, Some(two));
    hub.remove("cam");
    let new = hub.admit(name("cam")).expect("room");
    drop(second);
    let changed = reader.changed();
    let kinds: Vec<_> = changed.iter().map(|(change, _)| *change).collect();
    assert_eq!(kinds, [Removed, Listed], "the old stream is over");
    assert!(changed[0].1.incarnation < changed[1].1.incarnation);
    drop(new);
}

#[test]
fn the_first_and_the_last_viewer_are_told_and_those_between_are_not() {
    let hub = hub();
    let cam = hub.create(name("cam")).expect("room");
    let mut reader = Reader::new(&hub);
    reader.present();
    // Whoever only needs the stream is no viewer.
    let demand = cam.demand();
    let first = cam.add_viewer();
    let second = cam.add_viewer();
    drop(first);
    drop((second, demand));
    let changed = reader.changed();
    let told: Vec<_> = changed.iter().map(|(it, of)| (*it, of.viewers)).collect();
    let expected = [
        (StreamChange::FirstViewer, 1),
        (StreamChange::LastViewer, 0),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_source_that_is_silent_for_long_is_told_once_and_so_is_its_next_unit() {
    let (hub, start) = (hub(), Instant::now());
    let second = Duration::from_secs(1);
    let cam = hub.create(name("cam")).expect("room");
    let mut publisher = cam.publish(tracks(Codec::Opus), start).expect("free");
    let mut reader = Reader::new(&hub);
    reader.present();
    hub.sweep(start + second * 7);
    assert_eq!(reader.poll(), []);
    hub.sweep(start + second * 8);
    hub.sweep(start + second * 9);
    let changed = reader.changed();
    assert_eq!((changed.len(), changed[0].0), (1, StreamChange::Silent));
    assert_eq!(changed[0].1.status, Status::Hangs);
    let at = start + second * 10;
    for _ in 0..2 {
        publisher.push(unit(at), at).expect("announced");
    }
    let changed = reader.changed();
    assert_eq!((changed.len(), changed[0].0), (1, StreamChange::Heard));
    assert_eq!(changed[0].1.status, Status::Live);
}

#[test]
fn what_stands_in_is_told_until_the_source_is_heard_again() {
    use StreamChange::{Heard, Prospect, Silent, StandIn};
    let (hub, start) = (hub(), Instant::now());
    let silence = Duration::from_secs(8);
    let cam = hub.create(name("cam")).expect("room");
    let mut publisher = cam.publish(tracks(Codec::Opus), start).expect("free");
    let mut reader = Reader::new(&hub);
    reader.present();
    for _ in 0..2 {
        cam.set_prospect(crate::Prospect::StandIn);
    }
    let at = start + silence;
    hub.sweep(at);
    let shown = cam.stand_in(tracks(Codec::Opus), "placeholder".to_owned(), silence, at);
    publisher.push(unit(at), at).expect("announced");
    drop(shown.expect("it hangs"));
    let changes = reader.changes().into_iter().map(|(_, change)| change);
    let expected = [Prospect, Silent, StandIn, Heard, StandIn];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_reader_of_one_stream_is_neither_woken_nor_told_of_others() {
    let hub = hub();
    let cam = hub.create(name("cam")).expect("room");
    let wakes = Arc::new(WakeCount::default());
    let waker = Arc::clone(&wakes) as Arc<dyn Wake>;
    let mut reader = Reader {
        events: hub.events_of(name("film"), waker),
        wakes,
    };
    assert_eq!((reader.woken(), reader.present().len()), (1, 0));
    cam.set_state(State::Idle);
    assert_eq!(reader.woken(), 0);
    hub.admit(name("film")).expect("room");
    assert_eq!(reader.woken(), 1);
    let listed = ("film".to_owned(), StreamChange::Listed);
    assert_eq!(reader.changes(), [listed]);
}

#[test]
fn a_stream_that_a_sweep_removes_is_told() {
    let (hub, now) = (hub(), Instant::now());
    drop(hub.admit(name("live")).expect("room"));
    let mut reader = Reader::new(&hub);
    reader.present();
    hub.sweep(now);
    assert_eq!(reader.poll(), []);
    hub.sweep(now + Limits::default().departed_span);
    let removed = ("live".to_owned(), StreamChange::Removed);
    assert_eq!(reader.changes(), [removed]);
}

/// Publishers, viewers and a reader on threads of their own: no change may fall between the streams that
/// the reader gets and the changes that follow, and no lock may wait for another in a circle.
#[test]
fn nothing_is_lost_between_threads() {
    const TURNS: usize = 2_000;
    let hub = hub();
    let streams: Vec<_> = ["a", "b"]
        .map(|it| hub.create(name(it)).expect("room"))
        .into();
    let mut known = Known::default();
    let mut reader = Reader::new(&hub);
    std::thread::scope(|scope| {
        let working: Vec<_> = streams
            .iter()
            .flat_map(|stream| {
                let viewing = scope.spawn(|| (0..TURNS).for_each(|_| drop(stream.add_viewer())));
                let publishing = scope.spawn(|| {
                    for turn in 0..TURNS {
                        let codec = [Codec::Opus, Codec::Pcmu][turn % 2];
                        let now = Instant::now();
                        drop(stream.publish(tracks(codec), now).expect("free"));
                    }
                });
                [viewing, publishing]
            })
            .collect();
        let made = scope.spawn(|| {
            for _ in 0..TURNS {
                hub.admit(name("c")).expect("room");
                hub.remove("c");
            }
        });
        while !working.iter().chain([&made]).all(|it| it.is_finished()) {
            reader.poll().iter().for_each(|it| known.apply(it));
            // A reader that comes at any moment knows as much.
            let mut late = Reader::new(&hub);
            late.poll()
                .iter()
                .for_each(|it| Known::default().apply_late(it));
        }
    });
    reader.poll().iter().for_each(|it| known.apply(it));
    known.assert_equals(&hub);
}

/// What a reader knows who believes the changes alone, and what the summaries say.
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
            StreamChange::FirstViewer => known.has_viewers = true,
            StreamChange::LastViewer => known.has_viewers = false,
            StreamChange::Removed => drop(self.0.remove(&stream.incarnation)),
            _ => {}
        }
    }

    fn apply_late(mut self, event: &StreamEvent) {
        if matches!(event, StreamEvent::Present(_)) {
            self.apply(event);
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

impl World {
    fn step(&mut self, hub: &Arc<Hub>, start: Instant, (of, step): (usize, u8)) {
        let now = start + Duration::from_secs(1) * self.seconds;
        let codec = [Codec::Opus, Codec::Pcmu][usize::from(step % 2)];
        let name = name(["one", "two"][of]);
        let Some(stream) = self.streams[of].clone() else {
            self.streams[of] = Some(hub.admit(name).expect("room"));
            return;
        };
        match step {
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
        steps in prop::collection::vec((0..2_usize, 0..13_u8, 0..4_u8), 0..120),
        bound in 1..12_usize,
    ) {
        let (hub, start) = (hub(), Instant::now());
        let wake = Arc::new(WakeCount::default());
        let bound = Bound { events: bound, ..OF_ALL };
        let mut reader = StreamEvents::new(&hub, None, wake, bound);
        let (mut world, mut known) = (World::default(), Known::default());
        let mut out = Vec::new();
        for (of, step, polls) in steps {
            world.step(&hub, start, (of, step));
            if polls == 0 {
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
