use std::collections::VecDeque;
use std::net::SocketAddr;

use super::*;
use crate::Loss;

const MS: Duration = Duration::from_millis(1);

/// A node that sends a byte at each of its times, optionally answers each byte, and records
/// what happens to it.
struct Peer {
    address: SocketAddr,
    far: SocketAddr,
    times: VecDeque<Instant>,
    queue: VecDeque<u8>,
    answers: bool,
    said: u8,
    received: Vec<(Instant, u8)>,
    batches: usize,
}

impl Peer {
    fn new(end: End, network: &Network, times_ms: &[u32]) -> Self {
        Self {
            address: end.address(),
            far: end.other().address(),
            times: times_ms.iter().map(|&at| network.now() + MS * at).collect(),
            queue: VecDeque::new(),
            answers: false,
            said: 0,
            received: Vec::new(),
            batches: 0,
        }
    }
}

impl Node for Peer {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        self.received.push((now, datagram.bytes[0]));
        if self.answers {
            self.queue.push_back(datagram.bytes[0]);
        }
    }

    fn end_batch(&mut self, _: Instant) {
        self.batches += 1;
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        let bytes = vec![self.queue.pop_front()?];
        let (from, to) = (self.address, self.far);
        Some(Datagram { from, to, bytes })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.times.front().copied()
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.times.pop_front();
        self.queue.push_back(self.said);
        self.said += 1;
    }

    fn state(&self) -> String {
        format!("said {}", self.said)
    }
}

struct World {
    network: Network,
    start: Instant,
    peers: Vec<Peer>,
}

impl World {
    fn new(network: Network, times_ms: [&[u32]; 2]) -> Self {
        let ends = [End::A, End::B].into_iter().zip(times_ms);
        Self {
            start: network.now(),
            peers: ends.map(|(end, at)| Peer::new(end, &network, at)).collect(),
            network,
        }
    }

    /// Returns what a peer received, and when in ms.
    fn received(&self, peer: usize) -> Vec<(u128, u8)> {
        let received = self.peers[peer].received.iter();
        received
            .map(|&(at, byte)| ((at - self.start).as_millis(), byte))
            .collect()
    }
}

impl Simulation for World {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let peers = self.peers.iter_mut();
        let mut peers: Vec<_> = peers.map(|peer| peer as &mut dyn Node).collect();
        run(&mut self.network, &mut peers)
    }
}

fn delayed(ms: u32) -> Conditions {
    Conditions::delayed(MS * ms)
}

#[test]
fn time_jumps_from_event_to_event_and_ends_where_it_was_told_to() {
    let network = Network::pair(delayed(10), 1);
    let mut world = World::new(network, [&[0, 5, 1000], &[]]);
    world.peers[1].answers = true;
    world.run_for(MS * 900);
    assert_eq!(world.network.elapsed(), MS * 900);
    assert_eq!(world.received(1), [(10, 0), (15, 1)]);
    assert_eq!(world.received(0), [(20, 0), (25, 1)]);
    world.run_for(MS * 200);
    assert_eq!(world.received(1).last(), Some(&(1010, 2)));
    assert!(!world.step(world.network.now()));
}

#[test]
fn a_run_ends_at_the_moment_that_was_waited_for() {
    let mut world = World::new(Network::pair(delayed(10), 1), [&[3, 40], &[]]);
    assert!(world.run_until(MS * 100, |world| !world.peers[1].received.is_empty()));
    assert_eq!(world.network.elapsed(), MS * 13);
    // What a node gets to send while `done` runs leaves at that instant.
    let mut given = false;
    assert!(world.run_until(MS * 100, |world| {
        if !std::mem::replace(&mut given, true) {
            world.peers[0].queue.push_back(77);
        }
        world.peers[1].received.len() == 2
    }));
    assert_eq!(world.received(1)[1], (23, 77));
    assert!(!world.run_until(MS * 5, |_| false));
}

#[test]
fn datagrams_that_arrive_together_are_one_batch() {
    let mut world = World::new(Network::pair(delayed(10), 1), [&[0, 0, 0, 7], &[]]);
    world.run_for(MS * 100);
    assert_eq!(
        (world.peers[1].received.len(), world.peers[1].batches),
        (4, 2)
    );
}

