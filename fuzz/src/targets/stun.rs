//! The inspection of datagrams before any session is involved, and an ICE-lite session's
//! handling of STUN: any bytes, and valid requests that were damaged.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Track, WallClock};
use glassline_webrtc::demux::is_rtcp;
use glassline_webrtc::{
    AcceptConfig, Certificate, DatagramKind, DialConfig, Dropped, Kinds, Received, Secrets,
    Session, classify, mapped_address, stun_username,
};

pub(crate) fn run(bytes: &[u8]) {
    if let Some(first) = bytes.first() {
        classify(*first);
    }
    is_rtcp(bytes);
    if let Some((local, remote)) = stun_username(bytes) {
        assert!(local.len() + remote.len() < bytes.len());
        assert!(!local.contains(':'));
    }
    if let Some(transaction) = bytes.get(8..20).and_then(|it| it.try_into().ok()) {
        // The answer of a STUN server that may send anything.
        mapped_address(bytes, transaction);
    }
    SERVER.with_borrow_mut(|server| server.feed(bytes));
}

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::new());
}

/// A session that waits for its peer, and a request of that peer.
struct Server {
    session: Session,
    now: Instant,
    request: Vec<u8>,
}

const HERE: &str = "192.0.2.1:8189";
const THERE: &str = "192.0.2.2:40000";

impl Server {
    fn new() -> Self {
        let now = Instant::now();
        let certificate = Arc::new(Certificate::generate().expect("a certificate"));
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let (mut client, offer) = Session::dial(
            DialConfig {
                local: vec![address(THERE)],
                receive: Kinds::ALL,
                ..DialConfig::new(certificate.clone(), Secrets::expand(&[1; 32]), wall)
            },
            now,
        );
        let config = AcceptConfig {
            local: vec![address(HERE).into()],
            tracks: &[Track::audio(Codec::Opus, 2)],
            ..AcceptConfig::new(certificate, Secrets::expand(&[2; 32]), wall)
        };
        let (session, answer) = Session::accept(config, &offer, now).expect("our own offer");
        client.set_answer(&answer, now).expect("our own answer");
        let mut request = Vec::new();
        client.handle_timeout(now + Duration::from_millis(50));
        client.poll_transmit(&mut request).expect("the first check");
        Self {
            session,
            now,
            request,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut noise = bytes.to_vec();
        let _ = self.take(&mut noise);
        // The input damages a real request: any effective change must be refused.
        let mut damaged = self.request.clone();
        for (byte, damage) in damaged.iter_mut().zip(bytes) {
            *byte ^= damage;
        }
        let is_stun = classify(damaged[0]) == DatagramKind::Stun;
        if self.take(&mut damaged).is_ok() && is_stun {
            // Only the bytes behind the message integrity may differ.
            let tail = self.request.len() - 8;
            assert_eq!(damaged[20..tail], self.request[20..tail]);
        }
        if self.session.is_closed() {
            // Enough invalid DTLS ends a handshake; STUN never does.
            let is_dtls = |byte: &u8| classify(*byte) == DatagramKind::Dtls;
            assert!(bytes.first().is_some_and(is_dtls) || is_dtls(&damaged[0]));
            *self = Self::new();
        }
        let mut out = Vec::new();
        while self.session.poll_transmit(&mut out).is_some() {}
        while self.session.poll_event().is_some() {}
        assert!(self.session.poll_timeout().is_some());
    }

    fn take(&mut self, datagram: &mut [u8]) -> Result<(), Dropped> {
        let received =
            self.session
                .handle_datagram(self.now, address(THERE), address(HERE), datagram)?;
        assert!(matches!(received, Received::Consumed));
        Ok(())
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
