//! Peers that UDP does not reach: media over TCP (RFC 6544), framed by RFC 4571.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use glassline_media::{Kind, WallClock};
use glassline_rtp::rtcp::is_rtcp;
use glassline_webrtc::framing::{self, FrameReader};
use glassline_webrtc::sdp::SessionDescription;
use glassline_webrtc::{
    Certificate, DatagramKind, DialConfig, Event, Kinds, Received, Secrets, Session,
    TransportAddress, classify,
};

use crate::check;
use crate::peer::{Peer, SDP, SOON, socket};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// A viewer of [`STREAM`] whose only path is a TCP connection.
pub(crate) struct TcpViewer {
    session: Session,
    stream: TcpStream,
    /// The server's end of the connection.
    server: TransportAddress,
    reader: FrameReader,
    location: String,
    /// Kinds of the media that arrived, with the RTP timestamps.
    received: Vec<(Kind, u32)>,
    events: Vec<Event>,
    has_ended: bool,
}

impl TcpViewer {
    /// Returns a viewer whose connection is open and has carried nothing yet.
    fn connected(running: &Running) -> Self {
        let now = Instant::now();
        let secrets = Secrets::expand(&rand::random());
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let certificate = Certificate::generate().expect("a certificate").into();
        let config = DialConfig {
            receive: Kinds::ALL,
            ..DialConfig::new(certificate, secrets, wall)
        };
        let (mut session, offer) = Session::dial(config, now);
        let response = running.request("POST", &format!("/{STREAM}/whep"), &[SDP], &offer);
        assert_eq!(response.status, 201, "{}", response.body);
        let server = passive(&response.body);
        let stream = TcpStream::connect(server).expect("the port takes TCP");
        session.add_local(TransportAddress::tcp(stream.local_addr().expect("bound")));
        session
            .set_answer(&response.body, now)
            .expect("an answer to our offer");
        stream.set_nodelay(true).expect("a socket");
        Self {
            session,
            stream,
            server: TransportAddress::tcp(server),
            reader: FrameReader::default(),
            location: response.header("location").expect("a session").to_owned(),
            received: Vec::new(),
            events: Vec::new(),
            has_ended: false,
        }
    }

    /// Returns a viewer whose media flows.
    pub(crate) fn joined(running: &Running) -> Self {
        let mut viewer = Self::connected(running);
        viewer.await_media();
        viewer
    }

    /// Waits for a second of media more.
    pub(crate) fn goes_on(&mut self) {
        let before = self.received.len();
        assert!(self.run_until(SOON, |viewer| viewer.received.len() > before + 300));
    }

    fn await_media(&mut self) {
        let both = |viewer: &Self| {
            [Kind::Video, Kind::Audio].map(|kind| viewer.received.iter().any(|it| it.0 == kind))
                == [true, true]
        };
        assert!(self.run_until(SOON, both), "no media: {:?}", self.events);
    }

    fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = Instant::now() + limit;
        let mut buffer = [0; 16 << 10];
        loop {
            self.drain();
            if done(self) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            let wait = Some(Duration::from_millis(5));
            self.stream.set_read_timeout(wait).expect("a timeout");
            match self.stream.read(&mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(count) => self.take(&mut buffer[..count]),
                Err(error) => self.has_ended |= error.kind() == ErrorKind::ConnectionReset,
            }
            let now = Instant::now();
            if self.session.poll_timeout().is_some_and(|at| at <= now) {
                self.session.handle_timeout(now);
            }
        }
    }

    fn take(&mut self, bytes: &mut [u8]) {
        let here = TransportAddress::tcp(self.stream.local_addr().expect("bound"));
        let (session, server, now) = (&mut self.session, self.server, Instant::now());
        let received = &mut self.received;
        let read = self.reader.read(bytes, |datagram| {
            let is_media = classify(datagram[0]) == DatagramKind::Rtp && !is_rtcp(datagram);
            match session.handle_datagram(now, server, here, datagram) {
                Ok(Received::Rtp {
                    receiver, packet, ..
                }) => {
                    let kind = session.receivers()[receiver.0].kind;
                    received.push((kind, packet.header.timestamp));
                }
                Ok(_) => assert!(!is_media || received.is_empty(), "media is taken"),
                Err(_) => {}
            }
        });
        read.expect("frames of the server");
    }

    fn drain(&mut self) {
        let mut out = Vec::new();
        while let Some(to) = self.session.poll_transmit(&mut out) {
            assert_eq!(to, self.server, "there is no other path");
            // The server may have hung up.
            let _ = self.stream.write_all(&framed(&out));
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
    }
}

fn framed(datagram: &[u8]) -> Vec<u8> {
    let prefix = framing::prefix(datagram.len()).expect("short");
    [&prefix[..], datagram].concat()
}

