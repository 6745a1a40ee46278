//! Relays and sessions over them, in virtual time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_sim::{Clock, Rng};
use turn_client_proto::types::stun::message::IntegrityAlgorithm;

use super::test_server::TestServer;
use super::*;
use crate::sdp::CandidateKind;
use crate::sdp::OpusOptions;
use crate::session::tests::{CLIENT, SERVER, tracks};
use crate::session::{AcceptConfig, DialConfig, Kinds, ReceiveMode, Secrets, Session};

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

/// A client, a TURN server and a media server, 10 ms from each other.
struct World {
    clock: Clock,
    turn: TestServer,
    /// What is under way, by arrival.
    air: BTreeMap<(Instant, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    sent: u64,
    client: SocketAddr,
    media: SocketAddr,
    /// The client's datagrams reach the media server, and the other way around.
    direct: bool,
    relay: Option<Relay>,
    dialled: Option<Session>,
    accepted: Option<Session>,
}

impl World {
    fn new(transport: Transport) -> Self {
        let clock = Clock::new();
        let (client, turn) = (address("192.0.2.2:40000"), address("203.0.113.1:3478"));
        let server = Server {
            host: "turn.example".to_owned(),
            port: 3478,
            transport,
        };
        let relay = Relay::new(server, turn, client, &credentials("secret"), clock.now());
        Self {
            clock,
            turn: TestServer::new(turn, &credentials("secret")),
            air: BTreeMap::new(),
            sent: 0,
            client,
            media: address("198.51.100.1:8189"),
            direct: true,
            relay: Some(relay),
            dialled: None,
            accepted: None,
        }
    }

    fn relay(&self) -> &Relay {
        self.relay.as_ref().expect("not yet dialled")
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let ends = [from, to];
        let is_direct = ends.contains(&self.client) && ends.contains(&self.media);
        if is_direct && !self.direct {
            return;
        }
        self.sent += 1;
        let key = (self.clock.now() + DELAY, self.sent);
        self.air.insert(key, (from, to, bytes));
    }

