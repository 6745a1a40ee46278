//! Single parts of a shard's turn.

use glassline_hub::SourceNote;
use glassline_media::{Codec, Track};

use super::super::datagrams::BATCHES_PER_TURN;
use super::*;

#[test]
fn viewers_of_tracks_that_are_no_more_are_closed_and_the_others_stay() {
    in_scene(|scene| {
        for client in [0, 1] {
            connect(scene, client, 0);
        }
        let stream = Arc::clone(scene.publisher.stream());
        let opus = vec![Track::audio(Codec::Opus, 2)];
        let same = stream
            .take_over(SourceNote::default(), opus, Instant::now())
            .expect("tracks");
        scene.publisher = same;
        scene.workers[0].publish();
        assert_eq!(scene.workers[0].peers.keys().len(), 2);
        let closed = |scene: &Scene| scene.workers[0].counters.closed_tracks_changed.get();
        assert_eq!(closed(scene), 0);
        let pcmu = vec![Track::audio(Codec::Pcmu, 1)];
        let other = stream
            .take_over(SourceNote::default(), pcmu, Instant::now())
            .expect("tracks");
        scene.publisher = other;
        scene.workers[0].publish();
        assert_eq!(closed(scene), 2);
        assert!(scene.workers[0].peers.keys().is_empty());
        assert!(scene.workers[0].streams.is_empty());
        assert_eq!((owner(scene, 0), owner(scene, 1)), (None, None));
    });
}

#[test]
fn the_poll_reports_room_in_the_socket_only_while_the_shard_waits_for_room() {
    in_scene(|scene| {
        let worker = &mut scene.workers[0];
        let reported = |worker: &mut Worker| {
            let at_once = Some(Duration::ZERO);
            worker
                .poll
                .poll(&mut worker.events, at_once)
                .expect("a poll");
            let mut events = worker.events.iter();
            events.any(|event| event.token() == SOCKET && event.is_writable())
        };
        reported(worker);
        worker.wait_for_room(true);
        assert!(worker.waits_writable && reported(worker));
        worker.wait_for_room(false);
        assert!(!worker.waits_writable && !reported(worker));
    });
}

#[test]
fn a_flood_is_read_in_parts_and_the_next_turn_begins_at_once() {
    in_scene(|scene| {
        let part = (BATCHES_PER_TURN * ReceiveBatch::CAPACITY_MAX) as u64;
        let received = |scene: &Scene| scene.workers[0].counters.received.get();
        for _ in 0..part + 8 {
            scene.strange(b"hello");
        }
        scene.workers[0].receive();
        assert_eq!(received(scene), part);
        let before = Instant::now();
        scene.workers[0].wait();
        assert!(before.elapsed() < IDLE / 2, "the waker was woken");
        scene.workers[0].receive();
        assert_eq!(received(scene), part + 8);
        assert_eq!(scene.workers[0].counters.stray.get(), part + 8);
    });
}

#[test]
fn a_shard_sleeps_until_its_next_deadline_and_no_longer_than_a_second() {
    in_scene(|scene| {
        let at = connect(scene, 0, 0);
        let worker = &mut scene.workers[0];
        worker.process_commands();
        while worker.timers.next().is_some() {
            let due = worker.timers.next().expect("just seen");
            worker.timers.take_due(due, &mut Vec::new());
        }
        // Wake-ups that came before.
        worker.waker.wake();
        worker.wait();
        let before = Instant::now();
        worker.timers.arm(before + Duration::from_millis(50), at);
        worker.wait();
        let slept = before.elapsed();
        assert!(slept >= Duration::from_millis(49), "{slept:?}");
        assert!(slept < IDLE, "{slept:?}");
        worker.timers.take_due(Instant::now(), &mut Vec::new());
        let before = Instant::now();
        worker.wait();
        let slept = before.elapsed();
        assert!(slept >= IDLE - Duration::from_millis(5), "{slept:?}");
    });
}

#[test]
fn a_datagram_from_another_shard_moves_the_peer_only_for_the_path_that_it_chose() {
    in_scene(|scene| {
        let at = connect(scene, 0, 0);
        let refused = |scene: &Scene| scene.workers[0].counters.refused.get();
        let forward = |scene: &mut Scene, bytes: &[u8]| {
            let datagram = Box::new(Forwarded {
                bytes: bytes.to_vec(),
                source: TransportAddress::udp(scene.address(0, 1)),
                destination: TransportAddress::udp(scene.media),
                local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            });
            let session = record(scene, 0).id.clone();
            let forward = Command::Forward {
                session,
                from: 1,
                datagram,
            };
            command(scene, 0, forward);
        };
        let before = refused(scene);
        forward(scene, b"\x80\x60hello");
        assert_eq!(refused(scene), before + 1);
        // A check that nominates another path than the one that its datagram took.
        let check = (0..STEPS_MAX)
            .filter_map(|_| scene.next_datagram(0))
            .find(|datagram| glassline_webrtc::stun_username(datagram).is_some());
        forward(
            scene,
            &check.expect("a client keeps its path alive by checks"),
        );
        assert_eq!(refused(scene), before + 1, "it is authentic");
        assert_eq!((owner(scene, 0), key(scene, 0, 0)), (Some(0), Some(at)));
        assert_eq!(scene.workers[0].counters.moves.get(), 0);
    });
}

#[test]
fn a_datagram_has_the_address_that_the_system_tells_and_the_port_of_the_shard() {
    in_scene(|scene| {
        let worker = &scene.workers[0];
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
        let port = worker.local.port();
        assert_eq!(
            worker.destination(Some(other)),
            SocketAddr::new(other, port)
        );
        assert_eq!(worker.destination(None), worker.local);
    });
}
