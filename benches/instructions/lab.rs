//! Sessions in memory, in virtual time, with the datagrams that their viewers send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_egress::webrtc::{Outbox, Route, SendCounters, Sink};
use glassline_net::{Sent, Transmit};
use glassline_webrtc::demux::is_rtcp;
use glassline_webrtc::{
    Certificate, DatagramKind, SenderIndex, Session, TransportAddress, classify,
};

use crate::pair::{CLIENT, SERVER, pair};
use crate::rtp::Depacketizing;
use crate::rtsp::Players;

/// Number of sessions: enough that work done once per burst is shared as on a busy shard.
pub(crate) const SESSIONS: usize = 64;
/// Packets of a frame of 3 Mbit/s at 30 frames per second.
pub(crate) const PACKETS: usize = 12;
/// Bytes of a packet's payload.
pub(crate) const PAYLOAD_BYTES: usize = 1100;

/// A socket that accepts everything at once.
pub(crate) struct Null;

impl Sink for Null {
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        Sent {
            transmits: transmits.len(),
            offset: 0,
            bytes: transmits.iter().map(|it| it.contents.len()).sum(),
            stopped: None,
        }
    }
}

/// Kinds of datagrams that a viewer sends while it watches.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Report,
    Feedback,
    Stun,
}

/// The attack messages of a viewer.
const VIEWER: &[Kind] = &[Kind::Report, Kind::Stun];
/// The attack messages of a viewer under congestion control that the server takes.
const PACED_VIEWER: &[Kind] = &[Kind::Feedback];

/// Both ends of one session.
struct Ends {
    server: Session,
    client: Session,
    /// The messages that the client is to send.
    kinds: &'static [Kind],
    /// The next datagram of each kind for the server.
    waiting: [Option<Vec<u8>>; 3],
}

/// 64 viewers of one stream over WebRTC, as many under congestion control and over RTSP, and a
/// camera's packets.
pub(crate) struct Lab {
    ends: Vec<Ends>,
    /// As many viewers whose sessions are under congestion control.
    paced: Vec<Ends>,
    players: Players,
    depacketizing: Depacketizing,
    outbox: Outbox<Null>,
    now: Instant,
    payloads: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    timestamp: u32,
}

const ROUTE: Route = Route {
    destination: TransportAddress::udp(CLIENT),
    source: None,
};

impl Lab {
    pub(crate) fn new() -> Result<Self, String> {
        let start = Instant::now();
        let certificates = [certificate()?, certificate()?];
        let connected = |kinds| -> Result<Vec<Ends>, String> {
            let numbers = 0..SESSIONS;
            let ends = numbers.map(|number| Ends::connected(&certificates, number, kinds, start));
            ends.collect()
        };
        let mut lab = Self {
            ends: connected(VIEWER)?,
            paced: connected(PACED_VIEWER)?,
            players: Players::new(SESSIONS, PACKETS * PAYLOAD_BYTES, start),
            depacketizing: Depacketizing::new(PACKETS * PAYLOAD_BYTES)?,
            outbox: Outbox::new(Null, Arc::new(SendCounters::default())),
            now: start + HANDSHAKE,
            payloads: (0..PACKETS).map(|n| vec![n as u8; PAYLOAD_BYTES]).collect(),
            scratch: vec![0; PACKETS * 1500],
            timestamp: 0,
        };
        lab.refill();
        Ok(lab)
    }

    /// Sends viewers two frames, then lets time pass until each viewer has sent one datagram of
    /// every kind, which the cases take.
    pub(crate) fn refill(&mut self) {
        self.timestamp = self.timestamp.wrapping_add(3000);
        let mut latest = self.now;
        self.players.publish();
        for ends in self.ends.iter_mut().chain(&mut self.paced) {
            latest = latest.max(ends.refill(self.now, &self.payloads, self.timestamp));
        }
        self.now = latest;
    }

