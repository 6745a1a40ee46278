//! A WHEP viewer that tests control step by step: one session, one blocking socket.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use glassline_media::{Kind, Track, WallClock};
use glassline_rtp::rtcp::is_rtcp;
use glassline_sctp::channel::Event as ChannelEvent;
use glassline_sim::Rng;
use glassline_webrtc::sdp::{Candidate, SessionDescription};
use glassline_webrtc::{
    Certificate, DataConfig, DatagramKind, DialConfig, Event, IceCredentials, Kinds, OpusOptions,
    Received, Secrets, SenderIndex, Session, classify,
};

use crate::check;
use crate::running::{Response, Running, STREAM};

/// Time limit for everything that takes a moment, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const SDP: (&str, &str) = ("Content-Type", "application/sdp");

static CERTIFICATE: LazyLock<Arc<Certificate>> =
    LazyLock::new(|| Arc::new(Certificate::generate().expect("a certificate")));

/// One media packet, decrypted.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedPacket {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) repaired: bool,
    pub(crate) at: Instant,
}

/// The kinds of media and data that a peer offers.
#[derive(Debug)]
pub(crate) struct PeerOffer {
    pub(crate) send: Vec<Track>,
    pub(crate) receive: Kinds,
    pub(crate) data: Option<DataConfig>,
    pub(crate) opus: OpusOptions,
}

impl Default for PeerOffer {
    fn default() -> Self {
        Self {
            send: Vec::new(),
            receive: Kinds::NONE,
            data: None,
            opus: OpusOptions::default(),
        }
    }
}

impl From<(Vec<Track>, Kinds)> for PeerOffer {
    /// Makes an offer of media alone.
    fn from((send, receive): (Vec<Track>, Kinds)) -> Self {
        Self {
            send,
            receive,
            ..Self::default()
        }
    }
}

impl PeerOffer {
    pub(crate) fn to_watch() -> Self {
        Self {
            receive: Kinds::ALL,
            ..Self::default()
        }
    }

    pub(crate) fn with_data(mut self) -> Self {
        self.data = Some(DataConfig::default());
        self
    }
}

/// A viewer of [`STREAM`].
pub(crate) struct Peer<'a> {
    pub(crate) running: &'a Running,
    pub(crate) session: Session,
    pub(crate) socket: UdpSocket,
    /// Address that the session takes for its own; the server sees the socket's address.
    believed: SocketAddr,
    media: SocketAddr,
    pub(crate) location: String,
    /// The server's SDP answer.
    pub(crate) answer: String,
    pub(crate) etag: String,
    /// The `Link` headers of the answer.
    pub(crate) links: Vec<String>,
    pub(crate) received: Vec<ReceivedPacket>,
    pub(crate) events: Vec<Event>,
    /// Events of its data channels.
    pub(crate) said: Vec<ChannelEvent>,
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    rng: Rng,
    /// Share of arriving media that is dropped.
    pub(crate) loss: f64,
    /// How many datagrams of DTLS it still sends.
    pub(crate) dtls_left: usize,
    /// Dropped media, still encrypted.
    pub(crate) discarded: Vec<Vec<u8>>,
    /// Media that was not dropped, still encrypted.
    pub(crate) arrived: Vec<Vec<u8>>,
}

impl<'a> Peer<'a> {
    /// Returns a viewer that got an answer and has sent nothing yet.
    pub(crate) fn answered(running: &'a Running) -> Self {
        Self::offering(running, str::to_owned).expect("answered")
    }

    /// Returns a viewer whose media flows.
    pub(crate) fn joined(running: &'a Running) -> Self {
        let mut peer = Self::answered(running);
        peer.await_media();
        peer
    }

    /// Sends the offer as `edit` changes it. Returns the refusal if there is one.
    pub(crate) fn offering(
        running: &'a Running,
        edit: impl FnOnce(&str) -> String,
    ) -> Result<Self, Response> {
        Self::offering_from(running, socket(), edit)
    }

    /// Sends the offer as `edit` changes it, from a socket that may have been used before.
    pub(crate) fn offering_from(
        running: &'a Running,
        socket: UdpSocket,
        edit: impl FnOnce(&str) -> String,
    ) -> Result<Self, Response> {
        Self::offering_to(running, STREAM, socket, edit)
    }

    /// Returns a viewer of another stream.
    pub(crate) fn of_stream(running: &'a Running, stream: &str) -> Result<Self, Response> {
        Self::offering_to(running, stream, socket(), str::to_owned)
    }

    /// Returns a viewer that asks for data channels, too.
    pub(crate) fn with_data(running: &'a Running) -> Self {
        let path = format!("/{STREAM}/whep");
        let asked = PeerOffer::to_watch().with_data();
        let peer = Self::asking(running, &path, &[], socket(), asked, str::to_owned);
        peer.expect("answered")
    }

