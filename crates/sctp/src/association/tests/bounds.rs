//! Tests of windows, memory, and peers that violate the protocol.

use glassline_sim::{Case, Loss};

use super::*;
use crate::chunk::{Data, DataFlags, IData, Sack};
use crate::packet::{Checksum, Header, PacketBuilder};
use crate::sequence::{Mid, narrow};
use crate::{SendError, Ssn, Tsn};

#[test]
fn a_reader_that_stops_stops_the_sender_and_goes_on() {
    let config = Config {
        receive_window_min: 300_000,
        receive_window_max: 300_000,
        max_message_size: 100_000,
        send_buffer_max: 2 << 20,
        ..Config::default()
    };
    let lossy = Conditions::delayed(MS * 10).with_loss(Loss::Random(0.02));
    let mut world = World::new(&config, lossy, 31).connected();
    world.a.bulk = Some((10_000, 1 << 20));
    world.b.reads = false;
    world.run_for(Duration::from_secs(60));
    let receiver = world.b.association.report();
    assert!(receiver.unread <= 400_000, "{receiver:?}");
    assert_eq!(world.a.association.report().state, State::Established);
    world.b.reads = true;
    let before = world.b.received;
    world.run_for(Duration::from_secs(10));
    assert!(
        world.b.received > before + 10_000_000,
        "{}",
        world.b.received
    );
}

#[test]
fn the_send_buffer_is_bounded_and_says_so() {
    let config = Config {
        send_buffer_max: 100_000,
        ..Config::default()
    };
    let mut world = World::new(&config, Conditions::delayed(MS * 10), 32).connected();
    let now = world.now();
    let side = &mut world.a.association;
    let mut taken = 0;
    let error = loop {
        match side.send(0, 53, numbered(0, 9_000), SendOptions::default(), now) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(taken, 11);
    assert_eq!(
        error,
        SendError::BufferFull {
            buffered: 99_000,
            limit: 100_000,
            size: 9_000
        }
    );
    side.set_buffered_low(0, 20_000);
    world.run_for(MS * 500);
    assert!(world.a.events.contains(&Event::BufferedLow { stream: 0 }));
    assert_eq!(world.a.association.report().buffered, 0);
}

#[test]
fn the_window_grows_with_what_the_path_carries() {
    let fast = Conditions::limited(
        glassline_media::Bitrate::from_bps(200_000_000),
        MS * 50,
        MS * 100,
    );
    let mut world = World::new(&Config::default(), fast, 33).connected();
    world.a.bulk = Some((64 * 1024, 4 << 20));
    world.b.keeps = false;
    let first = world.b.association.report().own_window_limit;
    assert_eq!(first, 2 << 20);
    world.run_for(Duration::from_secs(3));
    world.b.measure();
    world.run_for(Duration::from_secs(1));
    let report = world.b.association.report();
    assert!(
        report.own_window_limit > 5_000_000,
        "twice the path: {report:?}"
    );
    assert!(report.own_window_limit <= 64 << 20);
    let mbps = world.b.received as f64 * 8.0 / 1e6;
    assert!(mbps > 170.0, "{mbps}");
}

#[test]
fn a_window_that_may_not_grow_is_used_up_to_its_bound() {
    // A message of which half has arrived takes room from what is in flight, and is only
    // delivered as a whole.
    for (window, share) in [(128 << 10, 0.45), (256 << 10, 0.7), (400_000, 0.80)] {
        let config = Config {
            receive_window_min: window,
            receive_window_max: window,
            max_message_size: 65_536,
            ..Config::default()
        };
        let mut world = World::new(&config, Conditions::delayed(MS * 10), 34).connected();
        world.a.bulk = Some((64 * 1024, 4 << 20));
        world.b.keeps = false;
        world.run_for(Duration::from_secs(2));
        world.b.measure();
        world.run_for(Duration::from_secs(2));
        let mbps = world.b.received as f64 * 8.0 / 1e6 / 2.0;
        let bound = f64::from(window) * 8.0 / 0.02 / 1e6;
        assert!(
            mbps > share * bound && mbps <= bound,
            "{window}: {mbps} of {bound}"
        );
        for side in [&world.a, &world.b] {
            assert!(side.dropped.is_empty(), "{:?}", side.dropped);
        }
    }
}

#[test]
fn packets_grow_as_far_as_the_path_lets_them() {
    let cases = [
        Case {
            description: "a path as wide as the largest packet",
            path: 1400,
            seed: 35,
            expected: 1400..=1400,
        },
        Case {
            description: "a path between two sizes that are probed",
            path: 1300,
            seed: 35,
            expected: 1268..=1300,
        },
    ];
    for case in cases {
        let config = Config {
            mtu: 1160,
            mtu_max: 1400,
            ..Config::default()
        };
        let mut world = World::new(&config, Conditions::delayed(MS * 10), case.seed);
        world.network.set_datagram_bytes_max(case.path);
        let mut world = world.connected();
        world.run_for(Duration::from_secs(10));
        let mtu = world.a.association.mtu();
        assert!(case.expected.contains(&mtu), "{case}: {mtu}");
        assert!(world.a.events.contains(&Event::MtuChanged { mtu }));
    }
}

#[test]
fn when_larger_packets_cease_to_pass_smaller_ones_take_over() {
    let config = Config {
        mtu: 1160,
        mtu_max: 1400,
        ..Config::default()
    };
    let rate = glassline_media::Bitrate::from_bps(20_000_000);
    let path = Conditions::limited(rate, MS * 10, MS * 100);
    let mut world = World::new(&config, path, 37).connected();
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.a.association.mtu(), 1400);
    world.a.bulk = Some((64 * 1024, 1 << 20));
    world.run_for(Duration::from_secs(1));
    world.network.set_datagram_bytes_max(1200);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.a.association.mtu(), 1160);
    world.b.measure();
    world.run_for(Duration::from_secs(1));
    assert!(world.b.received > 1 << 20, "{}", world.b.received);
    // The path widens again, which is discovered after a while.
    world.a.bulk = None;
    world.network.set_datagram_bytes_max(usize::MAX);
    world.run_for(Duration::from_secs(650));
    assert_eq!(world.a.association.mtu(), 1400);
}

