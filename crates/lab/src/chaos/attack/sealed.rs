//! WebRTC peers that are authentic and hostile: after their handshake they send sealed garbage.
//!
//! ```text
//! viewer       WHEP ─► Session ─► RTCP: NACK, transport feedback, reports, broken lengths
//!                              └► data records: SCTP chunks of the association (`chunks`)
//! participant  /call ─► Session ─► RTCP, and RTP: broken headers, extensions, padding and voices
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_client::trust::Trust;
use glassline_client::whep;
use glassline_media::{Codec, Track, WallClock};
use glassline_sctp::channel::Limits;
use glassline_webrtc::dtls::{Cipher, CipherChoice};
use glassline_webrtc::{
    Certificate, DataConfig, DialConfig, Kinds, ReceiveMode, Secrets, SenderIndex, Session,
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

/// Bytes of an RTP header without contributing sources and extensions (RFC 3550 §5.1).
const HEADER_BYTES: usize = 12;

/// The role of a hostile peer towards the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A viewer of the built-in stream, with data channels.
    Viewer,
    /// A participant of a room, whose voice others may hear.
    Participant,
}

/// A peer with its socket.
struct HostilePeer {
    role: Role,
    token: String,
    socket: UdpSocket,
    local: SocketAddr,
    session: Session,
    location: Option<Url>,
    datagram: Vec<u8>,
}

impl Attack<'_> {
    /// Connects as a viewer, and sends sealed garbage; a participant of a room follows after a
    /// second, then a viewer again, until the time is over.
    pub(super) fn send_sealed_garbage(&mut self) -> Result<(), Error> {
        let end = Instant::now() + self.action.time;
        let (mut opened, mut closed) = (0, 0);
        let roles = [Role::Viewer, Role::Participant];
        let mut roles = roles.into_iter().cycle();
        while Instant::now() < end
            && let Some(role) = roles.next()
        {
            let Some(mut peer) = self.connect(role)? else {
                self.late(format!("no {role:?} from another address could connect"));
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
            peer.leave();
        }
        self.note(format!(
            "{opened} sessions, of which the server closed {closed}"
        ));
        Ok(())
    }

    /// Joins; `None` if the handshake takes too long.
    fn connect(&mut self, role: Role) -> Result<Option<HostilePeer>, Error> {
        let configuration = &self.deployment.configuration;
        let (url, token) = match role {
            Role::Viewer => (configuration.whep("demo"), &configuration.read_token),
            Role::Participant => (configuration.room("hostile"), &configuration.publish_token),
        };
        let url = Url::parse(&url).map_err(std::io::Error::other)?;
        let mut peer = HostilePeer::join(role, &url, token.clone())?;
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
                0..6 if peer.role == Role::Participant => {
                    let (header_bytes, packet) = rtp(random);
                    peer.session
                        .queue_unchecked_rtp(SenderIndex(0), header_bytes, &packet)
                }
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
    fn join(role: Role, url: &Url, token: String) -> Result<Self, Error> {
        let socket = UdpSocket::bind((STRANGER, 0))?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let now = Instant::now();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let certificate = Certificate::generate().map_err(std::io::Error::other)?;
        let secrets = Secrets::expand(&rand::random());
        let wall = WallClock::new(now, unix.unwrap_or_default());
        let config = DialConfig {
            local: vec![local],
            data: (role == Role::Viewer).then(|| DataConfig {
                cipher: CipherChoice::Prefer(Cipher::fastest(Instant::now)),
                association: glassline_sctp::Config::default(),
                limits: Limits::default(),
            }),
            send: match role {
                Role::Viewer => Vec::new(),
                Role::Participant => vec![Track::audio(Codec::Opus, 1)],
            },
            receive: match role {
                Role::Viewer => Kinds::ALL,
                Role::Participant => Kinds::NONE,
            },
            mode: ReceiveMode::CountOnly,
            ..DialConfig::new(Arc::new(certificate), secrets, wall)
        };
        let (mut session, offer) = Session::dial(config, now);
        let answer = whep::post_offer(url, &offer, Some(&token), Trust::Anyone);
        let answer = answer.map_err(std::io::Error::other)?;
        let accepted = session.set_answer(&answer.sdp, Instant::now());
        accepted.map_err(std::io::Error::other)?;
        Ok(Self {
            role,
            token,
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
                let _ = self.socket.send_to(datagram, to.socket);
            }
        }
        Ok(())
    }

    fn leave(mut self) {
        self.session.close(Instant::now());
        let _ = self.exchange();
        if let Some(location) = &self.location {
            // A session that is gone needs no farewell.
            let _ = whep::delete(location, Some(&self.token), Trust::Anyone);
        }
    }
}

/// An RTP packet and the length of its header as SRTP sees it: payload type, contributing sources,
/// extension and padding may not fit the packet.
fn rtp(random: &mut StdRng) -> (usize, Vec<u8>) {
    let first = match random.random_range(0..4) {
        // Version 2, and whatever follows.
        0 => 0x80 | random.random_range(0..0x40),
        1 => 0x90,
        _ => 0x80,
    };
    let mut packet = vec![0; HEADER_BYTES];
    random.fill_bytes(&mut packet);
    packet[0] = first;
    if random.random_range(0..4) > 0 {
        // The payload type that the answer most likely names for Opus.
        packet[1] = 111;
    }
    let sources = 4 * usize::from(first & 0xf);
    packet.resize(HEADER_BYTES + sources, 0);
    if first & 0x10 != 0 {
        let words: u16 = random.random_range(0..4);
        let told = match random.random_range(0..4) {
            0 => random.random(),
            _ => words,
        };
        packet.extend([0xbe, 0xde]);
        packet.extend(told.to_be_bytes());
        let mut elements = vec![0; 4 * usize::from(words)];
        random.fill_bytes(&mut elements);
        packet.extend(elements);
    }
    let header_bytes = packet.len();
    let mut voice = vec![0; random.random_range(0..300)];
    random.fill_bytes(&mut voice);
    packet.extend(voice);
    (header_bytes, packet)
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