    /// Seals one frame for every session.
    pub(crate) fn seal(&mut self) -> u64 {
        let mut bytes = 0;
        for ends in &mut self.ends {
            for (place, payload) in self.payloads.iter().enumerate() {
                let marker = place + 1 == PACKETS;
                let out = &mut self.scratch[place * 1500..];
                let sealed = ends.server.seal(
                    SenderIndex(0),
                    self.timestamp,
                    marker,
                    payload,
                    self.now,
                    out,
                );
                bytes += sealed.expect("connected").len;
            }
        }
        bytes as u64
    }

    /// Seals one frame for every session into the outbox, and sends it.
    pub(crate) fn send(&mut self) -> u64 {
        let (timestamp, now) = (self.timestamp, self.now);
        for ends in &mut self.ends {
            let mut batch = self.outbox.batch(ROUTE);
            for (place, payload) in self.payloads.iter().enumerate() {
                let marker = place + 1 == PACKETS;
                batch.push(|out| {
                    let sealed =
                        ends.server
                            .seal(SenderIndex(0), timestamp, marker, payload, now, out);
                    sealed.map_or(0, |sealed| sealed.len)
                });
            }
            drop(batch);
            if self.outbox.is_ripe() {
                self.outbox.flush();
            }
        }
        self.outbox.flush();
        0
    }

    /// Seals the last packet of every session again.
    pub(crate) fn retransmit(&mut self) -> u64 {
        let payload = &self.payloads[PACKETS - 1];
        let mut bytes = 0;
        for ends in &mut self.ends {
            let next = ends.server.senders()[0].next_sequence();
            let last = next.expect("connected") - 1;
            let sealed = ends.server.seal_retransmission(
                SenderIndex(0),
                last,
                self.timestamp,
                true,
                payload,
                self.now,
                &mut self.scratch,
            );
            bytes += sealed.expect("sent before, RTX agreed");
        }
        bytes as u64
    }

    pub(crate) fn receiver_reports(&mut self) -> u64 {
        self.take(Kind::Report)
    }

    pub(crate) fn transport_feedback(&mut self) -> u64 {
        self.take(Kind::Feedback)
    }

    pub(crate) fn keep_alives(&mut self) -> u64 {
        self.take(Kind::Stun)
    }

    /// Writes one frame to every RTSP client.
    pub(crate) fn write_to_rtsp_clients(&mut self) -> u64 {
        self.players.write_frame()
    }

    /// Depacketizes as many frames as there are sessions.
    pub(crate) fn depacketize(&mut self) -> u64 {
        (0..SESSIONS).map(|_| self.depacketizing.push_frame()).sum()
    }

    /// Passes every session its waiting datagram, as a shard does.
    fn take(&mut self, kind: Kind) -> u64 {
        let mut events = 0;
        let viewers = match kind {
            Kind::Feedback => &mut self.paced,
            Kind::Report | Kind::Stun => &mut self.ends,
        };
        for ends in viewers {
            let datagram = ends.waiting[kind as usize].take();
            let mut datagram = datagram.expect("refilled");
            let server = &mut ends.server;
            let taken = server.handle_datagram(self.now, CLIENT, SERVER, &mut datagram);
            assert!(taken.is_ok(), "{:?}", taken.err());
            while server.poll_event().is_some() {
                events += 1;
            }
            while server.poll_transmit(&mut self.scratch).is_some() {
                events += 1;
            }
            events += u64::from(server.poll_timeout().is_some());
        }
        // The scratch buffers were cut to the length of a datagram.
        self.scratch.resize(PACKETS * 1500, 0);
        events
    }
}