/// Returns the address of the answer's TCP candidate.
fn passive(answer: &str) -> SocketAddr {
    let answer = SessionDescription::parse(answer).expect("an answer");
    let candidates = answer
        .media
        .iter()
        .flat_map(|media| media.attributes.candidates());
    let mut passive = candidates.filter(|candidate| candidate.is_tcp_passive());
    let candidate = passive.next().expect("a TCP candidate");
    candidate.socket_addr().expect("an address")
}

fn handed_over(running: &Running) -> u64 {
    of_outcome(running, "peer")
}

fn of_outcome(running: &Running, outcome: &str) -> u64 {
    let label = format!("outcome=\"{outcome}\"");
    let connections = running.metric("media_tcp_connections_total");
    let found = connections.iter().find(|(labels, _)| *labels == label);
    found.expect("an outcome of this name").1
}

#[test]
fn a_viewer_without_udp_plays_over_tcp_and_leaves() {
    let running = Running::start(2);
    let source = Source::start(&running.stream(), Film::default());
    let mut viewer = TcpViewer::joined(&running);
    let frames = |viewer: &TcpViewer| {
        let video = viewer.received.iter().filter(|it| it.0 == Kind::Video);
        let mut timestamps: Vec<_> = video.map(|it| it.1).collect();
        timestamps.dedup();
        timestamps.len()
    };
    assert!(viewer.run_until(SOON, |viewer| frames(viewer) >= 60));
    let path = viewer.session.path().expect("a path");
    assert_eq!(path.transport.as_str(), "tcp");
    let shown = running.admin("/api/v1/webrtc/viewers").json();
    for end in ["local", "remote"] {
        let protocol = &shown["viewers"][0]["path"][end]["protocol"];
        assert_eq!(protocol, "tcp", "{shown}");
    }
    assert_eq!(handed_over(&running), 1);
    drop(source);
    let left = running.request("DELETE", &viewer.location, &[], "");
    assert_eq!(left.status, 200);
    assert!(viewer.run_until(SOON, |viewer| viewer.has_ended), "closed");
    running.await_sessions(0, SOON);
}

/// The kernel keeps some 100 KB for a viewer that reads nothing, and the server half a second.
#[test]
fn a_stalled_viewer_over_tcp_delays_nobody_and_goes_on_at_a_keyframe() {
    let running = Running::with(1, |config| config.webrtc.lag_ms = Some(500));
    let film = Film {
        frame_bytes: 40_000,
        ..Film::default()
    };
    let _source = Source::start(&running.stream(), film);
    let mut stalled = TcpViewer::joined(&running);
    let joined = Instant::now();
    let mut others = TcpViewer::joined(&running);
    let mut by_udp = Peer::joined(&running);
    let dropped = || {
        let drops = running.metric("queue_dropped_frames_total");
        let slow = drops.into_iter().find(|it| it.0.contains("viewer_slow"));
        slow.expect("a reason").1
    };
    let before = (by_udp.received.len(), others.received.len());
    let end = Instant::now() + SOON;
    while dropped() < 60 {
        assert!(Instant::now() < end, "nothing was skipped");
        by_udp.run_for(Duration::from_millis(100));
        others.run_until(Duration::from_millis(100), |_| false);
    }
    let after = (by_udp.received.len(), others.received.len());
    assert!(after.0 > before.0 + 500, "by UDP: {before:?}, {after:?}");
    assert!(after.1 > before.1 + 500, "by TCP: {before:?}, {after:?}");
    let ends = |events: &[Event]| events.iter().any(|it| matches!(it, Event::Closed(_)));
    assert!(!ends(&by_udp.events) && !ends(&others.events));
    let skipped = stalled.received.len();
    // Long enough that old data has been read, and a keyframe has come.
    stalled.run_until(Duration::from_secs(3), |_| false);
    assert!(
        !stalled.has_ended && !ends(&stalled.events),
        "{:?}",
        stalled.events
    );
    let resumed = stalled.received.len() - skipped;
    assert!(resumed > 500, "{resumed} packets after the stall");
    let timestamps: Vec<_> = stalled
        .received
        .iter()
        .filter(|it| it.0 == Kind::Video)
        .map(|it| it.1)
        .collect();
    let steps = timestamps.windows(2);
    let gap = steps.map(|pair| pair[1].wrapping_sub(pair[0])).max();
    assert!(
        gap.expect("video") >= 90_000 / 2,
        "nothing was skipped, {gap:?}"
    );
    let newest = timestamps.last().expect("video");
    let played = newest.wrapping_sub(timestamps[0]) / 90;
    let elapsed = u32::try_from(joined.elapsed().as_millis()).expect("seconds");
    assert!(
        played + 2_000 > elapsed,
        "{played} of {elapsed} ms were played"
    );
}

