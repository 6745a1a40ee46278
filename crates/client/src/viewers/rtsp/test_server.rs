//! An RTSP server of a few frames, for tests: a thread for each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use glassline_media::{NtpTime, Ssrc};
use glassline_rtp::{HEADER_BYTES, Header, rtcp, write_header};
use glassline_rtsp::auth::{self, Authorization, Challenge, User, digest};
use glassline_rtsp::interleaved::{self, Demultiplexer, Item, Reader};
use glassline_rtsp::message::{Limits, Message};
use glassline_rtsp::transport::{Lower, Transport};
use glassline_rtsp::{Method, Request, Response, Status};

/// Dropping it closes all connections.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
}

/// State that a test shares with the server: switches and counts.
#[derive(Default)]
pub(crate) struct Shared {
    /// Status with which DESCRIBE is refused; 0 accepts it.
    pub(crate) refuse: AtomicUsize,
    /// Whether `user` with the password `pass word` is required.
    pub(crate) guarded: AtomicBool,
    /// Interval of dropped packets, in packets; 0 drops none.
    pub(crate) lose_every: AtomicUsize,
    /// Whether all connections are to be closed.
    pub(crate) hang_up: AtomicBool,
    /// Whether RTCP BYE is to be sent.
    pub(crate) bye: AtomicBool,
    /// Connections that are open.
    pub(crate) open: AtomicUsize,
    /// Sessions ended by TEARDOWN.
    pub(crate) torn_down: AtomicUsize,
    /// Receiver reports that contain a report block.
    pub(crate) reports: AtomicUsize,
    /// Connections dropped for garbage.
    pub(crate) garbage: AtomicUsize,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&for_thread);
                std::thread::spawn(move || {
                    shared.open.fetch_add(1, Relaxed);
                    // A client that is gone ends it, whatever the error is called.
                    let _ = Connection::new(stream, &shared).serve();
                    shared.open.fetch_sub(1, Relaxed);
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("rtsp://{}/stream", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.hang_up.store(true, Relaxed);
    }
}

const SDP: &str = "v=0\r\ns=test\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
    a=control:track0\r\nm=application 0 RTP/AVP 99\r\na=control:track1\r\n\
    m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:track2\r\n";

/// A keyframe: SPS, PPS and IDR in one STAP-A.
const KEYFRAME: &[u8] = &[
    24, 0, 4, 0x67, 0x42, 0xc0, 0x1f, 0, 2, 0x68, 0xce, 0, 3, 0x65, 0x88, 0x84,
];
const FRAME: &[u8] = &[0x41, 0x9a, 0x01];
/// The second slice of a frame of either kind.
const SLICE: &[u8] = &[0x41, 0x1a, 0x01];

const FRAME_INTERVAL: Duration = Duration::from_millis(10);

/// Destination of a track.
enum Destination {
    Channels(u8, u8),
    Ports(UdpSocket, UdpSocket, SocketAddr, SocketAddr),
}

struct Track {
    destination: Destination,
    video: bool,
    sequence: u16,
    timestamp: u32,
}

struct Connection<'a> {
    stream: TcpStream,
    shared: &'a Shared,
    tracks: Vec<Track>,
    playing: bool,
    frames: usize,
    sent: usize,
    over: bool,
}

impl<'a> Connection<'a> {
    fn new(stream: TcpStream, shared: &'a Shared) -> Self {
        Self {
            stream,
            shared,
            tracks: Vec::new(),
            playing: false,
            frames: 0,
            sent: 0,
            over: false,
        }
    }

