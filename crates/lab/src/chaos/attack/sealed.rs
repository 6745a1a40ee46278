//! A WebRTC peer that is authentic and hostile: after its handshake it sends sealed garbage.
//!
//! ```text
//! WHEP ─► Session: ICE, DTLS, keys ─► RTCP: NACK, transport feedback, reports, broken lengths
//!                                  └► data records: SCTP chunks of the association (`chunks`)
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_client::trust::Trust;
use glassline_client::whep;
use glassline_media::WallClock;
use glassline_sctp::channel::Limits;
use glassline_webrtc::dtls::{Cipher, CipherChoice};
use glassline_webrtc::{
    Certificate, DataConfig, DialConfig, Kinds, OpusOptions, ReceiveMode, Secrets, Session,
};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};
use url::Url;

use super::{Attack, STRANGER, chunks};
use crate::chaos::error::Error;

/// Packets of garbage in a step of a millisecond.
const PACKETS: usize = 4;

/// Time after which a peer is replaced: its association may have ended long before.
const SESSION: Duration = Duration::from_secs(1);

/// Longest wait for the handshake.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// A peer with its socket.
struct HostilePeer {
    socket: UdpSocket,
    local: SocketAddr,
    session: Session,
    location: Option<Url>,
    datagram: Vec<u8>,
}

impl Attack<'_> {
    /// Connects as a viewer, and sends sealed garbage; a new viewer follows every second, until the
    /// time is over.
    pub(super) fn send_sealed_garbage(&mut self) -> Result<(), Error> {
        let end = Instant::now() + self.action.time;
        let (mut opened, mut closed) = (0, 0);
        while Instant::now() < end {
            let Some(mut peer) = self.connect()? else {
                self.late("a viewer from another address could not connect".to_owned());
                return Ok(());
            };
            opened += 1;
            let until = Instant::now() + SESSION;
            while Instant::now() < end.min(until) && !peer.session.is_closed() {
                self.send_sealed(&mut peer);
                peer.exchange()?;
                self.step(Duration::from_millis(1))?;
            }
            closed += u64::from(peer.session.is_closed());
            peer.leave(&self.deployment.configuration.read_token);
        }
        self.note(format!(
            "{opened} sessions, of which the server closed {closed}"
        ));
        Ok(())
    }

    /// Joins as a viewer; `None` if the handshake takes too long.
    fn connect(&mut self) -> Result<Option<HostilePeer>, Error> {
        let configuration = &self.deployment.configuration;
        let url = Url::parse(&configuration.whep("demo")).map_err(std::io::Error::other)?;
        let mut peer = HostilePeer::join(&url, &configuration.read_token)?;
        let deadline = Instant::now() + CONNECT_MAX;
        while !peer.session.is_connected() && Instant::now() < deadline {
            peer.exchange()?;
            self.step(Duration::from_millis(1))?;
        }
        Ok(peer.session.is_connected().then_some(peer))
    }

    fn send_sealed(&mut self, peer: &mut HostilePeer) {
        for _ in 0..PACKETS {
            let random = &mut self.random;
            let is_sent = match random.random_range(0..8) {
                0 => {
                    let mut record = vec![0; random.random_range(0..400)];
                    random.fill_bytes(&mut record);
                    peer.session.queue_unchecked_record(&record)
                }
                1..5 => {
                    let next = peer.session.next_tsn().unwrap_or(0);
                    let chunks = chunks::garbage(random, next);
                    peer.session.queue_unchecked_chunks(&chunks)
                }
                _ => {
                    let packet = rtcp(random, &peer.session);
                    peer.session.queue_unchecked_rtcp(&packet)
                }
            };
            self.outcome.sent += u64::from(is_sent);
        }
    }
}

impl HostilePeer {
    fn join(url: &Url, token: &str) -> Result<Self, Error> {
        let socket = UdpSocket::bind((STRANGER, 0))?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let now = Instant::now();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let certificate = Certificate::generate().map_err(std::io::Error::other)?;
        let config = DialConfig {
            certificate: Arc::new(certificate),
            local: vec![local],
            turn_allocations: Vec::new(),
            data: Some(DataConfig {
                cipher: CipherChoice::Prefer(Cipher::fastest(Instant::now)),
                association: glassline_sctp::Config::default(),
                limits: Limits::default(),
            }),
            secrets: Secrets::expand(&rand::random()),
            wall: WallClock::new(now, unix.unwrap_or_default()),
            send: Vec::new(),
            receive: Kinds::ALL,
            opus: OpusOptions::default(),
            mode: ReceiveMode::CountOnly,
        };
        let (mut session, offer) = Session::dial(config, now);
        let answer = whep::post_offer(url, &offer, Some(token), Trust::Anybody);
        let answer = answer.map_err(std::io::Error::other)?;
        let accepted = session.set_answer(&answer.sdp, Instant::now());
        accepted.map_err(std::io::Error::other)?;
        Ok(Self {
            socket,
            local,
            session,
            location: answer.location,
            datagram: Vec::new(),
        })
    }

    /// Receives what waits, handles timers, and sends what the session has.
    fn exchange(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 2048];
        while let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
            let datagram = &mut buffer[..bytes];
            // A hostile peer does not mind what it cannot read.
            let _ = self
                .session
                .handle_datagram(Instant::now(), from, self.local, datagram);
        }
        let now = Instant::now();
        self.session.handle_timeout(now);
        while self.session.poll_event().is_some() {}
        while let Some((to, segment)) = self.session.poll_transmit_batch(now, &mut self.datagram) {
            for datagram in self.datagram.chunks(segment.max(1)) {
                // The server may have closed its port while it restarts.
                let _ = self.socket.send_to(datagram, to);
            }
        }
        Ok(())
    }

    fn leave(mut self, token: &str) {
        self.session.close(Instant::now());
        let _ = self.exchange();
        if let Some(location) = &self.location {
            // A session that is gone needs no farewell.
            let _ = whep::delete(location, Some(token), Trust::Anybody);
        }
    }
}

/// An RTCP compound packet: of a known kind, with contents and a length that may be wrong.
fn rtcp(random: &mut StdRng, session: &Session) -> Vec<u8> {
    let sources: Vec<u32> = session
        .receivers()
        .iter()
        .filter_map(|receiver| receiver.ssrc().map(|ssrc| ssrc.0))
        .collect();
    let ssrc = match sources.len() {
        0 => random.random(),
        count => sources[random.random_range(0..count)],
    };
    let mut packet = Vec::new();
    for _ in 0..random.random_range(1..40) {
        // Reports, descriptions, byes, feedback for transport and payload, extended reports.
        let kind: u8 = random.random_range(200..=207);
        let count: u8 = random.random_range(0..32);
        let words: u16 = random.random_range(0..24);
        let mut body = vec![0; usize::from(words) * 4];
        random.fill_bytes(&mut body);
        // Sender and media are known, so that the packet is not ignored.
        for word in body.chunks_exact_mut(4).take(2) {
            word.copy_from_slice(&ssrc.to_be_bytes());
        }
        let told = match random.random_range(0..8) {
            0 => random.random(),
            _ => words,
        };
        packet.extend([0x80 | count, kind]);
        packet.extend(told.to_be_bytes());
        packet.extend(body);
        if packet.len() > 1000 {
            break;
        }
    }
    packet.resize(packet.len().max(8), 0);
    packet
}
