//! TCP connections on their way to the shard of their session, and at it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use glassline_egress::webrtc::TcpConnection;
use glassline_webrtc::framing;

use super::super::sightings::Passed;
use super::*;
use crate::sessions::shard::command::Connected;

/// A connection on loopback: the client's end, and the server's with its place.
struct Pair {
    client: TcpStream,
    server: TcpConnection,
    /// Fails to receive once the place was given back.
    place: oneshot::Receiver<()>,
}

fn pair() -> Pair {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    let limit = Some(Duration::from_secs(20));
    client.set_read_timeout(limit).expect("a socket");
    let (stream, _) = listener.accept().expect("it connected");
    let (taken, place) = oneshot::channel::<()>();
    let server = TcpConnection::new(stream, taken).expect("it is open");
    Pair {
        client,
        server,
        place,
    }
}

impl Pair {
    /// Hands the server's end to a shard, as if `check` had been read from it.
    fn hand_over(self, scene: &mut Scene, shard: usize, check: &[u8]) -> End {
        let connected = Connected {
            connection: self.server,
            check: check.to_vec(),
        };
        command(scene, shard, Command::Connect(Box::new(connected)));
        End {
            client: self.client,
            place: self.place,
        }
    }
}

/// The client's end, after the server took or closed its own.
struct End {
    client: TcpStream,
    place: oneshot::Receiver<()>,
}

impl End {
    fn source(&self) -> TransportAddress {
        TransportAddress::tcp(self.client.local_addr().expect("connected"))
    }

    fn is_held(&mut self) -> bool {
        self.place.try_recv() == Err(TryRecvError::Empty)
    }

    /// Reads one frame of RFC 4571.
    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 2];
        self.client.read_exact(&mut length).expect("a frame");
        let mut frame = vec![0; usize::from(u16::from_be_bytes(length))];
        self.client.read_exact(&mut frame).expect("a whole frame");
        frame
    }

    /// Reads frames until one answers a check. The server sends checks of its own, too.
    fn is_answered(&mut self) -> bool {
        (0..20).any(|_| is_stun_response(&self.frame()))
    }

    fn send(&mut self, datagram: &[u8]) {
        let prefix = framing::prefix(datagram.len()).expect("short");
        self.client.write_all(&prefix).expect("it is open");
        self.client.write_all(datagram).expect("it is open");
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.client.read(&mut [0; 1]), Ok(0) | Err(_)) && !self.is_held()
    }
}

/// Lets a shard turn until `is_done`.
fn turn_until(scene: &mut Scene, shard: usize, mut is_done: impl FnMut(&mut Scene) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_done(scene) {
        assert!(Instant::now() < deadline, "nothing happens");
        scene.workers[shard].waker.wake();
        assert_eq!(scene.workers[shard].turn(), Turn::Again);
    }
}

#[test]
fn a_connection_brings_its_session_to_the_shard_and_its_check_is_answered() {
    in_scene(|scene| {
        let (check, _) = first_check(scene, 0);
        let mut end = pair().hand_over(scene, 1, &check);
        assert_eq!(owner(scene, 0), Some(1));
        let adopted = key(scene, 0, 1);
        assert_eq!(scene.workers[1].peers.by_address(end.source()), adopted);
        assert!(end.is_answered() && end.is_held());
        // What the client sends later is read in the turns of the shard, and answered as well.
        let mut next = None;
        for _ in 0..STEPS_MAX {
            next = next.or_else(|| scene.next_datagram(0));
        }
        end.send(&next.expect("a client repeats its check"));
        let received = scene.workers[1].counters.received.get();
        turn_until(scene, 1, |scene| {
            scene.workers[1].counters.received.get() > received
        });
        assert!(end.is_answered());
        // It ends with the session.
        scene.leave(0);
        scene.workers[1].process_commands();
        assert!(scene.workers[1].peers.keys().is_empty());
        assert!(end.is_closed());
    });
}