    /// Returns a viewer that asks for data channels only.
    pub(crate) fn with_data_alone(running: &'a Running) -> Self {
        let path = format!("/{STREAM}/whep");
        let asked = PeerOffer::default().with_data();
        let peer = Self::asking(running, &path, &[], socket(), asked, str::to_owned);
        peer.expect("answered")
    }

    /// Returns a publisher of messages next to [`STREAM`].
    pub(crate) fn data_publisher(running: &'a Running) -> Result<Self, Response> {
        let path = format!("/{STREAM}/whip");
        let asked = PeerOffer::default().with_data();
        Self::asking(running, &path, &[], socket(), asked, str::to_owned)
    }

    fn offering_to(
        running: &'a Running,
        stream: &str,
        socket: UdpSocket,
        edit: impl FnOnce(&str) -> String,
    ) -> Result<Self, Response> {
        let path = format!("/{stream}/whep");
        Self::asking(running, &path, &[], socket, PeerOffer::to_watch(), edit)
    }

    /// Sends an offer of the given kinds to `path`, with more headers.
    pub(crate) fn asking(
        running: &'a Running,
        path: &str,
        headers: &[(&str, &str)],
        socket: UdpSocket,
        asked: impl Into<PeerOffer>,
        edit: impl FnOnce(&str) -> String,
    ) -> Result<Self, Response> {
        let asked = asked.into();
        let now = Instant::now();
        let believed = socket.local_addr().expect("bound");
        let secrets = Secrets::expand(&rand::random());
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let config = DialConfig {
            local: vec![believed],
            data: asked.data,
            send: asked.send,
            receive: asked.receive,
            opus: asked.opus,
            ..DialConfig::new(CERTIFICATE.clone(), secrets, wall)
        };
        let (mut session, offer) = Session::dial(config, now);
        let headers = [&[SDP], headers].concat();
        let response = running.request("POST", path, &headers, &edit(&offer));
        if response.status != 201 {
            return Err(response);
        }
        session
            .set_answer(&response.body, Instant::now())
            .expect("an answer to our offer");
        let header = |name| response.header(name).expect(name).to_owned();
        Ok(Self {
            running,
            session,
            socket,
            believed,
            media: candidate(&response.body),
            location: header("location"),
            etag: header("etag"),
            links: response
                .headers_named("link")
                .into_iter()
                .map(str::to_owned)
                .collect(),
            answer: response.body.clone(),
            received: Vec::new(),
            events: Vec::new(),
            said: Vec::new(),
            dropped: BTreeMap::new(),
            rng: Rng::new(1),
            loss: 0.0,
            dtls_left: usize::MAX,
            discarded: Vec::new(),
            arrived: Vec::new(),
        })
    }

    /// Runs until video and audio came.
    pub(crate) fn await_media(&mut self) {
        let both = |peer: &Self| {
            [Kind::Video, Kind::Audio].map(|kind| peer.received.iter().any(|it| it.kind == kind))
                == [true, true]
        };
        assert!(
            self.run_until(SOON, both),
            "no media: {:?} {:?}",
            self.events,
            self.dropped
        );
    }

