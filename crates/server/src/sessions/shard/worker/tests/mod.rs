//! Tests of workers without their threads: every step is called by hand.

mod connections;
mod turns;

use std::net::{IpAddr, Ipv4Addr};

use glassline_egress::webrtc::Route;
use glassline_latency::FrameStamps;
use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};
use glassline_runtime::PollingThread;
use glassline_webrtc::sdp::{Candidate, CandidateKind};
use glassline_webrtc::{TransportAddress, is_stun_response};
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::datagrams::Path;
use super::fuzzing::{Scene, in_scene};
use super::sightings::Passed;
use super::*;
use crate::sessions::peer::Dismissal;
use crate::sessions::record::SessionRecord;
use crate::sessions::shard::command::Forwarded;
use crate::sessions::shard::{name, socket_options};

/// Steps after which a client is connected, or has moved, on any machine: each is 60 ms of the
/// client's clock.
const STEPS_MAX: usize = 400;

fn record(scene: &Scene, client: usize) -> Arc<SessionRecord> {
    Arc::clone(scene.record(client))
}

/// Lets a client join by its first address and `worker`, until both ends are connected.
pub(super) fn connect(scene: &mut Scene, client: usize, worker: usize) -> Key {
    scene.join(client);
    for _ in 0..STEPS_MAX {
        scene.send(client, worker, 0);
        scene.receive(client);
        let key = key(scene, client, worker);
        let joined = key.and_then(|key| scene.workers[worker].peers.get_mut(key));
        if joined.is_some_and(|peer| peer.is_joined()) && scene.is_connected(client) {
            return key.expect("just found");
        }
    }
    panic!("the client does not connect");
}

fn key(scene: &Scene, client: usize, worker: usize) -> Option<Key> {
    let session = &scene.record(client).id;
    scene.workers[worker].peers.by_session(session)
}

/// Returns the shard that owns a session; `None` if the session waits or is gone.
fn owner(scene: &Scene, client: usize) -> Option<usize> {
    match scene.record(client).state().location {
        SessionLocation::Shard(index) => Some(index),
        _ => None,
    }
}

/// Publishes unit `number`, of so many `packets`, which no worker reads yet.
pub(super) fn push(scene: &mut Scene, number: i64, packets: usize) {
    let now = Instant::now();
    let mut builder = UnitBuilder::default();
    for _ in 0..packets {
        builder.push(b"sound");
    }
    let time = MediaTime::from_ticks(number * 20, 1_000);
    let unit = builder.build(TrackIndex(0), time, true, Stamps::arrived(now));
    let pushed = scene.publisher.push(unit.expect("a packet"), now);
    pushed.expect("a track");
}

/// The first check of a client that has joined, and its path to the server.
fn first_check(scene: &mut Scene, client: usize) -> (Vec<u8>, Path) {
    scene.join(client);
    let check = (0..STEPS_MAX).find_map(|_| scene.next_datagram(client));
    (
        check.expect("a client begins with a check"),
        path(scene, client),
    )
}

/// Returns a socket's address as sessions know it.
fn known<T: From<SocketAddr>>(socket: SocketAddr) -> T {
    T::from(socket)
}