    fn drain(&mut self) {
        let mut out = Vec::new();
        while let Some(relay) = &mut self.relay
            && relay.poll_transmit(&mut out)
        {
            let to = relay.address();
            self.send(self.client, to, out.clone());
        }
        while let Some(session) = &mut self.dialled
            && let Some(to) = session.poll_transmit(&mut out)
        {
            self.send(self.client, to, out.clone());
        }
        while let Some(session) = &mut self.accepted
            && let Some(to) = session.poll_transmit(&mut out)
        {
            self.send(self.media, to, out.clone());
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, mut bytes: Vec<u8>) {
        let now = self.clock.now();
        if to == self.client {
            if let Some(relay) = &mut self.relay {
                let frame = frame(&bytes).expect("a whole frame");
                assert!(frame.content <= bytes.len());
                relay.handle(now, &bytes);
            } else if let Some(session) = &mut self.dialled {
                let _ = session.handle_datagram(now, from, to, &mut bytes);
            }
        } else if to == self.media {
            if let Some(session) = &mut self.accepted {
                let _ = session.handle_datagram(now, from, to, &mut bytes);
            }
        } else if let Some((from, to, bytes)) = self.turn.handle(from, to, &bytes) {
            self.send(from, to, bytes);
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            self.drain();
            let arrival = self.air.keys().next().map(|(at, _)| *at);
            let relay = self.relay.as_ref().and_then(Relay::poll_timeout);
            let sessions = [&mut self.dialled, &mut self.accepted];
            let sessions = sessions.map(|it| it.as_mut().and_then(Session::poll_timeout));
            let next = [arrival, relay, sessions[0], sessions[1], Some(end)];
            assert!(self.clock.advance_to_earliest(next));
            let now = self.clock.now();
            while let Some(entry) = self.air.first_entry()
                && entry.key().0 <= now
            {
                let (from, to, bytes) = entry.remove();
                self.deliver(from, to, bytes);
            }
            if let Some(relay) = &mut self.relay
                && relay.poll_timeout().is_some_and(|at| at <= now)
            {
                relay.handle_timeout(now);
            }
            for session in [&mut self.dialled, &mut self.accepted]
                .into_iter()
                .flatten()
            {
                if session.poll_timeout().is_some_and(|at| at <= now) {
                    session.handle_timeout(now);
                }
            }
            self.drain();
            if now >= end {
                return;
            }
        }
    }

    /// Dials the media server with the relay, and with a host candidate if `host`.
    fn dial(&mut self, host: bool) {
        let now = self.clock.now();
        let mut rng = Rng::new(3);
        let mut secrets = || {
            let mut seed = [0; 32];
            rng.fill(&mut seed);
            Secrets::expand(&seed)
        };
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let (mut dialled, offer) = Session::dial(
            DialConfig {
                certificate: CLIENT.clone(),
                local: Vec::from_iter(host.then_some(self.client)),
                relays: Vec::from_iter(self.relay.take()),
                data: None,
                secrets: secrets(),
                wall,
                send: Vec::new(),
                receive: Kinds::ALL,
                opus: OpusOptions::default(),
                mode: ReceiveMode::Open,
            },
            now,
        );
        let (accepted, answer) = Session::accept(
            AcceptConfig {
                certificate: SERVER.clone(),
                local: vec![self.media],
                secrets: secrets(),
                wall,
                tracks: &tracks(),
                receive: Kinds::NONE,
                opus: OpusOptions::default(),
                data: None,
            },
            &offer,
            now,
        )
        .expect("our own offer");
        dialled.set_answer(&answer, now).expect("our own answer");
        self.dialled = Some(dialled);
        self.accepted = Some(accepted);
    }

    fn path(&self) -> crate::session::Path {
        let session = self.dialled.as_ref().expect("dialled");
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
    assert_eq!(path.remote.address, world.media);
    assert_eq!(path.remote.kind, CandidateKind::Host);
    assert!(path.is_relayed());
    let relay = path.relay.expect("ours");
    assert_eq!(relay.to_string(), "turn:turn.example:3478?transport=udp");
    // Four times 10 ms: to the TURN server, on to the media server, and back.
    assert_eq!(path.round_trip, Some(DELAY * 4));
    // The other end knows what the offer said.
    let accepted = world.accepted.as_ref().and_then(Session::path);
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
    assert_eq!(path.local.address, world.client);
    assert_eq!(path.round_trip, Some(DELAY * 2));
}

#[test]
fn a_blocked_direct_path_falls_back_to_the_relay() {
    let mut world = World::new(Transport::Udp);
    world.direct = false;
    world.run_for(Duration::from_millis(300));
    world.dial(true);
    world.run_for(Duration::from_secs(4));
    assert!(world.path().is_relayed());
}

#[test]
fn a_nonce_that_changes_goes_unnoticed() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    world.turn.nonce += 1;
    world.dial(false);
    world.run_for(Duration::from_secs(2));
    assert!(world.path().is_relayed());
    assert!(world.turn.stale > 0, "the old nonce was used");
}

#[test]
fn sha256_is_used_where_the_server_offers_it() {
    for (offers, expected) in [
        (true, IntegrityAlgorithm::Sha256),
        (false, IntegrityAlgorithm::Sha1),
    ] {
        let mut world = World::new(Transport::Udp);
        world.turn.offers_sha256 = offers;
        world.run_for(Duration::from_millis(300));
        assert!(world.relay().relayed().is_some());
        assert_eq!(world.turn.integrity.last(), Some(&expected));
    }
}

#[test]
fn an_allocation_outlives_its_lifetime_and_is_given_back() {
    let mut world = World::new(Transport::Udp);
    world.run_for(Duration::from_millis(300));
    world.dial(false);
    // Three lifetimes, each nonce valid for part of one.
    for _ in 0..6 {
        world.turn.nonce += 1;
        world.run_for(Duration::from_secs(300));
        assert!(world.path().is_relayed());
    }
    assert!(world.turn.refreshed >= 3, "{}", world.turn.refreshed);
    world.run_for(Duration::from_secs(1));
    let now = world.clock.now();
    world.dialled.as_mut().expect("dialled").close(now);
    world.run_for(Duration::from_millis(500));
    assert!(world.accepted.as_ref().is_some_and(Session::is_closed));
    assert_eq!(world.turn.deleted, 1);
}

#[test]
fn a_wrong_password_and_a_silent_server_are_failures_that_end() {
    let mut world = World::new(Transport::Udp);
    world.turn = TestServer::new(world.turn.address, &credentials("another"));
    world.run_for(Duration::from_secs(20));
    assert_ne!(world.relay().state(), State::Allocated(world.client));
    assert_eq!(world.relay().relayed(), None);

    let mut world = World::new(Transport::Udp);
    world.turn.address = address("203.0.113.9:3478");
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
    let mut relay = world.relay.take().expect("a relay");
    assert!(relay.relayed().is_some());
    let mut out = Vec::new();
    assert!(
        !relay.wrap(world.media, b"12345", &mut out),
        "no channel yet"
    );
    world.relay = Some(relay);
    world.run_for(Duration::from_millis(300));
    let mut relay = world.relay.take().expect("a relay");
    assert!(relay.wrap(world.media, b"12345", &mut out));
    assert_eq!(out, b"\x40\0\0\x0512345\0\0\0");
}