/// Virtual time in which two sessions in memory connect.
const HANDSHAKE: Duration = Duration::from_millis(500);
/// Longest virtual wait for a viewer's STUN request, which comes every few seconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl Ends {
    fn connected(
        certificates: &[Arc<Certificate>; 2],
        number: usize,
        kinds: &'static [Kind],
        start: Instant,
    ) -> Result<Self, String> {
        let (mut server, client) = pair(certificates, number, start)?;
        if kinds.contains(&Kind::Feedback) {
            server.enable_congestion_control(Algorithm::Glide, start);
        }
        let mut ends = Self {
            server,
            client,
            kinds,
            waiting: Default::default(),
        };
        for step in 0..100 {
            ends.exchange(start + HANDSHAKE * step / 100, false);
        }
        if ends.server.is_connected() && ends.client.is_connected() {
            Ok(ends)
        } else {
            Err("two sessions in memory do not connect".to_owned())
        }
    }

    /// Sends two frames, then lets time pass until one datagram of each kind waits; returns that
    /// time.
    fn refill(&mut self, from: Instant, payloads: &[Vec<u8>], timestamp: u32) -> Instant {
        for kind in self.kinds {
            if let Some(mut late) = self.waiting[*kind as usize].take() {
                let _ = self.server.handle_datagram(from, CLIENT, SERVER, &mut late);
            }
        }
        let mut out = vec![0; 1500];
        for frame in [timestamp.wrapping_sub(1500), timestamp] {
            for (place, payload) in payloads.iter().enumerate() {
                let marker = place + 1 == payloads.len();
                let sealed =
                    self.server
                        .seal(SenderIndex(0), frame, marker, payload, from, &mut out);
                let len = sealed.expect("connected").len;
                let _ = self
                    .client
                    .handle_datagram(from, SERVER, CLIENT, &mut out[..len]);
            }
        }
        let mut now = from;
        let is_awaited = |it: &Self| {
            let mut kinds = it.kinds.iter();
            kinds.any(|kind| it.waiting[*kind as usize].is_none())
        };
        while is_awaited(self) {
            self.exchange(now, true);
            let next = [self.server.poll_timeout(), self.client.poll_timeout()];
            let next = next.into_iter().flatten().min().expect("both live");
            now = next.max(now + Duration::from_millis(1));
            assert!(now < from + PATIENCE, "a viewer is silent");
        }
        now
    }

    /// Lets both ends act and passes their datagrams on. With `kept`, the first datagram of each
    /// kind for the server is kept instead.
    fn exchange(&mut self, now: Instant, kept: bool) {
        self.server.handle_timeout(now);
        self.client.handle_timeout(now);
        let mut out = Vec::new();
        loop {
            let mut quiet = true;
            while self.client.poll_transmit(&mut out).is_some() {
                quiet = false;
                let place = kind(&out).map(|kind| kind as usize);
                if let Some(place) = place.filter(|_| kept)
                    && self.waiting[place].is_none()
                {
                    self.waiting[place] = Some(out.clone());
                } else {
                    // A refused datagram is repeated by the other end.
                    let _ = self.server.handle_datagram(now, CLIENT, SERVER, &mut out);
                }
            }
            while self.server.poll_transmit(&mut out).is_some() {
                quiet = false;
                let _ = self.client.handle_datagram(now, SERVER, CLIENT, &mut out);
            }
            while self.server.poll_event().is_some() || self.client.poll_event().is_some() {}
            if quiet {
                return;
            }
        }
    }
}

/// Kind of a datagram. RTCP's first word is not encrypted; feedback follows a report without
/// blocks.
fn kind(datagram: &[u8]) -> Option<Kind> {
    match classify(datagram[0]) {
        DatagramKind::Stun if datagram[..2] == [0, 1] => Some(Kind::Stun),
        DatagramKind::Rtp if is_rtcp(datagram) => match datagram[0] & 0x1f {
            0 => Some(Kind::Feedback),
            _ => Some(Kind::Report),
        },
        _ => None,
    }
}

fn certificate() -> Result<Arc<Certificate>, String> {
    let certificate = Certificate::generate().map_err(|error| error.to_string())?;
    Ok(Arc::new(certificate))
}