#[test]
fn a_connection_goes_to_the_shard_that_owns_its_session() {
    in_scene(|scene| {
        let (check, path) = first_check(scene, 0);
        scene.workers[0].on_datagram(&mut check.clone(), path, Instant::now());
        assert_eq!(owner(scene, 0), Some(0));
        let mut end = pair().hand_over(scene, 1, &check);
        assert!(end.is_held());
        let source = end.source();
        assert_eq!(scene.workers[1].peers.by_address(source), None);
        scene.workers[0].process_commands();
        let owned = key(scene, 0, 0);
        assert!(owned.is_some());
        assert_eq!(scene.workers[0].peers.by_address(source), owned);
        assert!(end.is_answered());
        assert_eq!(owner(scene, 0), Some(0), "the session stays");
    });
}

#[test]
fn a_connection_of_no_session_is_closed() {
    in_scene(|scene| {
        let (check, _) = first_check(scene, 0);
        let mut forged = check.clone();
        let place = forged.len() - 12;
        forged[place] ^= 1;
        let mut end = pair().hand_over(scene, 0, &forged);
        assert!(end.is_closed(), "its check is not authentic");
        let mut end = pair().hand_over(scene, 0, b"hello");
        assert!(end.is_closed(), "it begins with no check");
        scene.leave(0);
        let mut end = pair().hand_over(scene, 0, &check);
        assert!(end.is_closed(), "the session is gone");
        assert!(scene.workers[0].peers.keys().is_empty());
    });
}

#[test]
fn a_connection_that_ends_or_sends_no_frames_leaves_the_session_its_other_paths() {
    in_scene(|scene| {
        let at = connect(scene, 0, 0);
        let next_check = |scene: &mut Scene| {
            (0..STEPS_MAX)
                .filter_map(|_| scene.next_datagram(0))
                .find(|datagram| glassline_webrtc::stun_username(datagram).is_some())
                .expect("a client keeps its path alive by checks")
        };
        let check = next_check(scene);
        let mut end = pair().hand_over(scene, 0, &check);
        let source = end.source();
        assert_eq!(scene.workers[0].peers.by_address(source), Some(at));
        // An empty frame is no datagram.
        end.client.write_all(&[0, 0, 0, 0]).expect("it is open");
        let End { client, mut place } = end;
        drop(client);
        turn_until(scene, 0, |_| place.try_recv() == Err(TryRecvError::Closed));
        assert_eq!(scene.workers[0].peers.by_address(source), None);
        assert_eq!((owner(scene, 0), key(scene, 0, 0)), (Some(0), Some(at)));
        let peer = scene.workers[0].peers.get_mut(at).expect("it stays");
        assert!(!peer.addresses().contains(&source));
        let udp = TransportAddress::udp(scene.address(0, 0));
        assert_eq!(scene.workers[0].peers.by_address(udp), Some(at));
    });
}

#[test]
fn a_check_over_tcp_of_another_shards_session_is_not_answered_here() {
    in_scene(|scene| {
        let (mut check, path) = first_check(scene, 0);
        scene.workers[0].on_datagram(&mut check.clone(), path, Instant::now());
        let over_tcp = Path {
            source: TransportAddress::tcp(path.source.socket),
            destination: TransportAddress::tcp(path.destination.socket),
            ..path
        };
        let now = Instant::now();
        scene.workers[1].on_datagram(&mut check, over_tcp, now);
        let forwarded = scene.workers[0].commands.try_recv();
        assert!(forwarded.is_err(), "its answer could not leave there");
        assert!(
            scene.workers[1]
                .peers
                .sightings
                .take(over_tcp.source, Passed::Response, now)
                .is_none()
        );
        scene.workers[1].on_datagram(&mut check, path, now);
        let forwarded = scene.workers[0].commands.try_recv();
        assert!(matches!(forwarded, Ok(Command::Forward { from: 1, .. })));
    });
}

