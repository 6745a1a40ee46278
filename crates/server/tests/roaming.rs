//! A viewer's address changes, and with it the shard that receives its datagrams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_webrtc::Event;

use crate::peer::{Peer, ReceivedPacket, SOON, socket};
use crate::running::Running;
use crate::source::{AUDIO, Film, Source, VIDEO};

/// Longest time without media after a move. The server keeps a path for 0.9 s after it was
/// confirmed.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Number of viewers that move at the same time.
const WANDERERS: u64 = 4;

/// Moves a viewer to new ports until `enough`. Returns the longest pause.
fn wander(
    running: &Running,
    source: &Source,
    moved: &AtomicU64,
    enough: impl Fn() -> bool,
) -> Duration {
    let mut peer = Peer::joined(running);
    let mut longest = Duration::ZERO;
    while !enough() {
        // The path was confirmed by the last move: let the hold pass.
        peer.run_for(Duration::from_millis(950));
        peer.change_port();
        let began = Instant::now();
        assert!(peer.nominate(PAUSE_MAX), "no media at the new address");
        longest = longest.max(began.elapsed());
        moved.fetch_add(1, Ordering::Relaxed);
    }
    none_left_out(&peer, source);
    peer.session.close(Instant::now());
    assert_eq!(peer.delete().status, 200);
    longest
}

/// Checks that packets to an address just left were sent, although they are lost: the distance from
/// sequence number to published packet stays the same over all moves.
fn none_left_out(peer: &Peer<'_>, source: &Source) {
    for (kind, track) in [(Kind::Audio, AUDIO), (Kind::Video, VIDEO)] {
        let published = source.payloads(track);
        let places: HashMap<&[u8], u64> = published.iter().map(Vec::as_slice).zip(0..).collect();
        let mut received = peer.in_order(kind);
        // Parameter sets are the same each time.
        received.retain(|it| it.payload.len() > 100);
        let distance = |it: &ReceivedPacket| it.sequence - places[it.payload.as_slice()];
        let first = distance(received[0]);
        let other = received.iter().find(|it| distance(it) != first);
        let other = other.map(|it| it.sequence);
        assert_eq!(other, None, "{kind:?}: the packet before it was never sent");
    }
}

/// Viewers wander until there were `hand_overs`, each from the shard where it was
/// to that where its new address leads; with one shard until each has moved.
fn wander_among(shards: usize, hand_overs: u64) {
    let running = Running::start(shards);
    let source = Source::start(&running.stream(), Film::default());
    let until = Instant::now() + Duration::from_secs(14);
    let moved = AtomicU64::new(0);
    let counted = || running.total("viewer_moves_total");
    let enough = || {
        let seen = moved.load(Ordering::Relaxed) >= 2 * WANDERERS && counted() >= hand_overs;
        seen || Instant::now() > until
    };
    let longest = std::thread::scope(|scope| {
        let peers: Vec<_> = (0..WANDERERS)
            .map(|_| scope.spawn(|| wander(&running, &source, &moved, enough)))
            .collect();
        let pauses = peers.into_iter().map(|it| it.join().expect("no panic"));
        pauses.max().expect("some peers")
    });
    let (moved, counted) = (moved.into_inner(), counted());
    assert!(moved >= 2 * WANDERERS, "{moved} changes of address only");
    assert!(
        (hand_overs..=moved).contains(&counted),
        "{shards} shards: {counted} hand-overs in {moved} changes of address"
    );
    if shards == 1 {
        assert_eq!(counted, 0, "there is nobody to hand over to");
    }
    assert!(longest <= PAUSE_MAX, "a pause of {longest:?}");
    running.await_sessions(0, SOON);
    assert_eq!(running.stream().viewers(), 0);
}

#[test]
fn viewers_keep_their_media_while_they_move_between_four_shards() {
    wander_among(4, 16);
}

/// A hand-over back to where a viewer was before is as likely as not.
#[test]
fn viewers_keep_their_media_while_they_move_between_two_shards() {
    wander_among(2, 6);
}

#[test]
fn viewers_keep_their_media_while_they_move_on_one_shard() {
    wander_among(1, 0);
}

