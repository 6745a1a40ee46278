//! Panics of the listener, the sessions and the streams of QUIC.

use std::time::{Duration, Instant};

use glassline_hub::{State, StreamName};
use glassline_media::MediaTime;
use glassline_quic::moq::{BroadcastReader, Role, Session, TrackReader};
use tokio::runtime::Runtime;

use super::{await_that, fail, fail_at};
use crate::peer::SOON;
use crate::quic::{Camera, open, runtime, soon, track_configs};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// A client that reads the video of a stream.
struct Reader {
    runtime: Runtime,
    session: Session,
    /// Held, since its drop ends the subscription.
    _subscription: BroadcastReader,
    frames: TrackReader,
    last: Option<MediaTime>,
}

impl Reader {
    /// Opens a session and reads the video of [`STREAM`], when it is offered.
    fn open(running: &Running) -> Self {
        let runtime = runtime();
        let session = runtime.block_on(open(running, STREAM, Role::Subscriber));
        Self::of(runtime, session.expect("reading is open"))
    }

    fn of(runtime: Runtime, session: Session) -> Self {
        let (subscription, frames) = runtime.block_on(subscribe(&session));
        Self {
            runtime,
            session,
            _subscription: subscription,
            frames,
            last: None,
        }
    }

    /// Reads the stream in the same session again.
    fn again(self) -> Self {
        Self::of(self.runtime, self.session)
    }

    /// Reads `count` frames. Returns false if the track ends before.
    fn read(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let frame = self.runtime.block_on(soon(self.frames.next()));
            let Ok(Some(frame)) = frame else {
                return false;
            };
            let last = self.last.replace(frame.time);
            assert!(last.is_none_or(|last| last < frame.time), "in order");
        }
        true
    }
}

async fn subscribe(session: &Session) -> (BroadcastReader, TrackReader) {
    let end = Instant::now() + SOON;
    loop {
        let mut subscription = soon(session.subscribe(STREAM)).await.expect("it is there");
        // A broadcast that is about to end has no catalog.
        if let Ok(Some(catalog)) = soon(subscription.catalog()).await {
            let chosen = catalog.choose().expect("a video");
            if let Ok(frames) = soon(subscription.read(&chosen[0], SOON)).await {
                return (subscription, frames);
            }
        }
        assert!(Instant::now() < end, "the stream is not offered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_live(running: &Running, name: &str) -> bool {
    let stream = running.hub().stream(name);
    stream.is_some_and(|it| matches!(it.state(), State::Live { .. }))
}

#[test]
fn a_listener_that_panics_accepts_again_and_its_sessions_go_on() {
    let running = Running::start(1);
    let camera = live_camera(&running);
    let mut reader = Reader::open(&running);
    assert!(reader.read(10));
    for restarts in 1..=2 {
        fail(&running, "quic", "panic");
        await_that(&running, "the listener accepts again", |running| {
            running.of_part("part_restarts_total", "quic") == restarts
        });
        assert!(reader.read(60), "the session goes on");
        assert!(Reader::open(&running).read(10), "a newcomer");
    }
    assert!(!camera.is_over());
    assert_eq!(running.of_part("panics_total", "quic"), 2);
    assert_eq!(running.admin("/healthz").status, 200);
}

#[test]
fn a_session_that_panics_goes_alone() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 20);
    let mut other = Reader::open(&running);
    let unlucky = runtime();
    for panics in 1..=6 {
        fail_at(&running, "quic-session");
        let session = unlucky.block_on(open(&running, STREAM, Role::Subscriber));
        // Its client is told, and does not wait for a timeout.
        unlucky.block_on(soon(session.expect("it is granted before").ended()));
        await_that(&running, "nothing is left of it", |running| {
            running.of_part("panics_total", "quic") == panics && running.total("quic_sessions") == 1
        });
        assert!(other.read(10));
    }
    assert!(Reader::open(&running).read(10), "it may come back");
    assert_eq!(running.of_part("part_restarts_total", "quic"), 0);
}

/// A camera that publishes the stream of the tests, which is live.
fn live_camera(running: &Running) -> Camera {
    let camera = Camera::start(running, STREAM, "", track_configs());
    await_that(running, "it is live", |running| is_live(running, STREAM));
    camera
}

#[test]
fn a_publisher_whose_broadcast_panics_is_told_and_comes_back() {
    let running = Running::start(1);
    let other = Camera::start(&running, "other", "", track_configs());
    await_that(&running, "the other is live", |running| {
        is_live(running, "other")
    });
    fail_at(&running, "quic-broadcast");
    let ended = Camera::start(&running, STREAM, "", track_configs()).ended();
    assert!(ended.to_string().contains("cannot be carried"), "{ended}");
    assert!(!is_live(&running, STREAM));
    let camera = live_camera(&running);
    drop(camera);
    assert!(is_live(&running, "other"));
    assert!(!other.is_over());
    assert_eq!(running.of_part("panics_total", "quic"), 1);
}

#[test]
fn a_publisher_of_whom_one_track_panics_is_told_and_comes_back() {
    let running = Running::start(1);
    let camera = live_camera(&running);
    fail_at(&running, "quic-track");
    let ended = camera.ended();
    assert!(ended.to_string().contains("cannot be carried"), "{ended}");
    await_that(&running, "the stream is down", |running| {
        !is_live(running, STREAM)
    });
    let _camera = live_camera(&running);
    assert_eq!(running.of_part("panics_total", "quic"), 1);
}

#[test]
fn readers_of_a_stream_whose_offering_panics_see_its_end_and_read_it_again() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 20);
    let mut reader = Reader::open(&running);
    // More often than a part may start anew: each time it costs this stream only.
    for panics in 1..=6 {
        assert!(reader.read(10));
        fail_at(&running, "quic-stream");
        while reader.read(1) {}
        assert_eq!(running.of_part("panics_total", "quic"), panics);
        reader = reader.again();
    }
    assert!(reader.read(10));
    assert_eq!(running.of_part("part_restarts_total", "quic"), 0);
}

#[test]
fn readers_come_back_when_all_streams_are_offered_anew() {
    let running = Running::start(1);
    let camera = live_camera(&running);
    for restarts in 1..=2 {
        let mut reader = Reader::open(&running);
        assert!(reader.read(10));
        // There are two collections: of all streams, and of those that are no voices of rooms.
        fail_at(&running, "quic-collection");
        fail_at(&running, "quic-collection");
        // Their tasks have their next turn when a stream begins.
        let name = StreamName::parse(&format!("new-{restarts}")).expect("a name");
        let stream = running.hub().create(name).expect("room");
        let _source = Source::start(&stream, Film::default());
        let ended = reader.runtime.block_on(soon(reader.session.ended()));
        assert!(ended.to_string().contains("offered anew"), "{ended}");
        await_that(&running, "both are offered anew", |running| {
            running.of_part("part_restarts_total", "quic") == 2 * restarts
        });
    }
    assert!(Reader::open(&running).read(30));
    assert!(!camera.is_over(), "a publisher goes on");
}