#[test]
fn connections_move_with_their_peer() {
    in_scene(|scene| {
        let at = connect(scene, 0, 0);
        let check = (0..STEPS_MAX)
            .filter_map(|_| scene.next_datagram(0))
            .find(|datagram| glassline_webrtc::stun_username(datagram).is_some());
        let check = check.expect("a client keeps its path alive by checks");
        let mut end = pair().hand_over(scene, 0, &check);
        let source = end.source();
        assert!(end.is_answered());
        let peer = scene.workers[0].release(at).expect("connected");
        let connections = scene.workers[0].take_connections(peer.addresses());
        assert_eq!(connections.0.len(), 1);
        record(scene, 0).state().location = SessionLocation::Shard(1);
        // Sent on the way: nothing reports it to the other shard.
        end.send(&check);
        command(scene, 1, Command::Adopt(peer, connections));
        let moved = key(scene, 0, 1);
        assert_eq!(scene.workers[1].peers.by_address(source), moved);
        assert!(end.is_held());
        let received = scene.workers[1].counters.received.get();
        turn_until(scene, 1, |scene| {
            scene.workers[1].counters.received.get() > received
        });
    });
}

#[test]
fn more_than_a_turn_reads_is_read_in_the_turns_after_it() {
    in_scene(|scene| {
        let (check, _) = first_check(scene, 0);
        let mut end = pair().hand_over(scene, 0, &check);
        let frames = 400;
        let mut client = end.client.try_clone().expect("a descriptor");
        // More than the kernel keeps, so that the client writes while the shard reads.
        let writer = std::thread::spawn(move || {
            let frame = [&[4, 0][..], &[0x80; 1024]].concat();
            for _ in 0..frames {
                client.write_all(&frame).expect("it is open");
            }
        });
        let received = scene.workers[0].counters.received.get();
        turn_until(scene, 0, |scene| {
            scene.workers[0].counters.received.get() == received + frames
        });
        writer.join().expect("all is written");
        assert!(end.is_held(), "datagrams that mean nothing close nothing");
    });
}

#[test]
fn a_full_connection_goes_on_when_its_client_reads_again() {
    in_scene(|scene| {
        let (check, _) = first_check(scene, 0);
        let mut end = pair().hand_over(scene, 0, &check);
        let route = Route {
            destination: end.source(),
            source: None,
        };
        let mut sent = 0_u64;
        while !scene.workers[0].outbox.is_blocked_to(route.destination) {
            scene.workers[0].outbox.send(&[7; 1200], route);
            scene.workers[0].outbox.flush();
            sent += 1;
            assert!(sent < 100_000, "the kernel keeps no end of bytes");
        }
        let reader = std::thread::spawn(move || {
            let mut found = 0;
            while found < sent {
                found += u64::from(end.frame() == [7; 1200]);
            }
            end
        });
        turn_until(scene, 0, |scene| {
            !scene.workers[0].outbox.is_blocked_to(route.destination)
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while !reader.is_finished() {
            assert!(Instant::now() < deadline, "not all of it arrives");
            scene.workers[0].waker.wake();
            scene.workers[0].turn();
        }
        assert!(reader.join().expect("it reads").is_held());
    });
}

#[test]
fn an_answer_to_a_check_finds_the_shard_of_the_session_that_was_seen_at_its_address() {
    in_scene(|scene| {
        let (mut check, path) = first_check(scene, 0);
        let now = Instant::now();
        scene.workers[0].on_datagram(&mut check, path, now);
        let mut answer = [0; 20];
        answer[..8].copy_from_slice(&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        assert!(is_stun_response(&answer));
        // Another address of the client, seen by both shards.
        let path = Path {
            source: known(scene.address(0, 1)),
            ..path
        };
        let seen = record(scene, 0);
        for shard in [0, 1] {
            let worker = &mut scene.workers[shard];
            worker.peers.sightings.note(path.source, &seen, now);
            let stray = worker.counters.stray.get();
            worker.on_datagram(&mut answer.clone(), path, now);
            // It answers no check of this session: the owner refuses it, the other shard asks.
            let refused = worker.counters.stray.get() - stray;
            assert_eq!(refused, u64::from(shard == 0), "shard {shard}");
        }
        let forwarded = scene.workers[0].commands.try_recv();
        assert!(matches!(forwarded, Ok(Command::Forward { from: 1, .. })));
        assert!(scene.workers[0].commands.try_recv().is_err(), "once");
    });
}
