//! The sessions of a server and of its viewer, from offer to keys.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Track, WallClock};
use glassline_sim::Rng;
use glassline_webrtc::{AcceptConfig, Certificate, DialConfig, Kinds, Secrets, Session};

/// Address of the server.
pub(super) const SERVER: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 8000);
/// Address of every viewer, each of which has a path of its own.
pub(super) const VIEWER: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 5000);

/// Time in front of a run in which sessions are connected.
const BEFORE: Duration = Duration::from_secs(5);
/// Time from one exchange of datagrams to the next.
const STEP: Duration = Duration::from_millis(10);

/// Two sessions that are connected to each other.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) server: Session,
    pub(super) viewer: Session,
}

impl Connection {
    /// Connects the sessions of a viewer of `tracks` in the time before `start`, over a path with this round
    /// trip: a viewer repeats its requests for lost packets by the round trip of its checks.
    ///
    /// # Panics
    /// If the sessions do not connect, which nothing but a fault of theirs, or a round trip of a second, can
    /// cause.
    pub(super) fn new(
        certificate: &Arc<Certificate>,
        tracks: &[Track],
        start: Instant,
        round_trip: Duration,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut secrets = || {
            let mut bytes = [0; 32];
            rng.fill(&mut bytes);
            Secrets::expand(&bytes)
        };
        let mut now = start.checked_sub(BEFORE).unwrap_or(start);
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let dial = DialConfig {
            local: vec![VIEWER],
            receive: Kinds {
                audio: false,
                ..Kinds::ALL
            },
            ..DialConfig::new(Arc::clone(certificate), secrets(), wall)
        };
        let (mut viewer, offer) = Session::dial(dial, now);
        let accept = AcceptConfig {
            local: vec![SERVER.into()],
            tracks,
            ..AcceptConfig::new(Arc::clone(certificate), secrets(), wall)
        };
        let (mut server, answer) = Session::accept(accept, &offer, now).expect("our own offer");
        viewer.set_answer(&answer, now).expect("our own answer");
        let mut ways = [InFlight::default(), InFlight::default()];
        let [forward, backward] = &mut ways;
        while now < start {
            now += STEP;
            viewer.handle_timeout(now);
            server.handle_timeout(now);
            backward.take(&mut viewer, now);
            forward.take(&mut server, now + round_trip);
            // What a session does not take is a repetition of what it has.
            backward.deliver(now, |datagram| {
                let _ = server.handle_datagram(now, VIEWER, SERVER, datagram);
            });
            forward.deliver(now, |datagram| {
                let _ = viewer.handle_datagram(now, SERVER, VIEWER, datagram);
            });
        }
        assert!(
            viewer.is_connected() && server.is_connected(),
            "two sessions of ours connect within five seconds"
        );
        while server.poll_event().is_some() {}
        while viewer.poll_event().is_some() {}
        Self { server, viewer }
    }
}

/// One direction of the path during the handshake. All of the round trip is on the way to the viewer.
#[derive(Default)]
struct InFlight(VecDeque<(Instant, Vec<u8>)>);

impl InFlight {
    /// Takes all datagrams of `session`, which arrive at `at`.
    fn take(&mut self, session: &mut Session, at: Instant) {
        let mut datagram = Vec::new();
        while session.poll_transmit(&mut datagram).is_some() {
            self.0.push_back((at, std::mem::take(&mut datagram)));
        }
    }

    /// Hands over what has arrived by `now`.
    fn deliver(&mut self, now: Instant, mut receive: impl FnMut(&mut Vec<u8>)) {
        while self.0.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, mut datagram)) = self.0.pop_front() {
                receive(&mut datagram);
            }
        }
    }
}