#[test]
fn an_end_that_only_receives_knows_the_round_trip() {
    let config = Config {
        congestion: crate::Algorithm::Rfc9260Reno,
        ..Config::default()
    };
    let rate = glassline_media::Bitrate::from_bps(20_000_000);
    let path = Conditions::limited(rate, MS * 10, MS * 100);
    let mut world = World::new(&config, path, 38).connected();
    world.a.bulk = Some((16 * 1024, 1 << 20));
    world.b.keeps = false;
    world.run_for(Duration::from_secs(10));
    let (here, there) = (world.b.association.report(), world.a.association.report());
    let rtt = here.rtt.expect("asked for");
    assert!(rtt > MS * 40, "the queue shows: {rtt:?}");
    assert!(rtt < there.rtt.expect("known") * 2, "{rtt:?}");
}

/// Returns a packet with one DATA chunk for stream 0 of `b`, as if from `a`.
fn forge(world: &World, tsn: u32, flags: DataFlags, ssn: u16, payload: &[u8]) -> Vec<u8> {
    forge_on(world, 0, tsn, flags, ssn, payload)
}

fn forge_on(
    world: &World,
    stream: u16,
    tsn: u32,
    flags: DataFlags,
    ssn: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = vec![0; 1500];
    let header = Header {
        source_port: 5000,
        destination_port: 5000,
        verification_tag: world.b.association.own_tag,
    };
    let mut packet = PacketBuilder::new(&mut out, header).expect("room");
    let tsn = Tsn(world.a.association.own_tsn.wrapping_add(tsn));
    Data {
        flags,
        tsn,
        stream,
        ssn: Ssn(ssn),
        ppid: 53,
        payload,
    }
    .write(&mut packet)
    .expect("room");
    let len = packet.finish(Checksum::Crc32c);
    out.truncate(len);
    out
}

fn plain() -> Config {
    Config {
        interleaving: false,
        receive_window_min: 200_000,
        receive_window_max: 400_000,
        max_message_size: 100_000,
        ..Config::default()
    }
}

