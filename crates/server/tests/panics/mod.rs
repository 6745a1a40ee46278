//! Threads and tasks panic and hang: what that costs, and whom.

mod http;
mod media_tcp;
mod quic;
mod rooms;
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_config::DataAccess;
use glassline_media::Kind;
use glassline_webrtc::Event;

use crate::loss;
use crate::peer::{Peer, SOON, live};
use crate::rooms::join;
use crate::running::Running;
use crate::source::{Film, Source};

/// Ports that are tried until every shard has viewers.
const VIEWERS_MAX: usize = 60;

/// No payload comes twice, so that each packet is found among those that were published: the tests
/// are shorter than the interval of keyframes.
const FILM: Film = Film {
    gop: 3000,
    frame_bytes: 4_000,
};

/// Longest time until a thread that panicked serves again, on a machine that does much else. On one
/// that does not it takes milliseconds.
const AGAIN: Duration = SOON;

pub(crate) fn fail(running: &Running, thread: &str, kind: &str) {
    let thread = thread.replace(' ', "%20");
    let path = format!("/api/v1/faults?thread={thread}&kind={kind}");
    let response = running.admin_post(&path);
    assert_eq!(response.status, 202, "{}", response.body);
}

/// Makes the next task panic that reaches this place in the code.
pub(crate) fn fail_at(running: &Running, point: &str) {
    let path = format!("/api/v1/faults?point={point}&kind=panic");
    let response = running.admin_post(&path);
    assert_eq!(response.status, 202, "{}", response.body);
}

/// Waits until `done`, and returns the time that it took.
pub(crate) fn await_that(
    running: &Running,
    what: &str,
    mut done: impl FnMut(&Running) -> bool,
) -> Duration {
    let start = Instant::now();
    while !done(running) {
        assert!(start.elapsed() < SOON * 4, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// Does `work` while `viewers` read what comes, on a thread of their own: a socket keeps some tenths of
/// a second of a stream, and a busy machine takes longer for everything.
fn meanwhile<T>(viewers: &mut [Peer<'_>], work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                live(viewers, Duration::from_millis(20));
            }
        });
        // A panic of the work must end the thread, too.
        let done = catch_unwind(AssertUnwindSafe(work));
        is_done.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panicked| resume_unwind(panicked))
    })
}

/// Returns the number of viewers that joined on each shard.
fn joins(running: &Running) -> Vec<u64> {
    let joins = running.metric("joins_total");
    joins.into_iter().map(|(_, count)| count).collect()
}

/// Joins viewers until each of two shards has two of them. Returns the viewers of each shard.
fn on_both_shards(running: &Running) -> [Vec<Peer<'_>>; 2] {
    let (mut peers, mut places) = (Vec::new(), Vec::new());
    let count = |places: &[usize], shard| places.iter().filter(|it| **it == shard).count();
    while (0..2).any(|shard| count(&places, shard) < 2) {
        assert!(peers.len() < VIEWERS_MAX, "a shard that nobody lands on");
        let (peer, shard) = meanwhile(&mut peers, || {
            let before = joins(running);
            let peer = Peer::joined(running);
            (peer, usize::from(joins(running)[1] > before[1]))
        });
        peers.push(peer);
        places.push(shard);
    }
    let mut shards = [Vec::new(), Vec::new()];
    for (peer, shard) in peers.into_iter().zip(places) {
        shards[shard].push(peer);
    }
    shards
}

/// Checks that the viewer has every packet between its first and its last.
fn lost_nothing(peer: &Peer<'_>, source: &Source) {
    let (_, missing) = loss::account(peer, source);
    assert_eq!(missing, 0);
}

fn frames(peer: &Peer<'_>) -> usize {
    let video = peer.in_order(Kind::Video);
    video.iter().filter(|packet| packet.marker).count()
}

fn has_closed(peer: &Peer<'_>) -> bool {
    let is_end = |event: &Event| matches!(event, Event::Closed(_));
    peer.events.iter().any(is_end)
}