    /// Runs the peer for `time`, whatever happens.
    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `done`, at most for `limit`. Returns whether `done` became true.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> bool {
        let end = Instant::now() + limit;
        let mut buffer = [0; 2048];
        loop {
            self.drain();
            if done(self) {
                return true;
            }
            let now = Instant::now();
            if now >= end {
                return false;
            }
            let due = self.session.poll_timeout().map_or(end, |at| at.min(end));
            let wait = due.saturating_duration_since(now);
            self.socket
                .set_read_timeout(Some(
                    wait.clamp(Duration::from_millis(1), Duration::from_millis(20)),
                ))
                .expect("a timeout");
            // Errors are timeouts, or answers that the server's port is closed.
            if let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
                self.take(&mut buffer[..bytes], from);
            }
            let now = Instant::now();
            self.session.end_batch(now);
            if self.session.poll_timeout().is_some_and(|at| at <= now) {
                self.session.handle_timeout(now);
            }
        }
    }

    fn take(&mut self, datagram: &mut [u8], from: SocketAddr) {
        let is_media = datagram
            .first()
            .is_some_and(|first| classify(*first) == DatagramKind::Rtp && !is_rtcp(datagram));
        if is_media {
            if self.rng.chance(self.loss) {
                self.discarded.push(datagram.to_vec());
                return;
            }
            self.arrived.push(datagram.to_vec());
        }
        let now = Instant::now();
        match self
            .session
            .handle_datagram(now, from, self.believed, datagram)
        {
            Ok(Received::Rtp {
                receiver,
                sequence,
                repaired,
                packet,
                ..
            }) => {
                let received = ReceivedPacket {
                    kind: self.session.receivers()[receiver.0].kind,
                    sequence,
                    timestamp: packet.header.timestamp,
                    marker: packet.header.marker,
                    payload: packet.payload.to_vec(),
                    repaired,
                    at: now,
                };
                self.received.push(received);
            }
            Ok(_) => {}
            Err(reason) => *self.dropped.entry(reason.label()).or_default() += 1,
        }
    }

    /// Sends `payload` as its audio at `timestamp`. Returns false before the session has keys.
    pub(crate) fn say(&mut self, timestamp: u32, payload: &[u8]) -> bool {
        self.send_media(SenderIndex(0), timestamp, false, payload)
    }

    /// Sends `payload` as a packet of its sender number `sender`. Returns false before the session
    /// has keys.
    pub(crate) fn send_media(
        &mut self,
        sender: SenderIndex,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
    ) -> bool {
        let mut out = [0; 2048];
        let now = Instant::now();
        let sealed = self
            .session
            .seal(sender, timestamp, marker, payload, now, &mut out);
        if let Some(sealed) = sealed {
            let to = self.session.peer().expect("connected").socket;
            let sent = self.socket.send_to(&out[..sealed.len], to);
            sent.expect("loopback takes it");
        }
        sealed.is_some()
    }

    /// Sends what the session has to send, and notes its events.
    pub(crate) fn drain(&mut self) {
        let now = Instant::now();
        if let Some(channels) = self.session.channels_mut() {
            while let Some(event) = channels.poll_event(now) {
                self.said.push(event);
            }
        }
        let mut out = Vec::new();
        while let Some((to, segment)) = self.session.poll_transmit_batch(now, &mut out) {
            for datagram in out.chunks(segment.max(1)) {
                if datagram.first().map(|it| classify(*it)) == Some(DatagramKind::Dtls) {
                    match self.dtls_left.checked_sub(1) {
                        Some(left) => self.dtls_left = left,
                        None => continue,
                    }
                }
                self.socket
                    .send_to(datagram, to.socket)
                    .expect("loopback takes it");
            }
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// Returns the packets of one kind, in order of arrival.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &ReceivedPacket> {
        self.received.iter().filter(move |it| it.kind == kind)
    }

    /// Returns the packets of one kind, in order of sequence numbers.
    pub(crate) fn in_order(&self, kind: Kind) -> Vec<&ReceivedPacket> {
        let mut all: Vec<_> = self.of(kind).collect();
        all.sort_by_key(|it| it.sequence);
        all
    }

    /// Returns the peer's own and the server's ICE credentials.
    pub(crate) fn credentials(&self) -> (IceCredentials, IceCredentials) {
        let theirs = self.session.remote_credentials().expect("answered");
        (self.session.local_credentials().clone(), theirs.clone())
    }

    /// Sends a connectivity check from `socket`.
    pub(crate) fn check_from(&self, socket: &UdpSocket, nominate: bool) {
        let (ours, theirs) = self.credentials();
        let request = check::binding_request(&theirs, &ours, nominate);
        socket
            .send_to(&request, self.media)
            .expect("loopback takes it");
    }

    /// Continues from a new socket, as when a NAT gives a phone another port. Datagrams to the old
    /// socket are lost.
    pub(crate) fn change_port(&mut self) {
        self.socket = socket();
    }

    /// Nominates its present address until `limit` or until media comes there.
    pub(crate) fn nominate(&mut self, limit: Duration) -> bool {
        let (end, before) = (Instant::now() + limit, self.received.len());
        while Instant::now() < end {
            self.check_from(&self.socket, true);
            if self.run_until(Duration::from_millis(150), |peer| {
                peer.received.len() > before
            }) {
                return true;
            }
        }
        false
    }

    pub(crate) fn patch(&self, headers: &[(&str, &str)], body: &str) -> Response {
        let mut all = vec![("Content-Type", "application/trickle-ice-sdpfrag")];
        all.extend(headers);
        self.running.request("PATCH", &self.location, &all, body)
    }

    pub(crate) fn delete(&self) -> Response {
        self.running.request("DELETE", &self.location, &[], "")
    }

    /// A candidate that leads to the server, as [`Session::add_remote_candidate`] takes it.
    pub(crate) fn server_candidate(&self) -> Candidate {
        Candidate::host(self.media.into(), 0)
    }
}

/// Runs all peers for `time`, in turns.
pub(crate) fn live(peers: &mut [Peer<'_>], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for peer in &mut *peers {
            peer.run_for(Duration::from_millis(2));
        }
    }
}

pub(crate) fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
}

/// Returns the address in the answer that media comes from.
fn candidate(answer: &str) -> SocketAddr {
    let answer = SessionDescription::parse(answer).expect("an SDP answer");
    let mut candidates = answer.media[0].attributes.candidates();
    let first = candidates.next().and_then(Candidate::socket_addr);
    first.expect("a candidate with an address")
}