#[test]
fn two_runs_with_one_seed_leave_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        let mut rough = delayed(10).with_loss(Loss::Random(0.2));
        rough.jitter = MS * 9;
        let mut network = Network::pair(rough, seed);
        network.set_duplicates(0.1);
        let times: Vec<u32> = (0..200).collect();
        let mut world = World::new(network, [&times, &times]);
        world.peers[1].answers = true;
        world.run_for(MS * 1000);
        (*world.network.trace(), world.received(0), world.received(1))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn pairs_that_share_a_path_share_its_queue() {
    let rate = glassline_media::Bitrate::from_bps(8_000);
    let slow = Conditions::limited(rate, MS * 10, MS * 1000);
    let mut network = Network::pair(slow, 1);
    network.join(0, 2, 3);
    let mut world = World::new(network, [&[0], &[]]);
    let addresses: [SocketAddr; 2] = [([192, 0, 2, 3], 1).into(), ([192, 0, 2, 4], 1).into()];
    for (end, address) in [End::A, End::B].into_iter().zip(addresses) {
        let mut peer = Peer::new(end, &world.network, &[]);
        peer.address = address;
        peer.far = addresses[usize::from(end == End::A)];
        world.peers.push(peer);
    }
    world.peers[2].queue.push_back(9);
    world.run_for(MS * 100);
    // A byte takes a millisecond.
    assert_eq!(world.received(1), [(11, 0)]);
    assert_eq!(world.received(3), [(12, 9)]);
}

#[test]
fn datagrams_without_a_way_are_counted() {
    let mut world = World::new(Network::pair(delayed(10), 1), [&[0, 100, 200, 300], &[]]);
    let old = world.peers[1].address;
    world.run_for(MS * 5);
    world.peers[1].address.set_port(1);
    world.run_for(MS * 145);
    let misrouted = world.network.misrouted();
    assert_eq!((misrouted.nobody_there, misrouted.unroutable), (1, 1));
    world.peers[1].address = old;
    world.network.part(0, 1);
    world.run_for(MS * 100);
    assert_eq!(world.network.misrouted().unroutable, 2);
    world.network.join(0, 0, 1);
    world.network.set_datagram_bytes_max(0);
    world.run_for(MS * 100);
    assert_eq!(world.network.misrouted().too_large, 1);
    assert_eq!(world.received(1), []);
}

#[test]
fn a_datagram_that_was_intercepted_does_not_arrive() {
    let mut world = World::new(Network::pair(delayed(0), 1), [&[], &[]]);
    world.peers[0].queue.push_back(1);
    world.with_nodes(|network, nodes| network.transmit(nodes));
    let now = world.network.now();
    let taken = world.network.intercept(now).expect("there without delay");
    assert_eq!((taken.from, taken.to), (End::A.address(), End::B.address()));
    assert_eq!(world.network.intercept(now), None);
    world.run_for(MS);
    assert_eq!(world.received(1), []);
}

#[test]
#[should_panic(expected = "too many events at one instant; seed 7, after 0ns")]
fn two_that_answer_each_other_without_delay_are_found() {
    let mut world = World::new(Network::pair(delayed(0), 7), [&[0], &[]]);
    world.peers[0].answers = true;
    world.peers[1].answers = true;
    world.run_for(MS);
}

#[test]
#[should_panic(expected = "more events than its limit; seed 7, after 10s")]
fn a_run_is_bounded_in_events() {
    let limits = Limits {
        events: 1000,
        ..Limits::default()
    };
    let network = Network::pair(delayed(20), 7).with_limits(limits);
    let mut world = World::new(network, [&[0], &[]]);
    world.peers[0].answers = true;
    world.peers[1].answers = true;
    world.run_for(MS * 100_000);
}

#[test]
#[should_panic(expected = "node 1: said 0, timeout in None")]
fn what_does_not_happen_in_time_is_told_with_the_state_of_each_node() {
    let dead = Conditions::default().with_loss(Loss::Random(1.0));
    let mut world = World::new(Network::pair(dead, 1), [&[0], &[]]);
    world.expect_within(MS * 100, "B hears A", |world| {
        !world.peers[1].received.is_empty()
    });
}