#[test]
fn a_panic_in_one_shard_costs_the_viewers_of_the_other_nothing() {
    let running = Running::start(2);
    let source = Source::start(&running.stream(), FILM);
    let [mut dead, mut living] = on_both_shards(&running);
    let sessions = running.sessions().0;
    let before: Vec<usize> = living.iter().map(frames).collect();

    let count = living.len();
    meanwhile(&mut living, || {
        fail(&running, "shard-0", "panic");
        let restarts = |running: &Running| {
            let parts = running.metric("part_restarts_total");
            parts.into_iter().find(|(part, _)| part == "part=\"shard\"")
        };
        let took = await_that(&running, "the shard starts anew", |running| {
            restarts(running).is_some_and(|(_, count)| count == 1)
        });
        assert!(took < AGAIN, "serves again after {took:?}");
        assert_eq!(running.total("panics_total"), 1);

        // The viewers of the shard that panicked are told, and nothing is left of their sessions.
        live(&mut dead, Duration::from_millis(300));
        for peer in &mut dead {
            assert!(peer.run_until(SOON, has_closed), "{:?}", peer.events);
            peer.delete().problem(404);
        }
        let left = u64::try_from(count).expect("few");
        assert_eq!(sessions, left + u64::try_from(dead.len()).expect("few"));
        running.await_sessions(left, SOON);
        assert_eq!(running.stream().viewers(), count);
    });

    // The viewers of the other shard have every packet, and more keep coming.
    let go_on = |peers: &[Peer<'_>]| {
        let mut peers = peers.iter().zip(&before);
        peers.all(|(peer, before)| frames(peer) > before + 30)
    };
    let end = Instant::now() + SOON;
    while !go_on(&living) && Instant::now() < end {
        live(&mut living, Duration::from_millis(100));
    }
    assert!(go_on(&living), "media goes on");
    for peer in &living {
        lost_nothing(peer, &source);
    }

    // Newcomers are served by both shards.
    let joined = joins(&running);
    let mut again = Vec::new();
    while joins(&running)[0] == joined[0] {
        assert!(again.len() < VIEWERS_MAX, "the shard adopts nobody");
        again.push(Peer::joined(&running));
    }
}

#[test]
fn a_panic_for_one_viewer_costs_that_viewer() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), FILM);
    let mut peers: Vec<Peer<'_>> = (0..4).map(|_| Peer::joined(&running)).collect();
    for panics in 1..=2 {
        fail(&running, "shard-0", "panic-serving");
        await_that(&running, "a peer is dropped", |running| {
            live(&mut peers, Duration::from_millis(50));
            running.total("panics_total") == panics
        });
    }
    running.await_sessions(2, SOON);
    assert_eq!(running.total("part_restarts_total"), 0);
    assert_eq!(running.stream().viewers(), 2);
    let counts: Vec<usize> = peers.iter().map(frames).collect();
    let served = |peers: &[Peer<'_>]| {
        let pairs = peers.iter().zip(&counts);
        pairs
            .filter(|(peer, before)| frames(peer) > **before + 30)
            .count()
    };
    let end = Instant::now() + SOON;
    while served(&peers) < 2 {
        assert!(Instant::now() < end, "{counts:?}");
        live(&mut peers, Duration::from_millis(100));
    }
    assert_eq!(served(&peers), 2, "{counts:?}");
    for peer in &peers {
        lost_nothing(peer, &source);
    }
    let newcomer = Peer::joined(&running);
    assert!(frames(&newcomer) > 0);
}

#[test]
fn a_shard_that_hangs_is_reported_and_no_offer_is_answered_meanwhile() {
    let running = Running::with(2, |config| config.webrtc.data.viewers = DataAccess::Write);
    let _source = Source::start(&running.stream(), FILM);
    drop(Peer::joined(&running));
    assert_eq!(running.admin("/healthz").body, "ok\n");
    assert_eq!(running.admin("/readyz").status, 200);

    fail(&running, "shard-1", "hang&ms=9000");
    await_that(&running, "the hanging shard is noticed", |running| {
        running.admin("/healthz").status == 503
    });
    let text = running.admin("/healthz").body;
    assert!(text.starts_with("shard-1 has made no progress"), "{text}");
    assert_eq!(running.admin("/readyz").status, 503);
    let health = running.admin_json("/healthz").json();
    let threads = health["threads"].as_array().expect("a list");
    let stuck = |name: &str| {
        let mut threads = threads.iter();
        threads.find(|it| it["thread"] == name).expect("the thread")["stuck"].clone()
    };
    assert_eq!(
        (stuck("shard-0"), stuck("shard-1")),
        (false.into(), true.into())
    );
    assert_eq!(stuck("rtsp-0"), false);
    let refusals = [
        Peer::offering(&running, str::to_owned).err(),
        Peer::data_publisher(&running).err(),
        join(&running, "team", &[]).err(),
    ];
    for refusal in refusals {
        let refusal = refusal.expect("no offer is answered");
        let problem = refusal.problem(503);
        let detail = problem["detail"].as_str().expect("a text");
        assert!(detail.contains("media would not flow"), "{detail}");
        assert!(refusal.header("retry-after").is_some());
    }
    assert_eq!(running.total("room_participants"), 0);

    await_that(&running, "the shard recovers", |running| {
        running.admin("/healthz").status == 200
    });
    drop(Peer::joined(&running));
}

#[test]
fn a_server_whose_shard_panics_again_and_again_fails_as_a_whole() {
    let running = Running::start(2);
    for panics in 1..=5 {
        fail(&running, "shard-0", "panic");
        await_that(&running, "the panic comes", |running| {
            running.total("panics_total") == panics
        });
    }
    assert_eq!(
        running.failed(),
        "shard-0 panicked five times within a minute"
    );
    assert_eq!(running.admin("/healthz").status, 503);
}
