//! The sessions of a server and of its viewer, from offer to keys.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Track, WallClock};
use glassline_sim::Rng;
use glassline_webrtc::{
    AcceptConfig, Certificate, DialConfig, Kinds, OpusOptions, ReceiveMode, Secrets, Session,
};

/// Address of the server.
pub(super) const SERVER: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 8000);
/// Address of every viewer, each of which has a path of its own.
pub(super) const VIEWER: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 5000);

/// Time in front of a run in which sessions are connected.
const BEFORE: Duration = Duration::from_secs(2);
/// Time from one exchange of datagrams to the next.
const STEP: Duration = Duration::from_millis(10);

/// Two sessions that are connected to each other.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) server: Session,
    pub(super) viewer: Session,
}

impl Connection {
    /// Connects the sessions of a viewer of `tracks` in the time before `start`.
    ///
    /// # Panics
    /// If the sessions do not connect, which nothing but a fault of theirs can cause.
    pub(super) fn new(
        certificate: &Arc<Certificate>,
        tracks: &[Track],
        start: Instant,
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
            certificate: Arc::clone(certificate),
            local: vec![VIEWER],
            turn_allocations: Vec::new(),
            secrets: secrets(),
            wall,
            send: Vec::new(),
            receive: Kinds {
                audio: false,
                ..Kinds::ALL
            },
            opus: OpusOptions::default(),
            mode: ReceiveMode::Open,
            data: None,
        };
        let (mut viewer, offer) = Session::dial(dial, now);
        let accept = AcceptConfig {
            certificate: Arc::clone(certificate),
            local: vec![SERVER.into()],
            secrets: secrets(),
            wall,
            tracks,
            receive: Kinds::NONE,
            opus: OpusOptions::default(),
            data: None,
        };
        let (mut server, answer) = Session::accept(accept, &offer, now).expect("our own offer");
        viewer.set_answer(&answer, now).expect("our own answer");
        let mut datagram = Vec::new();
        while now < start {
            now += STEP;
            viewer.handle_timeout(now);
            server.handle_timeout(now);
            // What a session does not take is a repetition of what it has.
            while viewer.poll_transmit(&mut datagram).is_some() {
                let _ = server.handle_datagram(now, VIEWER, SERVER, &mut datagram);
            }
            while server.poll_transmit(&mut datagram).is_some() {
                let _ = viewer.handle_datagram(now, SERVER, VIEWER, &mut datagram);
            }
        }
        assert!(
            viewer.is_connected() && server.is_connected(),
            "two sessions of ours connect within two seconds"
        );
        while server.poll_event().is_some() {}
        while viewer.poll_event().is_some() {}
        Self { server, viewer }
    }
}
