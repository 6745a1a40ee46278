//! Broken requests of strangers, on connections that stay open as long as the server allows.

use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};

use super::connections::HeldConnections;
use super::{Attack, STRANGER};
use crate::chaos::action::Kind;
use crate::chaos::error::Error;

/// Connections that send garbage at a time.
const CONNECTIONS: usize = 8;

/// Beginnings of RTSP messages, of interleaved frames and of HTTP tunnels.
const RTSP: [&[u8]; 9] = [
    b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    b"DESCRIBE rtsp://127.0.0.1/demo RTSP/1.0\r\nCSeq: 2\r\nAuthorization: Digest username=\"anna\", nonce=\"",
    b"ANNOUNCE rtsp://127.0.0.1/x RTSP/1.0\r\nCSeq: 3\r\nContent-Type: application/sdp\r\nContent-Length: 4000000000\r\n\r\n",
    b"SETUP rtsp://127.0.0.1/demo/trackID=0 RTSP/1.0\r\nCSeq: -4\r\nTransport: RTP/AVP/TCP;interleaved=255-256\r\n\r\n",
    b"RECORD rtsp://127.0.0.1/x RTSP/1.0\r\nCSeq: 5\r\nSession: \xff\xfe\r\n\r\n",
    b"$\x00\xff\xff",
    b"$\x01\x00\x08\x80\xc8",
    b"GET /demo HTTP/1.1\r\nx-sessioncookie: a\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n",
    b"POST /demo HTTP/1.1\r\nx-sessioncookie: a\r\nContent-Length: 32767\r\n\r\n!!!!",
];

/// Beginnings of HTTP requests.
const HTTP: [&[u8]; 8] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /demo/whep HTTP/1.1\r\nHost: a\r\nContent-Type: application/sdp\r\nContent-Length: 9\r\n\r\nv=0\r\no=\xff\xff",
    b"POST /call/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"PATCH /demo/whep/0 HTTP/1.1\r\nHost: a\r\nContent-Type: application/trickle-ice-sdpfrag\r\nContent-Length: 4\r\n\r\na=\xff\n",
    b"GET /%00%ff/../..//etc HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET /api/v1/streams HTTP/1.1\r\nHost: a\r\nAuthorization: Basic \xff\xff\r\n\r\n",
    b"DELETE /demo/whep/aaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

impl Attack<'_> {
    /// Sends whole, broken and random messages in random order on some connections, which are
    /// opened again when the server closes them.
    pub(super) fn send_broken_requests(&mut self) -> Result<(), Error> {
        let (target, messages): (SocketAddr, &[&[u8]]) = match self.action.kind {
            Kind::GarbageRtsp => (self.deployment.configuration.rtsp, &RTSP),
            _ => (self.deployment.configuration.http, &HTTP),
        };
        let mut held = HeldConnections::new(STRANGER)?;
        self.repeat(|attack| {
            for _ in held.settle()..CONNECTIONS {
                held.open(target, &message(&mut attack.random, messages));
                attack.outcome.sent += 1;
            }
            let random = &mut attack.random;
            let taken = held.send(|| message(random, messages));
            attack.outcome.sent += taken as u64;
            attack.step(Duration::from_millis(10))
        })?;
        self.outcome.refused = held.refused as u64;
        Ok(())
    }
}

/// One of `messages`, whole or cut, with changed bytes or followed by random ones.
fn message(random: &mut StdRng, messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes = messages[random.random_range(0..messages.len())].to_vec();
    match random.random_range(0..4) {
        0 => {}
        1 => bytes.truncate(random.random_range(1..=bytes.len())),
        2 => {
            for _ in 0..random.random_range(1..8) {
                let place = random.random_range(0..bytes.len());
                bytes[place] = random.random();
            }
        }
        _ => {
            let mut noise = vec![0; random.random_range(1..300)];
            random.fill_bytes(&mut noise);
            bytes.extend(noise);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn the_same_seed_sends_the_same_bytes() {
        let bytes = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let messages = (0..100).map(|_| message(&mut random, &RTSP));
            messages.collect::<Vec<_>>()
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
        assert!(bytes(3).iter().all(|message| !message.is_empty()));
    }
}
