use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassline_media::{Codec, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder};

use super::*;
use crate::{Limits, SourceNote, State, Status};

mod knowledge;

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

/// The steps of a poll, with changes between them as other threads make them.
#[test]
fn changes_while_the_present_streams_are_read_are_told_once() {
    let hub = hub();
    let create = |text: &str| hub.create(name(text)).expect("room");
    let (cam, _) = (create("cam"), create("old"));
    let reader = Reader::new(&hub).events;
    assert!(hub.events.take(reader.queue).is_behind);
    cam.set_state(down());
    create("new");
    hub.remove("old");
    let present = reader.present();
    let viewer = cam.add_viewer();
    create("late");
    hub.remove("new");
    let mut unseen = hub.events.take(reader.queue).events;
    assert_eq!(unseen.len(), 6);
    keep_unseen(&mut unseen, &present);
    let told = unseen
        .iter()
        .map(|(change, it)| (it.name.as_str(), *change));
    let expected = [
        ("cam", StreamChange::FirstViewer),
        ("late", StreamChange::Listed),
        ("new", StreamChange::Removed),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    drop(viewer);
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
    // Another thread may find that nothing is left to tell.
    cam.tell_viewers();
    drop((second, demand));
    cam.tell_viewers();
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
    assert_eq!((changed.len(), changed[0].0), (1, StreamChange::Resumed));
    assert_eq!(changed[0].1.status, Status::Live);
}

#[test]
fn what_stands_in_is_told_until_the_source_is_heard_again() {
    use StreamChange::{Prospect, Resumed, Silent, StandIn};
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
    let expected = [Prospect, Silent, StandIn, Resumed, StandIn];
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
fn a_table_follows_streams_also_past_events_that_were_lost() {
    let hub = hub();
    let mut table = StreamTable::<u32>::default();
    let mut looks = |events: &mut StreamEvents| {
        let (mut happened, mut looks) = (Vec::new(), Vec::new());
        events.poll(&mut happened);
        for event in &happened {
            table.follow(event, |name, known, stream| {
                looks.push((name.to_string(), known, stream.is_some()));
                known.unwrap_or_default() + 1
            });
        }
        looks
    };
    let reader = || hub.events(Arc::new(WakeCount::default()));
    let one = hub.admit(name("one")).expect("room");
    let mut events = reader();
    let of = |name: &str, known, is_there| (name.to_owned(), known, is_there);
    assert_eq!(looks(&mut events), [of("one", None, true)]);
    one.set_state(State::Idle);
    hub.admit(name("two")).expect("room");
    let expected = [of("one", Some(1), true), of("two", None, true)];
    assert_eq!(looks(&mut events), expected);
    hub.remove("two");
    assert_eq!(looks(&mut events), [of("two", Some(1), false)]);
    hub.remove("one");
    hub.admit(name("three")).expect("room");
    // The events of that are lost.
    let expected = [of("three", None, true), of("one", Some(2), false)];
    assert_eq!(looks(&mut reader()), expected);
    assert_eq!(looks(&mut reader()), [of("three", Some(1), true)]);
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
