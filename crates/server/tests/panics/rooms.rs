//! Panics while rooms, and messages beside streams, are served.

use std::time::Duration;

use glassline_config::DataAccess;
use glassline_media::Kind;
use glassline_sctp::Reliability;
use glassline_sctp::channel::Message;

use super::{await_that, fail, fail_at, has_closed};
use crate::data::{got, open, send, until};
use crate::peer::{Peer, SOON, live};
use crate::rooms::{hearing, join, joined, others, you};
use crate::running::{Running, STREAM};

fn restarted(running: &Running, restarts: u64) {
    await_that(running, "the shard starts anew", |running| {
        running.of_part("part_restarts_total", "shard") == restarts
    });
}

#[test]
fn participants_of_a_shard_that_panics_leave_their_rooms_and_come_back() {
    let running = Running::start(1);
    for restarts in 1..=2 {
        let mut talker = joined(&running, "team");
        let listener = joined(&running, "team");
        let voice = format!("call~team~{}", you(&talker));
        let mut leg = hearing(&listener, &you(&talker));
        let mut said = 0..;
        let heard =
            |talker: &mut Peer<'_>, leg: &mut Peer<'_>, said: &mut dyn Iterator<Item = u32>| {
                assert!(talker.say(480 * said.next().expect("endless"), b"hello"));
                leg.run_for(Duration::from_millis(20));
                leg.of(Kind::Audio).count() > 0
            };
        await_that(&running, "the talker is heard", |_| {
            heard(&mut talker, &mut leg, &mut said)
        });
        assert_eq!(running.total("room_participants"), 2);

        fail(&running, "shard-0", "panic");
        restarted(&running, restarts);
        // All are told, and nothing is left of them.
        let mut all = [talker, listener, leg];
        live(&mut all, Duration::from_millis(100));
        for peer in &mut all {
            assert!(peer.run_until(SOON, has_closed), "{:?}", peer.events);
        }
        running.await_sessions(0, SOON);
        assert_eq!(running.total("rooms"), 0);
        assert_eq!(running.total("room_participants"), 0);
        running.get(&all[0].location).problem(404);
        await_that(&running, "the voice is gone", |running| {
            running.hub().stream(&voice).is_none()
        });
    }
    drop(joined(&running, "team"));
}

#[test]
fn publishers_of_messages_of_a_shard_that_panics_come_back() {
    let running = Running::with(1, |config| config.webrtc.data.viewers = DataAccess::Write);
    let _stream = running.stream();
    for restarts in 1..=2 {
        let mut publisher = Peer::data_publisher(&running).expect("no other one is left");
        let telemetry = open(&mut publisher, "telemetry", Reliability::Reliable);
        let mut viewer = Peer::with_data_alone(&running);
        open(&mut viewer, "telemetry", Reliability::Reliable);
        send(&mut publisher, telemetry, Message::text("3 m/s")).expect("open");
        let arrived = until(&mut [&mut publisher, &mut viewer], |all| {
            !got(all[1]).is_empty()
        });
        assert!(arrived, "messages pass");

        fail(&running, "shard-0", "panic");
        restarted(&running, restarts);
        let mut all = [publisher, viewer];
        live(&mut all, Duration::from_millis(100));
        for peer in &mut all {
            assert!(peer.run_until(SOON, has_closed), "{:?}", peer.events);
            peer.delete().problem(404);
        }
        running.await_sessions(0, SOON);
        let listed = running.admin("/api/v1/webrtc/data-publishers").body;
        assert!(!listed.contains(STREAM), "{listed}");
    }
}

#[test]
fn a_join_that_panics_leaves_nobody_in_the_room() {
    let running = Running::with(1, |config| config.limits.handshake_s = 2);
    let witness = joined(&running, "team");
    fail_at(&running, "room-join");
    let refused = join(&running, "team", &[]).err().expect("it panicked");
    refused.problem(500);
    let count = || others(&witness, None)["others"].as_array().map(Vec::len);
    // Nobody has the name of the session, so it ends like one whose handshake never comes.
    await_that(&running, "the room has the witness only", |_| {
        count() == Some(0)
    });
    let mut witness = witness;
    assert!(!witness.run_until(Duration::from_millis(50), has_closed));
    drop(joined(&running, "team"));
    assert_eq!(running.of_part("panics_total", "http"), 1);
}