#[test]
fn a_message_above_the_limit_ends_the_association_by_name() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 36).connected();
    for number in 0..200 {
        let flags = if number == 0 {
            DataFlags::BEGIN
        } else {
            DataFlags(0)
        };
        let packet = forge(&world, number, flags, 0, &[1; 1000]);
        let now = world.now();
        let _ = world.b.association.handle_packet(&packet, now);
    }
    world.run_for(MS * 10);
    assert_eq!(
        world.b.events.last(),
        Some(&Event::Closed(CloseReason::MessageTooLarge {
            stream: 0,
            limit: 100_000
        }))
    );
    assert!(matches!(
        world.a.events.last(),
        Some(Event::Closed(CloseReason::AbortedByPeer {
            cause: Some(13),
            ..
        }))
    ));
}

#[test]
fn messages_that_begin_and_never_end_hold_nothing_once_the_next_begins() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 37).connected();
    for number in 0..2000 {
        let ssn = u16::try_from(number).expect("small");
        let packet = forge(&world, number, DataFlags::BEGIN, ssn, &[1; 1000]);
        let now = world.now();
        assert_eq!(world.b.association.handle_packet(&packet, now), Ok(()));
        world.b.association.end_batch(now);
        let report = world.b.association.report();
        assert_eq!(report.unassembled, 1000, "{report:?}");
    }
    assert_eq!(world.b.association.report().state, State::Established);
}

/// Returns a packet with I-DATA chunks for `b`, as if from `a`: fragments of one byte of message
/// `mid` of stream 0, the TSNs from `tsn` on and the given numbers of fragments.
fn forge_fragments(world: &World, tsn: u32, mid: u32, numbers: &[u32]) -> Vec<u8> {
    let mut out = vec![0; 1500];
    let header = Header {
        source_port: 5000,
        destination_port: 5000,
        verification_tag: world.b.association.own_tag,
    };
    let mut packet = PacketBuilder::new(&mut out, header).expect("room");
    for (at, fsn) in (tsn..).zip(numbers) {
        let chunk = IData {
            flags: DataFlags(0),
            tsn: Tsn(world.a.association.own_tsn.wrapping_add(at)),
            stream: 0,
            mid: Mid(mid),
            ppid: 0,
            fsn: *fsn,
            payload: b"q",
        };
        chunk.write(&mut packet).expect("room");
    }
    let len = packet.finish(Checksum::Crc32c);
    out.truncate(len);
    out
}

/// Fragments with gaps between them each have a buffer: a window of 400,000 of them was 60 MB.
#[test]
fn fragments_of_a_byte_use_up_the_window_by_what_they_hold() {
    let config = Config {
        interleaving: true,
        ..plain()
    };
    let mut world = World::new(&config, Conditions::delayed(MS), 43).connected();
    let mut tsn = 0;
    // The numbers fall: a list in order would move all others for each of them.
    for packet in (0..1_000u32).rev() {
        let numbers: Vec<u32> = (1..=40).map(|at| 2 * (40 * packet + at)).rev().collect();
        let bytes = forge_fragments(&world, tsn, 0, &numbers);
        let now = world.now();
        let _ = world.b.association.handle_packet(&bytes, now);
        world.b.association.end_batch(now);
        tsn += 40;
    }
    let report = world.b.association.report();
    assert!(report.unassembled <= 2 * 400_000 / 256, "{report:?}");
    world.run_for(MS * 10);
    let stuck = "fragments of unfinished messages fill the receive window";
    assert_eq!(
        world.b.events.last(),
        Some(&Event::Closed(CloseReason::Violation(stuck)))
    );
}

#[test]
fn a_packet_has_one_sack_that_counts() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 44).connected();
    let mut out = vec![0; 1500];
    let header = Header {
        source_port: 5000,
        destination_port: 5000,
        verification_tag: world.b.association.own_tag,
    };
    let mut packet = PacketBuilder::new(&mut out, header).expect("room");
    let before = world.b.association.report().sacks_received;
    let acknowledged = Tsn(narrow(world.b.association.sender.cumulative()));
    for window in [1_000, 2_000] {
        Sack::write_fitting(acknowledged, window, [], [], &mut packet).expect("room");
    }
    let len = packet.finish(Checksum::Crc32c);
    let now = world.now();
    assert_eq!(world.b.association.handle_packet(&out[..len], now), Ok(()));
    let sacks = world.b.association.report().sacks_received - before;
    assert_eq!(sacks, 1);
}