fn path(scene: &Scene, client: usize) -> Path {
    Path {
        source: known(scene.address(client, 0)),
        destination: known(scene.media),
        local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

/// Sends a command to a shard, which handles it.
fn command(scene: &mut Scene, shard: usize, command: Command) {
    let handle = scene.shared.shard(shard).expect("two shards");
    assert!(handle.send(command).is_ok(), "the inbox has room");
    scene.workers[shard].process_commands();
}

/// Lets client 0 be seen by worker 0, and then send from its second address to worker 1 until
/// `is_done`. The client nominates only that address.
fn roam(scene: &mut Scene, mut is_done: impl FnMut(&mut Scene) -> bool) {
    let (mut check, path) = first_check(scene, 0);
    scene.workers[0].on_datagram(&mut check, path, Instant::now());
    assert_eq!(owner(scene, 0), Some(0));
    assert_eq!(scene.workers[0].streams.len(), 1);
    for _ in 0..STEPS_MAX {
        scene.workers[0].dispatch();
        scene.receive(0);
        scene.send(0, 1, 1);
        scene.workers[0].process_commands();
        if is_done(scene) {
            return;
        }
    }
    panic!("the client does not move");
}

fn stamps(scene: &Scene, client: usize) -> (Command, oneshot::Receiver<Vec<Option<FrameStamps>>>) {
    let (reply, answer) = oneshot::channel();
    let session = record(scene, client).id.clone();
    let timestamps = vec![1, 2];
    let command = Command::Stamps {
        session,
        timestamps,
        reply,
    };
    (command, answer)
}

#[test]
fn a_session_makes_way_for_another_only_before_it_is_connected() {
    in_scene(|scene| {
        let (mut check, path) = first_check(scene, 0);
        scene.workers[0].on_datagram(&mut check, path, Instant::now());
        assert_eq!(owner(scene, 0), Some(0));
        let evict = Command::Evict(record(scene, 0).id.clone());
        command(scene, 0, evict);
        assert_eq!((key(scene, 0, 0), owner(scene, 0)), (None, None));
        assert!(scene.shared.registry.by_id(&record(scene, 0).id).is_none());
        let connected = connect(scene, 1, 0);
        let evict = Command::Evict(record(scene, 1).id.clone());
        command(scene, 0, evict);
        assert_eq!(key(scene, 1, 0), Some(connected));
    });
}

#[test]
fn requests_find_the_shard_of_their_session_and_are_answered() {
    in_scene(|scene| {
        connect(scene, 0, 0);
        let (request, mut answer) = stamps(scene, 0);
        command(scene, 0, request);
        assert_eq!(answer.try_recv(), Ok(vec![None, None]));
        let (request, mut answer) = stamps(scene, 0);
        command(scene, 1, request);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty), "passed on");
        scene.workers[0].process_commands();
        assert_eq!(answer.try_recv(), Ok(vec![None, None]));
        let (reply, mut arrivals) = oneshot::channel();
        let session = record(scene, 0).id.clone();
        command(scene, 0, Command::Arrivals { session, reply });
        let arrived = arrivals.try_recv();
        assert_eq!(
            arrived.err(),
            Some(TryRecvError::Closed),
            "it sends nothing"
        );
        for expected in [Ok(()), Err(TryRecvError::Closed)] {
            let (done, mut left) = oneshot::channel();
            let session = record(scene, 0).id.clone();
            command(scene, 0, Command::Leave { session, done });
            assert_eq!(left.try_recv(), expected);
            assert_eq!((key(scene, 0, 0), owner(scene, 0)), (None, None));
        }
    });
}

#[test]
fn a_restart_and_new_candidates_reach_the_session() {
    in_scene(|scene| {
        let at = connect(scene, 0, 0);
        let ufrag = |scene: &mut Scene| {
            let peer = scene.workers[0].peers.get_mut(at).expect("connected");
            peer.session.local_credentials().ufrag.clone()
        };
        let before = ufrag(scene);
        scene.restart(0, false);
        assert_eq!(ufrag(scene), before);
        scene.workers[0].process_commands();
        let after = ufrag(scene);
        assert_ne!(after, before);
        assert_eq!(after, record(scene, 0).state().ice.ours.ufrag);
    });
}

#[test]
fn a_peer_moves_to_the_shard_where_its_new_address_arrives() {
    in_scene(|scene| {
        roam(scene, |scene| {
            scene.workers[1].process_commands();
            owner(scene, 0) == Some(1)
        });
        let moved = key(scene, 0, 1).expect("the client sends from there");
        assert_eq!((owner(scene, 0), key(scene, 0, 0)), (Some(1), None));
        assert_eq!(scene.workers[0].counters.moves.get(), 1);
        assert!(scene.workers[0].streams.is_empty());
        assert!(scene.workers[0].peers.keys().is_empty());
        assert_eq!(scene.workers[1].streams[0].viewers, [moved]);
        assert_eq!(scene.workers[1].peers.keys(), [moved]);
        let (request, mut answer) = stamps(scene, 0);
        command(scene, 0, request);
        scene.workers[1].process_commands();
        assert!(answer.try_recv().is_ok());
    });
}

