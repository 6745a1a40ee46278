//! Allocations, and sessions that use them, in virtual time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_sim::{Conditions, Datagram, Network, Node, Rng, Simulation};
use turn_client_proto::types::stun::message::IntegrityAlgorithm;

use super::test_server::TestServer;
use super::*;
use crate::sdp::CandidateKind;
use crate::session::tests::{CLIENT, SERVER, tracks};
use crate::session::{AcceptConfig, DialConfig, Kinds, Secrets, Session};

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn credentials(password: &str) -> Credentials {
    Credentials {
        username: "alice".to_owned(),
        password: password.to_owned(),
    }
}

const DELAY: Duration = Duration::from_millis(10);

/// A client that obtains an allocation and then dials with it.
struct Client {
    address: SocketAddr,
    relay: Option<Allocation>,
    dialed: Option<Session>,
}

impl Node for Client {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        let Datagram {
            from,
            to,
            mut bytes,
        } = datagram;
        if let Some(relay) = &mut self.relay {
            let frame = frame(&bytes).expect("a whole frame");
            assert!(frame.content <= bytes.len());
            relay.handle(now, &bytes);
        } else if let Some(session) = &mut self.dialed {
            let _ = session.handle_datagram(now, from, to, &mut bytes);
        }
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        let (from, mut bytes) = (self.address, Vec::new());
        if let Some(relay) = &mut self.relay
            && relay.poll_transmit(&mut bytes)
        {
            let to = relay.address();
            return Some(Datagram { from, to, bytes });
        }
        let to = self.dialed.as_mut()?.poll_transmit(&mut bytes)?.socket;
        Some(Datagram { from, to, bytes })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let relay = self.relay.as_ref().and_then(Allocation::poll_timeout);
        let dialed = self.dialed.as_mut().and_then(Session::poll_timeout);
        relay.into_iter().chain(dialed).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(relay) = &mut self.relay
            && relay.poll_timeout().is_some_and(|at| at <= now)
        {
            relay.handle_timeout(now);
        }
        if let Some(session) = &mut self.dialed
            && session.poll_timeout().is_some_and(|at| at <= now)
        {
            session.handle_timeout(now);
        }
    }

    fn state(&self) -> String {
        let relay = self.relay.as_ref().map(Allocation::state);
        let connected = self.dialed.as_ref().map(Session::is_connected);
        format!("relay {relay:?}, session connected {connected:?}")
    }
}

/// A media server that answers the client's offer.
struct Media {
    address: SocketAddr,
    accepted: Option<Session>,
}

impl Node for Media {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        let Datagram {
            from,
            to,
            mut bytes,
        } = datagram;
        if let Some(session) = &mut self.accepted {
            let _ = session.handle_datagram(now, from, to, &mut bytes);
        }
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        let mut bytes = Vec::new();
        let to = self.accepted.as_mut()?.poll_transmit(&mut bytes)?.socket;
        let from = self.address;
        Some(Datagram { from, to, bytes })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.accepted.as_mut()?.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(session) = &mut self.accepted {
            session.handle_timeout(now);
        }
    }

    fn state(&self) -> String {
        let connected = self.accepted.as_ref().map(Session::is_connected);
        format!("session connected {connected:?}")
    }
}

/// The TURN server, which is also at the addresses that it relays, and answers at once.
struct Turn {
    server: TestServer,
    answers: VecDeque<Datagram>,
}

impl Node for Turn {
    fn is_at(&self, address: SocketAddr) -> bool {
        address.ip() == self.server.address.ip()
    }

    fn handle(&mut self, _: Instant, datagram: Datagram) {
        let Datagram { from, to, bytes } = datagram;
        if let Some((from, to, bytes)) = self.server.handle(from, to, &bytes) {
            self.answers.push_back(Datagram { from, to, bytes });
        }
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        self.answers.pop_front()
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn state(&self) -> String {
        format!("{:?}", self.server.allocations)
    }
}

/// A client, a TURN server and a media server, 10 ms from each other.
struct World {
    network: Network,
    client: Client,
    turn: Turn,
    media: Media,
}

/// Indices of the nodes of a [`World`] in its network.
const CLIENT_NODE: usize = 0;
const TURN_NODE: usize = 1;
const MEDIA_NODE: usize = 2;

impl Simulation for World {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let nodes: &mut [&mut dyn Node] = &mut [&mut self.client, &mut self.turn, &mut self.media];
        run(&mut self.network, nodes)
    }
}

