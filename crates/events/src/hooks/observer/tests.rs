use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, Publisher, SourceNote, Stream, StreamEvents, ViewerToken, Wake};
use glassline_media::{Codec, Track};
use proptest::prelude::*;

use super::*;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A hub with the stream `cam`, and what hooks are told of it.
struct Scene {
    hub: Arc<Hub>,
    events: StreamEvents,
    observer: Observer<fn(&StreamName) -> bool>,
    start: Instant,
}

impl Scene {
    fn new(is_source: bool) -> Self {
        let hub = Arc::new(Hub::default());
        Self {
            events: hub.events(Arc::new(NoWake)),
            observer: Observer::new(match is_source {
                true => |_| true,
                false => |_| false,
            }),
            hub,
            start: Instant::now(),
        }
    }

    fn stream(&self) -> Arc<Stream> {
        self.named("cam")
    }

    fn named(&self, name: &str) -> Arc<Stream> {
        let name = StreamName::parse(name).expect("good");
        self.hub.admit(name).expect("room")
    }

    fn publish(&self, second: u64) -> Publisher {
        let at = self.start + Duration::from_secs(second);
        let tracks = vec![Track::audio(Codec::Opus, 1)];
        let begun = self.stream().take_over(SourceNote::default(), tracks, at);
        begun.expect("tracks")
    }

    fn told(&mut self) -> Vec<Event> {
        let mut happened = Vec::new();
        self.events.poll(&mut happened);
        self.observer.observe(&happened)
    }

    fn kinds(&mut self) -> Vec<EventKind> {
        self.told().iter().map(|event| event.kind).collect()
    }
}

fn down(detail: &str) -> State {
    State::Down {
        detail: detail.to_owned(),
    }
}

#[test]
fn publishers_and_viewers_come_and_go() {
    use EventKind::{FirstViewer, LastViewer, Publish, Unpublish};
    let mut scene = Scene::new(false);
    let stream = scene.stream();
    assert_eq!(scene.kinds(), []);
    let first = scene.publish(1);
    let viewers = [stream.add_viewer(), stream.add_viewer()];
    let told = scene.told();
    let kinds: Vec<_> = told.iter().map(|it| (it.kind, it.viewers)).collect();
    assert_eq!(kinds, [(Publish, 0), (FirstViewer, 1)]);
    let second = scene.publish(2);
    drop(first);
    assert_eq!(scene.kinds(), [Unpublish, Publish], "another publisher");
    second.finish(down("left"));
    assert_eq!(scene.kinds(), [Unpublish]);
    drop(viewers);
    assert_eq!(scene.kinds(), [LastViewer]);
    // Viewers of a stream that is removed are told to be gone with the stream.
    let (_viewer, _third) = (stream.add_viewer(), scene.publish(3));
    assert_eq!(scene.kinds(), [FirstViewer, Publish]);
    scene.hub.remove("cam");
    assert_eq!(scene.kinds(), [Unpublish, LastViewer]);
}

#[test]
fn sources_are_up_and_down_with_a_reason_and_rest_unnoticed() {
    use EventKind::{SourceDown, SourceUp};
    let mut scene = Scene::new(true);
    let stream = scene.stream();
    assert_eq!(scene.kinds(), []);
    stream.set_state(down("no route"));
    let told = scene.told();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].kind, SourceDown);
    assert_eq!(told[0].reason.as_deref(), Some("no route"));
    stream.set_state(down("refused"));
    assert_eq!(scene.kinds(), [], "it is still down");
    let source = scene.publish(1);
    assert_eq!(scene.kinds(), [SourceUp]);
    source.finish(State::Idle);
    assert_eq!(scene.kinds(), [], "it is fetched on demand");
    let source = scene.publish(2);
    assert_eq!(scene.kinds(), []);
    // The server fetches the source all the same while the source is being replaced.
    scene.observer.fetches = |_| false;
    let viewer = stream.add_viewer();
    assert_eq!(scene.kinds(), [EventKind::FirstViewer]);
    source.finish(down("away"));
    drop(viewer);
    assert_eq!(scene.kinds(), [SourceDown, EventKind::LastViewer]);
}

#[test]
fn rooms_are_private() {
    let mut scene = Scene::new(false);
    let voice = scene.named("call~a");
    let _viewer = voice.add_viewer();
    scene.hub.remove(voice.name().as_str());
    assert_eq!(scene.kinds(), []);
}

proptest! {
    /// Also where events were lost, and the present streams are told instead.
    #[test]
    fn events_of_a_stream_take_turns(
        steps in prop::collection::vec((0..6_u8, any::<bool>()), 0..60),
        misses in any::<bool>(),
    ) {
        let mut scene = Scene::new(false);
        let (mut publisher, mut viewers) = (None, Vec::<ViewerToken>::new());
        let (mut is_live, mut is_watched) = (false, false);
        for (number, (step, looks)) in (1..).zip(steps) {
            match step {
                0 => publisher = Some(scene.publish(number)),
                1 => publisher = None,
                2 => viewers.push(scene.stream().add_viewer()),
                3 => drop(viewers.pop()),
                4 => {
                    (publisher, viewers) = (None, Vec::new());
                    scene.hub.remove("cam");
                }
                _ if misses => scene.events = scene.hub.events(Arc::new(NoWake)),
                _ => {}
            }
            if !looks {
                continue;
            }
            for event in scene.told() {
                let (state, becomes) = match event.kind {
                    EventKind::Publish => (&mut is_live, true),
                    EventKind::Unpublish => (&mut is_live, false),
                    EventKind::FirstViewer => (&mut is_watched, true),
                    EventKind::LastViewer => (&mut is_watched, false),
                    other => return Err(TestCaseError::fail(other.as_str())),
                };
                prop_assert_ne!(*state, becomes, "{:?} twice", event.kind);
                *state = becomes;
            }
            prop_assert_eq!(is_live, publisher.is_some());
            prop_assert_eq!(is_watched, !viewers.is_empty());
        }
    }
}
