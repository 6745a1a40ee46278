//! The same tests of a viewer with one, two and four shards.

use std::time::{Duration, Instant};

use glassline_media::Kind;

use crate::loss;
use crate::peer::{Peer, SOON, live};
use crate::running::Running;
use crate::source::{Film, Source};
use crate::start;

/// Ports that are tried until every shard has a viewer: that one of four gets
/// none of 60 happens once in ten million runs.
const VIEWERS_MAX: usize = 60;

/// Joins viewers until each shard serves one, the first ones with loss; all are
/// served whole, repaired, and forgotten when they leave.
fn everything_works_with(shards: usize) {
    let running = Running::start(shards);
    // A viewer that joins later starts from the one keyframe, since the test is shorter than the
    // interval.
    let film = Film {
        gop: 3000,
        frame_bytes: 4_000,
    };
    let source = Source::start(&running.stream(), film);
    source.await_published(|units| units.len() > 60);

    let mut peers = Vec::new();
    while !everyone_serves(&running, shards) {
        assert!(peers.len() < VIEWERS_MAX, "a shard that nobody lands on");
        let mut peer = Peer::joined(&running);
        peer.loss = 0.1;
        peers.push(peer);
    }
    live(&mut peers, Duration::from_millis(3000));
    for peer in &mut peers {
        peer.loss = 0.0;
    }
    live(&mut peers, Duration::from_millis(1000));

    let mut lost = 0;
    for peer in &peers {
        let (mine, missing) = loss::account(peer, &source);
        lost += mine;
        if missing == 0 {
            caught_up(peer);
        }
        assert!(missing * 50 <= mine, "{missing} of {mine} lost stay lost");
    }
    assert!(lost > 20, "only {lost} lost, the test tests nothing");
    assert!(running.total("retransmissions_total") >= lost as u64);
    assert_eq!(running.total("queue_dropped_frames_total"), 0);
    assert_eq!(running.stream().viewers(), peers.len());

    // One half says so by HTTP, the other by DTLS.
    for (place, peer) in peers.iter_mut().enumerate() {
        if place % 2 == 0 {
            let before = running.stream().viewers();
            assert_eq!(peer.delete().status, 200);
            assert!(running.stream().viewers() < before, "200 is gone");
        } else {
            peer.session.close(Instant::now());
            peer.drain();
        }
    }
    running.await_sessions(0, SOON);
    assert_eq!(running.stream().viewers(), 0);
}

fn everyone_serves(running: &Running, shards: usize) -> bool {
    let joins = running.metric("joins_total");
    assert_eq!(joins.len(), shards, "{joins:?}");
    joins.iter().all(|(_, count)| *count > 0)
}

/// The first frame is the keyframe, though it was published long before, and
/// every frame from there on can be taken apart.
fn caught_up(peer: &Peer<'_>) {
    let frames = start::frames(&peer.in_order(Kind::Video));
    assert!(frames[0].begins());
    assert!(frames.len() > 60, "{} frames only", frames.len());
    let after_loss = frames.iter().filter(|it| it.unit.after_loss).count();
    assert_eq!(after_loss, 0, "of {} frames", frames.len());
}

#[test]
fn everything_works_with_one_shard() {
    everything_works_with(1);
}

#[test]
fn everything_works_with_two_shards() {
    everything_works_with(2);
}

#[test]
fn everything_works_with_four_shards() {
    everything_works_with(4);
}