impl World {
    fn new(transport: Transport) -> Self {
        let mut network = Network::new(1);
        for (a, b) in [
            (CLIENT_NODE, TURN_NODE),
            (CLIENT_NODE, MEDIA_NODE),
            (TURN_NODE, MEDIA_NODE),
        ] {
            let conditions = Conditions::delayed(DELAY);
            let path = network.add_path(conditions.clone(), conditions);
            network.join(path, a, b);
        }
        let (client, turn) = (address("192.0.2.2:40000"), address("203.0.113.1:3478"));
        let server = Server {
            host: "turn.example".to_owned(),
            port: 3478,
            transport,
        };
        let relay = Allocation::new(server, turn, client, &credentials("secret"), network.now());
        Self {
            network,
            client: Client {
                address: client,
                relay: Some(relay),
                dialed: None,
            },
            turn: Turn {
                server: TestServer::new(turn, &credentials("secret")),
                answers: VecDeque::new(),
            },
            media: Media {
                address: address("198.51.100.1:8189"),
                accepted: None,
            },
        }
    }

    fn relay(&self) -> &Allocation {
        self.client.relay.as_ref().expect("not yet dialed")
    }

    /// Dials the media server with the allocation, and with a host candidate if `host`.
    fn dial(&mut self, host: bool) {
        let now = self.network.now();
        let mut rng = Rng::new(3);
        let mut secrets = || {
            let mut seed = [0; 32];
            rng.fill(&mut seed);
            Secrets::expand(&seed)
        };
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let (mut dialed, offer) = Session::dial(
            DialConfig {
                local: Vec::from_iter(host.then_some(self.client.address)),
                turn_allocations: Vec::from_iter(self.client.relay.take()),
                receive: Kinds::ALL,
                ..DialConfig::new(CLIENT.clone(), secrets(), wall)
            },
            now,
        );
        let (accepted, answer) = Session::accept(
            AcceptConfig {
                local: vec![self.media.address.into()],
                tracks: &tracks(),
                ..AcceptConfig::new(SERVER.clone(), secrets(), wall)
            },
            &offer,
            now,
        )
        .expect("our own offer");
        dialed.set_answer(&answer, now).expect("our own answer");
        self.client.dialed = Some(dialed);
        self.media.accepted = Some(accepted);
    }

    fn path(&self) -> crate::session::Path {
        let session = self.client.dialed.as_ref().expect("dialed");
        assert!(session.is_connected());
        session.path().expect("connected")
    }
}

#[test]
fn a_session_without_a_host_candidate_goes_through_the_relay() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    let relayed = world.relay().relayed().expect("allocated");
    assert_eq!(relayed, address("203.0.113.1:50000"));
    world.dial(false);
    world.run_for(Duration::from_secs(2));
    let path = world.path();
    assert_eq!(path.local.address, relayed);
    assert_eq!(path.local.kind, CandidateKind::Relay);
    assert_eq!(path.remote.address, world.media.address);
    assert_eq!(path.remote.kind, CandidateKind::Host);
    assert!(path.is_relayed());
    let relay = path.relay.expect("ours");
    assert_eq!(relay.to_string(), "turn:turn.example:3478?transport=udp");
    // Four times 10 ms: to the TURN server, on to the media server, and back.
    assert_eq!(path.round_trip, Some(DELAY * 4));
    // The other end knows the type from the offer.
    let accepted = world.media.accepted.as_ref().and_then(Session::path);
    let accepted = accepted.expect("connected");
    assert!(accepted.is_relayed() && accepted.relay.is_none());
    assert_eq!(accepted.remote.kind, CandidateKind::Relay);
}

