//! Tests of partial reliability, stream resets and interleaving.

use glassline_sim::Loss;

use super::*;
use crate::{Direction, Reliability, ResetError, SendError};

fn limited(retransmissions: u32) -> SendOptions {
    SendOptions {
        reliability: Reliability::Limited { retransmissions },
        ..SendOptions::default()
    }
}

#[test]
fn messages_that_may_be_lost_hold_up_nobody() {
    for interleaving in [true, false] {
        for unordered in [true, false] {
            let config = Config {
                interleaving,
                ..Config::default()
            };
            let lossy = Conditions::delayed(MS * 20).with_loss(Loss::Random(0.1));
            let mut world = World::new(&config, lossy, 21).connected();
            let options = SendOptions {
                unordered,
                ..limited(0)
            };
            for number in 0..400 {
                let now = world.now();
                let side = &mut world.a.association;
                side.send(1, 53, numbered(number, 2500), options, now)
                    .expect("room");
                side.send(2, 53, numbered(number, 100), SendOptions::default(), now)
                    .expect("room");
                world.run_for(MS * 5);
            }
            world.run_for(Duration::from_secs(5));
            let on = |stream| world.b.messages.iter().filter(move |it| it.1 == stream);
            let (kept, all) = (on(1).count(), on(2).count());
            assert_eq!(all, 400, "reliable ones all arrive");
            assert!((200..400).contains(&kept), "three packets each: {kept}");
            let ordered = on(1).map(|it| number_of(&it.2)).is_sorted();
            assert!(ordered || unordered);
            let report = world.a.association.report();
            assert_eq!(400 - kept as u64, report.abandoned, "{report:?}");
            assert_eq!(report.unacknowledged, 0);
            let receiver = world.b.association.report();
            assert_eq!(receiver.unassembled, 0, "pieces are let go");
        }
    }
}

#[test]
fn a_message_outlives_its_time_neither_waiting_nor_lost() {
    let mut world = World::new(
        &Config::default(),
        Conditions::limited(
            glassline_media::Bitrate::from_bps(1_000_000),
            MS * 10,
            MS * 50,
        ),
        22,
    )
    .connected();
    let options = SendOptions {
        reliability: Reliability::Timed { lifetime: MS * 200 },
        ..SendOptions::default()
    };
    // Four times as much as the path carries.
    for number in 0..500 {
        let now = world.now();
        world
            .a
            .association
            .send(1, 53, numbered(number, 5000), options, now)
            .expect("room");
        world.run_for(MS * 10);
    }
    world.run_for(Duration::from_secs(3));
    let report = world.a.association.report();
    let arrived = world.b.messages.len();
    assert!((80..200).contains(&arrived), "{arrived}, {report:?}");
    assert_eq!(report.buffered, 0);
    assert_eq!(report.abandoned + arrived as u64, 500);
}

#[test]
fn streams_end_and_begin_again() {
    for interleaving in [true, false] {
        let config = Config {
            interleaving,
            ..Config::default()
        };
        let lossy = Conditions::delayed(MS * 20).with_loss(Loss::Random(0.2));
        let mut world = World::new(&config, lossy, 23).connected();
        for round in 0..10 {
            let now = world.now();
            let side = &mut world.a.association;
            for number in 0..10 {
                side.send(
                    4,
                    53,
                    numbered(10 * round + number, 3000),
                    SendOptions::default(),
                    now,
                )
                .expect("room");
            }
            side.reset_streams(&[4, 9], now).expect("supported");
            assert_eq!(
                side.send(4, 53, numbered(0, 10), SendOptions::default(), now),
                Err(SendError::Resetting { stream: 4 })
            );
            world.a.events.clear();
            world.b.events.clear();
            let done = world.run_until(Duration::from_secs(30), |world| {
                let low = Event::BufferedLow { stream: 4 };
                world.a.events.retain(|event| *event != low);
                !world.a.events.is_empty() && !world.b.events.is_empty()
            });
            assert!(
                done,
                "round {round}: {:?} {:?}",
                world.a.events, world.b.events
            );
            // Stream 9 had no data to wait for, and may be in a request of its own.
            world.run_for(Duration::from_secs(10));
            for (side, expected) in [
                (&world.a, Direction::Outgoing),
                (&world.b, Direction::Incoming),
            ] {
                let mut reset: Vec<u16> = Vec::new();
                let low = Event::BufferedLow { stream: 4 };
                for event in side.events.iter().filter(|event| **event != low) {
                    let Event::StreamsReset { direction, streams } = event else {
                        panic!("{event:?}");
                    };
                    assert_eq!(*direction, expected);
                    reset.extend(streams);
                }
                reset.sort_unstable();
                assert_eq!(reset, [4, 9]);
            }
        }
        assert_eq!(world.b.messages.len(), 100);
        assert!(
            world
                .b
                .messages
                .iter()
                .map(|it| number_of(&it.2))
                .is_sorted()
        );
    }
}

#[test]
fn a_stream_that_does_not_exist_is_not_reset() {
    let config = Config {
        streams: 10,
        ..Config::default()
    };
    let mut world = World::new(&config, Conditions::delayed(MS), 24).connected();
    let now = world.now();
    let error = ResetError::NoSuchStream {
        stream: 10,
        streams: 10,
    };
    assert_eq!(world.a.association.reset_streams(&[3, 10], now), Err(error));
    assert_eq!(
        world
            .a
            .association
            .send(10, 53, numbered(0, 9), SendOptions::default(), now),
        Err(SendError::NoSuchStream {
            stream: 10,
            streams: 10
        })
    );
}

#[test]
fn a_small_message_passes_a_large_one_if_interleaved() {
    let mut waits = [Duration::ZERO; 2];
    for (index, interleaving) in [true, false].into_iter().enumerate() {
        let config = Config {
            interleaving,
            max_message_size: 4 << 20,
            ..Config::default()
        };
        let slow = Conditions::limited(
            glassline_media::Bitrate::from_bps(20_000_000),
            MS * 5,
            MS * 10,
        );
        let mut world = World::new(&config, slow, 25).connected();
        let now = world.now();
        let large = numbered(1, 2_000_000);
        world
            .a
            .association
            .send(1, 53, large, SendOptions::default(), now)
            .expect("room");
        world.run_for(MS * 200);
        let now = world.now();
        world
            .a
            .association
            .send(2, 53, numbered(2, 100), SendOptions::default(), now)
            .expect("room");
        world.run_for(Duration::from_secs(3));
        assert_eq!(world.b.messages.len(), 2);
        let small = world.b.messages.iter().find(|it| it.1 == 2).expect("it");
        waits[index] = small.0 - now;
    }
    assert!(waits[0] < MS * 100, "{waits:?}");
    assert!(waits[1] > MS * 300, "{waits:?}");
}