#[test]
fn a_peer_stays_while_the_other_shard_takes_no_commands() {
    in_scene(|scene| {
        let other = scene.shared.shard(1).expect("two shards").clone();
        while other.send(Command::Evict(SessionId::new("nobody"))).is_ok() {}
        assert_eq!(other.counters().inbox_full.get(), 1);
        roam(scene, |_| other.counters().inbox_full.get() > 1);
        let stayed = key(scene, 0, 0).expect("it stays");
        assert_eq!(owner(scene, 0), Some(0));
        assert_eq!(scene.workers[0].counters.moves.get(), 0);
        assert_eq!(scene.workers[0].streams[0].viewers, [stayed]);
    });
}

#[test]
fn strangers_are_counted_and_cost_no_other_shard_anything() {
    in_scene(|scene| {
        let (check, path) = first_check(scene, 0);
        let now = Instant::now();
        let mut forged = check.clone();
        // A byte of the integrity's 20, before the fingerprint's 8.
        let place = forged.len() - 12;
        forged[place] ^= 1;
        let counts = |scene: &Scene, worker: usize| {
            let counters = &scene.workers[worker].counters;
            (counters.stray.get(), counters.refused.get())
        };
        let take = |scene: &mut Scene, worker: usize, bytes: &[u8]| {
            let before = counts(scene, worker);
            scene.workers[worker].on_datagram(&mut bytes.to_vec(), path, now);
            let after = counts(scene, worker);
            (after.0 - before.0, after.1 - before.1)
        };
        assert_eq!(take(scene, 0, b"hello"), (1, 0));
        // The head of a response to a check, of no transaction.
        let mut response = [0; 20];
        response[..8].copy_from_slice(&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        assert!(is_stun_response(&response));
        assert_eq!(take(scene, 0, &response), (1, 0));
        assert_eq!(take(scene, 0, &forged), (0, 1));
        let waits = |scene: &Scene| {
            let record = record(scene, 0);
            let state = record.state();
            matches!(state.location, SessionLocation::Waiting(_))
        };
        assert!(waits(scene), "the real peer may still come");
        assert_eq!(take(scene, 0, &check), (0, 0));
        assert_eq!(owner(scene, 0), Some(0));
        assert_eq!(take(scene, 0, &forged), (0, 1));
        assert_eq!(take(scene, 1, &forged), (0, 1));
        assert!(scene.workers[0].commands.try_recv().is_err());
        assert_eq!(take(scene, 1, &check), (0, 0));
        let passed_on = scene.workers[0].commands.try_recv();
        assert!(matches!(passed_on, Ok(Command::Forward { from: 1, .. })));
        let mut flood = 0;
        while take(scene, 1, &check) == (0, 0) {
            flood += 1;
        }
        assert!((20..30).contains(&flood), "{flood} at once");
        scene.leave(0);
        scene.workers[0].process_commands();
        assert_eq!(take(scene, 0, &check), (1, 0), "it is gone");
        assert_eq!(take(scene, 0, &[0x80; 40]), (1, 0));
    });
}

#[test]
fn an_address_stays_with_its_peer_until_a_newcomer_has_proven_that_it_receives_there() {
    in_scene(|scene| {
        let first = connect(scene, 0, 0);
        let (mut check, _) = first_check(scene, 1);
        let path = path(scene, 0);
        let now = Instant::now();
        scene.workers[0].on_datagram(&mut check, path, now);
        assert!(key(scene, 1, 0).is_some_and(|second| second != first));
        let peers = &mut scene.workers[0].peers;
        assert_eq!(peers.by_address(path.source), Some(first));
        let sighted = peers.sightings.take(path.source, Passed::Response, now);
        assert!(sighted.is_some_and(|it| it.id == record(scene, 1).id));
        let released = scene.workers[0].release(first).expect("connected");
        assert_eq!(scene.workers[0].peers.by_address(path.source), None);
        let again = scene.workers[0].adopt(released, now);
        let peers = &scene.workers[0].peers;
        assert_eq!(peers.by_address(path.source), Some(again));
    });
}

#[test]
fn what_is_published_reaches_every_viewer_of_the_shard() {
    in_scene(|scene| {
        for client in 0..3 {
            connect(scene, client, 0);
        }
        let sent = scene.workers[0].counters.send.packets.get();
        for number in 0..4 {
            push(scene, number, 1);
            scene.workers[0].publish();
        }
        assert_eq!(scene.workers[0].counters.send.packets.get() - sent, 12);
        for client in 0..3 {
            scene.receive(client);
            assert_eq!(scene.received(client), 4);
        }
    });
}

#[test]
fn a_deadline_of_a_session_is_kept_and_one_that_was_moved_is_not() {
    in_scene(|scene| {
        let (mut check, path) = first_check(scene, 0);
        scene.workers[0].on_datagram(&mut check, path, Instant::now());
        let at = key(scene, 0, 0).expect("adopted");
        let worker = &mut scene.workers[0];
        let due = Instant::now();
        let peer = worker.peers.get_mut(at).expect("adopted");
        peer.session.set_handshake_deadline(due);
        peer.armed = None;
        worker.timers.arm(due, at);
        worker.expire();
        assert!(worker.peers.get_mut(at).is_some(), "the timer was moved");
        let peer = worker.peers.get_mut(at).expect("adopted");
        peer.armed = Some(due);
        worker.timers.arm(due, at);
        worker.expire();
        assert_eq!((key(scene, 0, 0), owner(scene, 0)), (None, None));
        assert_eq!(scene.workers[0].counters.handshakes_failed.get(), 1);
    });
}

#[test]
fn datagrams_of_the_socket_are_read_and_a_turn_does_everything() {
    in_scene(|scene| {
        connect(scene, 0, 0);
        let turn = |scene: &mut Scene| {
            scene.workers[0].waker.wake();
            scene.workers[0].turn()
        };
        let received = scene.workers[0].counters.received.get();
        scene.strange(b"hello");
        let deadline = Instant::now() + Duration::from_secs(20);
        while scene.workers[0].counters.received.get() == received {
            assert_eq!(turn(scene), Turn::Again);
            assert!(Instant::now() < deadline, "the datagram does not arrive");
        }
        assert_eq!(scene.workers[0].counters.stray.get(), 1);
        let stop = scene
            .shared
            .shard(0)
            .expect("two shards")
            .send(Command::Stop);
        assert!(stop.is_ok());
        assert_eq!(turn(scene), Turn::Ended);
        assert!(scene.workers[0].peers.keys().is_empty());
        assert_eq!(owner(scene, 0), None);
    });
}

#[test]
fn after_a_panic_only_the_peer_that_was_served_is_gone() {
    in_scene(|scene| {
        let keys = [0, 1].map(|client| connect(scene, client, 0));
        let worker = &mut scene.workers[0];
        worker.serving.end();
        assert!(!worker.drop_served(), "nobody was served");
        worker.serving.begin(keys[0]);
        assert!(worker.drop_served() && worker.is_behind);
        assert_eq!(worker.peers.keys(), [keys[1]]);
        worker.catch_up();
        assert!(!worker.is_behind);
        assert_eq!((owner(scene, 0), owner(scene, 1)), (None, Some(0)));
        let (mut check, path) = first_check(scene, 2);
        let waiting = record(scene, 2);
        scene.workers[0].serving.begin_joining(waiting.id.clone());
        assert!(scene.workers[0].drop_served());
        assert!(scene.shared.registry.by_id(&waiting.id).is_none());
        scene.workers[0].on_datagram(&mut check, path, Instant::now());
        assert_eq!(key(scene, 2, 0), None);
        scene.workers[0].start_anew();
        assert!(scene.workers[0].peers.keys().is_empty());
        assert!(scene.workers[0].streams.is_empty());
        assert_eq!(owner(scene, 1), None);
        assert!(scene.shared.registry.by_id(&record(scene, 1).id).is_none());
    });
}

#[test]
fn a_candidate_that_comes_later_tells_what_an_address_is() {
    in_scene(|scene| {
        scene.join(0);
        let kind = |scene: &mut Scene| {
            let key = key(scene, 0, 0)?;
            let peer = scene.workers[0].peers.get_mut(key)?;
            Some(peer.session.path()?.remote.kind)
        };
        // The client told its first address, and comes from the second.
        let first = (0..STEPS_MAX).find_map(|_| {
            scene.send(0, 0, 1);
            scene.receive(0);
            kind(scene)
        });
        assert_eq!(first, Some(CandidateKind::PeerReflexive));
        let address = TransportAddress::udp(scene.address(0, 1));
        let session = record(scene, 0).id.clone();
        let candidates = vec![Candidate::host(address, 0)];
        command(scene, 0, Command::Trickle(session, candidates));
        assert_eq!(kind(scene), Some(CandidateKind::Host));
    });
}

#[test]
fn errors_of_the_network_are_counted_by_what_they_say() {
    in_scene(|scene| {
        let worker = &mut scene.workers[0];
        let deadline = Instant::now() + Duration::from_secs(20);
        while worker.counters.send.peer_refused.get() == 0 {
            // Another port each time: somebody may have opened the last one.
            let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let closed = socket.local_addr().expect("bound");
            drop(socket);
            let route = Route {
                destination: TransportAddress::udp(closed),
                source: None,
            };
            worker.outbox.send(b"nobody", route);
            worker.outbox.flush();
            worker.take_path_errors();
            assert!(
                Instant::now() < deadline,
                "no answer says that the port is closed"
            );
        }
        assert_eq!(worker.counters.send.unreachable.get(), 0);
        let options = socket_options();
        assert!(options.reuse_port, "shards share a port");
        // A second of feedback, and 20 ms of a fast interface.
        let buffers = (options.receive_buffer, options.send_buffer);
        assert_eq!(buffers, (Some(8 << 20), Some(2 << 20)));
        let names = [0, 3].map(name);
        assert!(names[0] != names[1] && names[1].contains('3'), "{names:?}");
    });
}

#[test]
fn what_a_full_socket_left_goes_first_and_every_peer_is_served_after_it() {
    in_scene(|scene| {
        let keys = [0, 1].map(|client| connect(scene, client, 0));
        let receiver = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let limit = Some(Duration::from_secs(20));
        receiver.set_read_timeout(limit).expect("a socket");
        let route = Route {
            destination: TransportAddress::udp(receiver.local_addr().expect("bound")),
            source: None,
        };
        let now = Instant::now();
        let worker = &mut scene.workers[0];
        let leave = |worker: &mut Worker, key| {
            let peer = worker.peers.get_mut(key).expect("connected");
            peer.dismiss(Dismissal::Left, now);
        };
        // With room in the socket nobody is served.
        leave(worker, keys[0]);
        worker.unblock();
        assert_eq!(worker.peers.keys().len(), 2);
        worker.outbox.hold(b"left", route);
        assert!(worker.outbox.is_blocked());
        leave(worker, keys[1]);
        worker.unblock();
        assert!(!worker.outbox.is_blocked() && !worker.waits_writable);
        assert!(worker.peers.keys().is_empty(), "both have left");
        let mut bytes = [0; 16];
        let count = receiver.recv(&mut bytes).expect("what was left");
        assert_eq!(&bytes[..count], b"left");
    });
}