#[test]
fn a_direct_path_is_preferred() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    world.dial(true);
    world.run_for(Duration::from_secs(4));
    let path = world.path();
    assert!(!path.is_relayed(), "{path:?}");
    assert_eq!(path.local.address, world.client.address);
    assert_eq!(path.round_trip, Some(DELAY * 2));
}

#[test]
fn a_blocked_direct_path_falls_back_to_the_relay() {
    let mut world = World::new(Transport::Udp);
    world.network.part(CLIENT_NODE, MEDIA_NODE);
    world.run_for(Duration::from_millis(300));
    world.dial(true);
    world.run_for(Duration::from_secs(4));
    assert!(world.path().is_relayed());
}

#[test]
fn a_nonce_that_changes_goes_unnoticed() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    world.turn.server.nonce += 1;
    world.dial(false);
    world.run_for(Duration::from_secs(2));
    assert!(world.path().is_relayed());
    assert!(world.turn.server.stale > 0, "the old nonce was used");
}

#[test]
fn sha256_is_used_where_the_server_offers_it() {
    for (offers, expected) in [
        (true, IntegrityAlgorithm::Sha256),
        (false, IntegrityAlgorithm::Sha1),
    ] {
        let mut world = World::new(Transport::Udp);
        world.turn.server.offers_sha256 = offers;
        world.run_for(Duration::from_millis(300));
        assert!(world.relay().relayed().is_some());
        assert_eq!(world.turn.server.integrity.last(), Some(&expected));
    }
}

#[test]
fn an_allocation_outlives_its_lifetime_and_is_given_back() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    world.dial(false);
    // Three lifetimes, each with nonces that are valid for a part of it.
    for _ in 0..6 {
        world.turn.server.nonce += 1;
        world.run_for(Duration::from_secs(300));
        assert!(world.path().is_relayed());
    }
    assert!(
        world.turn.server.refreshed >= 3,
        "{}",
        world.turn.server.refreshed
    );
    world.run_for(Duration::from_secs(1));
    let now = world.network.now();
    world.client.dialed.as_mut().expect("dialed").close(now);
    world.run_for(Duration::from_millis(500));
    assert!(
        world
            .media
            .accepted
            .as_ref()
            .is_some_and(Session::is_closed)
    );
    assert_eq!(world.turn.server.deleted, 1);
}

#[test]
fn a_wrong_password_and_a_silent_server_are_failures_that_end() {
    let mut world = World::new(Transport::Udp);
    world.turn.server = TestServer::new(world.turn.server.address, &credentials("another"));
    world.run_for(Duration::from_secs(20));
    assert_ne!(
        world.relay().state(),
        State::Allocated(world.client.address)
    );
    assert_eq!(world.relay().relayed(), None);

    let mut world = World::new(Transport::Udp);
    world.turn.server.address = address("203.0.113.9:3478");
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.relay().state(), State::Failed);
    assert_eq!(world.relay().poll_timeout(), None);
}

#[test]
fn frames_of_a_stream_are_told_apart_with_their_padding() {
    assert_eq!(frame(&[0x40, 0, 0]), None);
    let channel = frame(&[0x40, 0, 0, 5]);
    let expected = Frame {
        content: 9,
        length: 12,
    };
    assert_eq!(channel, Some(expected));
    let stun = frame(&[1, 3, 0, 8]);
    let expected = Frame {
        content: 28,
        length: 28,
    };
    assert_eq!(stun, Some(expected));
}

#[test]
fn frames_on_a_stream_are_padded() {
    let mut world = World::new(Transport::Tcp);
    world.run_for(Duration::from_millis(300));
    let mut relay = world.client.relay.take().expect("a relay");
    assert!(relay.relayed().is_some());
    let mut out = Vec::new();
    assert!(
        !relay.wrap(world.media.address, b"12345", &mut out),
        "no channel yet"
    );
    world.client.relay = Some(relay);
    world.run_for(Duration::from_millis(300));
    let mut relay = world.client.relay.take().expect("a relay");
    assert!(relay.wrap(world.media.address, b"12345", &mut out));
    assert_eq!(out, b"\x40\0\0\x0512345\0\0\0");
}