#[test]
fn a_peer_that_ignores_the_window_gets_no_memory() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 38).connected();
    world.b.reads = false;
    let mut refused = 0;
    for number in 0..5000 {
        let ssn = u16::try_from(number).expect("small");
        let packet = forge(&world, number, DataFlags::WHOLE, ssn, &[1; 1000]);
        let now = world.now();
        refused += u32::from(world.b.association.handle_packet(&packet, now).is_err());
        world.b.association.end_batch(now);
        let report = world.b.association.report();
        assert!(report.unread <= 800_000, "{report:?}");
    }
    assert!(refused > 4000, "{refused}");
    assert_eq!(world.b.association.report().state, State::Established);
}

#[test]
fn a_chunk_without_data_ends_the_association_and_the_peer_hears_why() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 40).connected();
    let packet = forge(&world, 0, DataFlags::WHOLE, 0, &[]);
    let now = world.now();
    let _ = world.b.association.handle_packet(&packet, now);
    world.run_for(MS * 10);
    let what = "a DATA chunk without data";
    assert_eq!(
        world.b.events.last(),
        Some(&Event::Closed(CloseReason::Violation(what)))
    );
    assert_eq!(
        world.a.events.last(),
        Some(&Event::Closed(CloseReason::AbortedByPeer {
            cause: Some(13),
            text: what.to_owned()
        }))
    );
}

#[test]
fn data_of_a_stream_that_was_not_agreed_upon_is_dropped_by_name() {
    let mut world = World::new(&plain(), Conditions::delayed(MS), 41).connected();
    world.b.association.incoming_streams = 4;
    let now = world.now();
    let beyond = forge_on(&world, 4, 0, DataFlags::WHOLE, 0, b"nowhere");
    let dropped = world.b.association.handle_packet(&beyond, now);
    assert_eq!(dropped, Err(crate::Dropped::NoSuchStream { stream: 4 }));
    let last = forge_on(&world, 3, 1, DataFlags::WHOLE, 0, b"here");
    assert_eq!(world.b.association.handle_packet(&last, now), Ok(()));
    world.b.read(now);
    let came: Vec<_> = world
        .b
        .messages
        .iter()
        .map(|it| (it.1, &it.2[..]))
        .collect();
    assert_eq!(came, [(3, &b"here"[..])]);
    assert_eq!(world.b.association.report().state, State::Established);
}

#[test]
fn what_was_lost_is_counted() {
    let lost = |share| {
        let path = Conditions::delayed(MS * 10).with_loss(Loss::Random(share));
        let mut world = World::new(&plain(), path, 42).connected();
        let now = world.now();
        for number in 0..50 {
            let sent = numbered(number, 1000);
            let side = &mut world.a.association;
            assert_eq!(side.send(0, 53, sent, SendOptions::default(), now), Ok(()));
        }
        world.expect_within(Duration::from_secs(60), "all arrive", |world| {
            world.b.messages.len() == 50
        });
        world.a.association.report().lost
    };
    assert!(lost(0.2) > 0);
    assert_eq!(lost(0.0), 0);
}

#[test]
fn an_init_flood_costs_no_state() {
    let mut b = Association::new(Config::default(), secrets(1), Instant::now());
    let mut out = [0; 2048];
    for seed in 0..1000 {
        let now = Instant::now();
        let mut stranger = Association::new(Config::default(), secrets(100 + seed), now);
        stranger.connect(now);
        let len = stranger.poll_transmit(now, &mut out).expect("INIT");
        b.handle_packet(&out[..len], now).expect("answered");
    }
    let now = Instant::now();
    assert!(
        b.poll_transmit(now, &mut out).is_some(),
        "the last is answered"
    );
    assert!(
        b.poll_transmit(now, &mut out).is_none(),
        "the others are forgotten"
    );
    assert_eq!(b.report().state, State::Closed);
    assert_eq!(b.poll_timeout(), None);
}