#[test]
fn strangers_on_the_port_are_closed_and_a_viewer_gets_in_beside_them() {
    let running = Running::with(1, |config| config.media.tcp_connections = 32);
    let _source = Source::start(&running.stream(), Film::default());
    let media = running.listener("media");
    // More silent connections than one address may have: the oldest make room.
    let silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(media).expect("accepted"))
        .collect();
    let mut viewer = TcpViewer::joined(&running);
    let open = |stream: &TcpStream| {
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("a timeout");
        let kind = (&mut &*stream).read(&mut [0]).map_err(|error| error.kind());
        matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    };
    assert!(
        silent.iter().filter(|it| open(it)).count() <= 8,
        "a quarter of 32"
    );
    // Those that stay silent are closed after 5 s.
    let end = Instant::now() + SOON;
    while silent.iter().any(open) {
        assert!(Instant::now() < end, "a silent connection is still open");
        viewer.run_until(Duration::from_millis(100), |_| false);
    }
    let (ours, theirs) = {
        let peer = Peer::answered(&running);
        peer.credentials()
    };
    let wrong = glassline_webrtc::IceCredentials {
        pwd: "not the password of this session".to_owned(),
        ..theirs
    };
    let forged = check::binding_request(&wrong, &ours, true);
    let long = [&[0xff, 0xff][..], &[1; 2000]].concat();
    for bytes in [
        framed(&forged),
        framed(b"GET / HTTP/1.1\r\n\r\n 0123456789"),
        long,
        framed(&[]),
    ] {
        let before = of_outcome(&running, "stranger");
        let mut stream = TcpStream::connect(media).expect("accepted");
        stream.write_all(&bytes).expect("sent");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let end = stream.read(&mut [0]);
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        let closed = |_: &TcpViewer| of_outcome(&running, "stranger") > before;
        assert!(viewer.run_until(SOON, closed));
    }
    assert_eq!(handed_over(&running), 1);
    assert!(!viewer.has_ended);
}

/// A peer may try both, so that one shard has its UDP address and another one would get its
/// connection.
#[test]
fn a_connection_goes_to_the_shard_of_its_session() {
    let running = Running::start(4);
    let _source = Source::start(&running.stream(), Film::default());
    for _ in 0..8 {
        let mut peer = Peer::joined(&running);
        let media = running.listener("media");
        let mut stream = TcpStream::connect(media).expect("accepted");
        let (ours, theirs) = peer.credentials();
        let asked = check::binding_request(&theirs, &ours, false);
        stream.write_all(&framed(&asked)).expect("sent");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let mut prefix = [0; 2];
        stream
            .read_exact(&mut prefix)
            .expect("an answer, or a check");
        peer.run_for(Duration::from_millis(20));
        // Moved to another port, and perhaps to another shard, the session keeps its connection.
        peer.socket = socket();
        let moved = peer.socket.local_addr().expect("bound");
        assert_ne!(moved.port(), 0);
        let before = peer.received.len();
        assert!(peer.run_until(SOON, |peer| peer.received.len() > before + 30));
        let asked = check::binding_request(&theirs, &ours, false);
        let mut rest = vec![0; usize::from(u16::from_be_bytes(prefix))];
        stream.read_exact(&mut rest).expect("the rest of the frame");
        stream.write_all(&framed(&asked)).expect("sent");
        stream
            .read_exact(&mut prefix)
            .expect("the connection moved with the peer");
    }
}

#[test]
fn a_peer_that_hangs_up_keeps_its_session_until_silence_ends_it() {
    let running = Running::with(2, |_| {});
    let _source = Source::start(&running.stream(), Film::default());
    let viewer = TcpViewer::joined(&running);
    let location = viewer.location.clone();
    drop(viewer);
    // Nothing is sealed for a connection that has ended, and nobody else notices.
    let mut other = TcpViewer::joined(&running);
    let before = other.received.len();
    assert!(other.run_until(SOON, |viewer| viewer.received.len() > before + 300));
    let left = running.request("DELETE", &location, &[], "");
    assert_eq!(left.status, 200, "its session was still there");
    assert_eq!(running.sessions().0, 1);
}

#[test]
fn without_the_port_no_tcp_candidate_is_offered() {
    let running = Running::with(1, |config| config.media.tcp = false);
    let _source = Source::start(&running.stream(), Film::default());
    let media = running.listener("media");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, media.port())).is_err());
    let peer = Peer::answered(&running);
    assert!(!peer.answer.contains("tcptype"), "{}", peer.answer);
}