    fn serve(mut self) -> std::io::Result<()> {
        let mut reader = Reader::new(Demultiplexer::new(Limits::default(), 0));
        let mut buffer = vec![0; 4096];
        self.stream
            .set_write_timeout(Some(Duration::from_millis(200)))?;
        while !self.over && !self.shared.hang_up.load(Relaxed) {
            let due = Instant::now() + FRAME_INTERVAL;
            self.stream.set_read_timeout(Some(FRAME_INTERVAL))?;
            let mut items = Vec::new();
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let read = reader.push(&buffer[..count], |item| match item {
                        Item::Message(message) => items.push(Ok(message)),
                        Item::Frame { payload, .. } => items.push(Err(payload.to_vec())),
                    });
                    if read.is_err() {
                        self.shared.garbage.fetch_add(1, Relaxed);
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            for item in items {
                match item {
                    Ok(Message::Request(request)) => self.answer(&request)?,
                    Ok(Message::Response(_)) => {}
                    Err(packet) => self.take_report(&packet),
                }
            }
            self.receive_reports(&mut buffer);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if self.playing {
                self.send_frame()?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> std::io::Result<()> {
        let mut response = Response::to(request, Status::OK);
        if self.shared.guarded.load(Relaxed) && !is_allowed(request) {
            response.status = Status::UNAUTHORIZED;
            let challenge = Challenge::Digest(challenge());
            response
                .headers
                .push("WWW-Authenticate", &challenge.to_string());
            return self.send(&response);
        }
        match request.method {
            Method::Options => response.headers.push("Public", "GET_PARAMETER"),
            Method::Describe => match self.shared.refuse.load(Relaxed) {
                0 => response.body = SDP.as_bytes().to_vec(),
                status => response.status = Status(status as u16),
            },
            Method::Setup => self.set_up(request, &mut response),
            Method::Teardown => {
                self.over = true;
                self.shared.torn_down.fetch_add(1, Relaxed);
            }
            _ => {}
        }
        self.send(&response)?;
        self.playing |= request.method == Method::Play;
        Ok(())
    }

    fn set_up(&mut self, request: &Request, response: &mut Response) {
        let text = request.headers.get("Transport").unwrap_or_default();
        let mut transport = Transport::parse_list(text).remove(0);
        let destination = if transport.lower == Lower::Tcp {
            let (rtp, rtcp) = transport.interleaved.expect("channels");
            Destination::Channels(rtp, rtcp)
        } else {
            let bind = || {
                let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("loopback");
                socket.set_nonblocking(true).expect("a socket");
                socket
            };
            let (rtp, rtcp) = (bind(), bind());
            let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
            transport.server_port = Some((port(&rtp), port(&rtcp)));
            let ours = transport.client_port.expect("ports");
            let to = |port| SocketAddr::from(([127, 0, 0, 1], port));
            Destination::Ports(rtp, rtcp, to(ours.0), to(ours.1))
        };
        self.tracks.push(Track {
            destination,
            video: request.uri.ends_with("track0"),
            sequence: 65_530,
            timestamp: u32::MAX - 9000,
        });
        response.headers.push("Transport", &transport.to_string());
        response.headers.push("Session", "42;timeout=60");
    }

    fn send(&mut self, response: &Response) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        response.write(&mut bytes);
        self.stream.write_all(&bytes)
    }

    fn take_report(&self, packet: &[u8]) {
        for packet in rtcp::parse(packet).flatten() {
            if let rtcp::Packet::ReceiverReport(report) = packet
                && !report.reports.is_empty()
            {
                self.shared.reports.fetch_add(1, Relaxed);
            }
        }
    }

    fn receive_reports(&self, buffer: &mut [u8]) {
        for track in &self.tracks {
            if let Destination::Ports(_, rtcp, ..) = &track.destination {
                while let Ok((count, _)) = rtcp.recv_from(buffer) {
                    self.take_report(&buffer[..count]);
                }
            }
        }
    }

    /// Sends a frame of two packets on the first track, and a packet of audio on the others.
    fn send_frame(&mut self) -> std::io::Result<()> {
        let first = if self.frames.is_multiple_of(10) {
            KEYFRAME
        } else {
            FRAME
        };
        let lose_every = self.shared.lose_every.load(Relaxed);
        let mut out = Vec::new();
        for track in &mut self.tracks {
            let parts: &[&[u8]] = if track.video {
                &[first, SLICE]
            } else {
                &[b"sound"]
            };
            if self.frames.is_multiple_of(20) {
                send_to(&track.destination, true, &sender_report(track), &mut out);
            }
            for (index, part) in parts.iter().enumerate() {
                self.sent += 1;
                let marker = track.video && index + 1 == parts.len();
                let packet = track.packet(marker, part);
                if lose_every == 0 || !self.sent.is_multiple_of(lose_every) {
                    send_to(&track.destination, false, &packet, &mut out);
                }
            }
            track.timestamp = track.timestamp.wrapping_add(track.ticks());
            if self.shared.bye.load(Relaxed) {
                let mut bye = Vec::new();
                let (sources, reason) = (vec![track.ssrc()], &b""[..]);
                rtcp::Bye { sources, reason }.write(&mut bye);
                send_to(&track.destination, true, &bye, &mut out);
            }
        }
        self.frames += 1;
        self.stream.write_all(&out)
    }
}

impl Track {
    fn ssrc(&self) -> Ssrc {
        Ssrc(if self.video { 1 } else { 2 })
    }

    fn ticks(&self) -> u32 {
        if self.video { 900 } else { 480 }
    }

    fn packet(&mut self, marker: bool, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            marker,
            payload_type: if self.video { 96 } else { 97 },
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.ssrc(),
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = vec![0; HEADER_BYTES];
        write_header(&mut packet, &header, &[]);
        packet.extend_from_slice(payload);
        packet
    }
}

fn sender_report(track: &Track) -> Vec<u8> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let report = rtcp::SenderReport {
        ssrc: track.ssrc(),
        ntp: NtpTime::from_unix(unix.unwrap_or_default()),
        rtp_timestamp: track.timestamp,
        packet_count: 0,
        octet_count: 0,
        reports: Vec::new(),
    };
    let mut packet = Vec::new();
    report.write(&mut packet);
    packet
}

fn send_to(destination: &Destination, control: bool, packet: &[u8], stream: &mut Vec<u8>) {
    match destination {
        Destination::Channels(rtp, rtcp) => {
            let channel = if control { *rtcp } else { *rtp };
            interleaved::write_frame(stream, channel, packet);
        }
        Destination::Ports(rtp, rtcp, to, control_to) => {
            let (socket, to) = if control {
                (rtcp, control_to)
            } else {
                (rtp, to)
            };
            // A viewer that is gone refuses; its connection tells the same.
            let _ = socket.send_to(packet, to);
        }
    }
}

fn challenge() -> digest::Challenge {
    digest::Challenge {
        realm: "test".to_owned(),
        nonce: "0123456789abcdef".to_owned(),
        opaque: None,
        stale: false,
        algorithm: digest::Algorithm::Sha256,
        qop: Some(digest::Qop::Auth),
    }
}

fn is_allowed(request: &Request) -> bool {
    let shown = request.headers.get("Authorization");
    let Some(Authorization::Digest(credentials)) = shown.and_then(Authorization::parse) else {
        return false;
    };
    let user = User {
        name: "user".to_owned(),
        password: "pass word".to_owned(),
    };
    let challenge = challenge();
    let secret = digest::secret(challenge.algorithm, &user, &challenge.realm);
    auth::same_secret(&credentials.nonce, &challenge.nonce)
        && credentials.uri == request.uri
        && credentials.verify(&secret, request.method.as_str(), &request.body)
}