/// A phone behind a carrier's NAT is given new ports for hours.
#[test]
fn a_viewer_seen_from_many_addresses_still_moves_and_is_still_repaired() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    for _ in 0..40 {
        let other = socket();
        peer.check_from(&other, false);
        peer.run_for(Duration::from_millis(5));
    }
    peer.run_for(Duration::from_millis(950));
    peer.change_port();
    assert!(peer.nominate(PAUSE_MAX), "no media at the new address");
    // Its requests from there arrive.
    let before = running.total("retransmissions_total");
    peer.loss = 0.2;
    peer.run_for(Duration::from_secs(1));
    peer.loss = 0.0;
    let repaired = peer.run_until(SOON, |peer| {
        peer.in_order(Kind::Video)
            .last()
            .is_some_and(|it| it.repaired)
            || peer.of(Kind::Video).filter(|it| it.repaired).count() > 20
    });
    assert!(
        repaired,
        "{before} {}",
        running.total("retransmissions_total")
    );
    assert_eq!(running.sessions(), (1, 0));
    assert!(!source.payloads(VIDEO).is_empty());
}

/// A viewer with two networks: its first check lands on one shard, everything
/// else comes from another address and lands elsewhere.
#[test]
fn a_handshake_may_come_from_another_address_than_the_first_check() {
    let running = Running::start(4);
    let _source = Source::start(&running.stream(), Film::default());
    for _ in 0..8 {
        let mut peer = Peer::answered(&running);
        let other = socket();
        peer.check_from(&other, false);
        // The server's answer to that check says that it was adopted.
        other.set_read_timeout(Some(SOON)).expect("a timeout");
        other.recv_from(&mut [0; 512]).expect("an answer");
        peer.await_media();
        peer.session.close(Instant::now());
        peer.drain();
    }
    running.await_sessions(0, SOON);
}

/// A reloaded page may use the port of the page before, which did not close its session.
#[test]
fn a_new_viewer_may_use_the_address_of_one_that_vanished() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let first = Peer::joined(&running);
    let socket = first.socket.try_clone().expect("a descriptor");
    drop(first);
    let mut second = Peer::offering_from(&running, socket, str::to_owned).expect("answered");
    second.await_media();
    assert!(
        !second
            .events
            .iter()
            .any(|event| matches!(event, Event::Closed(_)))
    );
    assert_eq!(running.sessions(), (2, 0), "the first is not forgotten yet");
}

/// Its handshake is not disturbed by the server repeating itself to viewers that
/// gave up in the middle of theirs at the same address.
#[test]
fn a_new_viewer_may_use_the_address_of_ones_that_gave_up() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let place = socket();
    let here = || place.try_clone().expect("a descriptor");
    for _ in 0..30 {
        let mut first = Peer::offering_from(&running, here(), str::to_owned).expect("answered");
        // Its hello is on its way, and so are the server's answers: the first at
        // once, others after 1 s and 3 s.
        assert!(first.run_until(SOON, |peer| peer.session.peer().is_some()));
        std::thread::sleep(Duration::from_millis(30));
    }
    let end = Instant::now() + Duration::from_millis(3500);
    while Instant::now() < end {
        let mut peer = Peer::offering_from(&running, here(), str::to_owned).expect("answered");
        peer.await_media();
        assert_eq!(peer.delete().status, 200);
    }
}

/// A viewer that leaves during a hand-over between shards is gone for good.
#[test]
fn a_viewer_that_leaves_during_a_move_is_gone() {
    let running = Running::start(4);
    let _source = Source::start(&running.stream(), Film::default());
    // In its handshake, where a move needs no waiting: adopted by the shard of
    // the first address, then it chooses the second.
    for _ in 0..100 {
        let peer = Peer::answered(&running);
        let (first, second) = (socket(), socket());
        peer.check_from(&first, false);
        first.set_read_timeout(Some(SOON)).expect("a timeout");
        first.recv_from(&mut [0; 512]).expect("an answer");
        leave_while(&peer, || peer.check_from(&second, true));
    }
    // With media.
    let mut peer = Peer::joined(&running);
    peer.run_for(Duration::from_millis(950));
    peer.change_port();
    leave_while(&peer, || peer.check_from(&peer.socket, true));

    let end = Instant::now() + SOON;
    while running.stream().viewers() > 0 || running.sessions() != (0, 0) {
        assert!(
            Instant::now() < end,
            "served, but nobody knows of them: {:?}",
            running.sessions()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Deletes a viewer that does `other` at the same time.
fn leave_while(peer: &Peer<'_>, other: impl Fn()) {
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| peer.delete().status);
        for _ in 0..20 {
            other();
            std::thread::sleep(Duration::from_micros(50));
        }
        assert_eq!(leaving.join().expect("no panic"), 200);
    });
    assert_eq!(peer.delete().status, 404);
}
