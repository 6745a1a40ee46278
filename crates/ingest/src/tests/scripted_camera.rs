//! A camera on loopback that does what a test says.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use glassline_media::Ssrc;
use glassline_quic::Fingerprint;
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A keyframe of VP8 in one packet: descriptor, header, 64 by 64.
const KEYFRAME: [u8; 11] = [0x10, 0, 2, 0, 0x9d, 1, 0x2a, SIDE, 0, SIDE, 0];

/// Width and height of the picture.
const SIDE: u8 = 64;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(20);

/// The script of a camera that differs from others.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// The method whose request is redirected, the status, and the location.
    pub(super) redirect: Option<(&'static str, u16, String)>,
    /// Refuse to describe while a session was not torn down (453).
    pub(super) is_for_one: bool,
    /// Never answer TEARDOWN.
    pub(super) ignores_teardown: bool,
    /// Send no media.
    pub(super) is_silent: bool,
    /// Ask for credentials (401), and take any.
    pub(super) is_guarded: bool,
    /// Address from which media by UDP comes.
    pub(super) sends_from: Option<Ipv4Addr>,
    /// The text behind the transport in the response to SETUP.
    pub(super) transport: String,
    /// Lines behind those of the video's section.
    pub(super) description: String,
    /// The connection is within TLS.
    pub(super) is_secure: bool,
    /// Width and height of the picture, in place of the usual ones.
    pub(super) side: Option<u8>,
}

/// The events at a camera.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Request lines and `Authorization`, in order.
    requests: Mutex<Vec<String>>,
    /// RTCP packets, in order.
    pub(super) control: Mutex<Vec<Vec<u8>>>,
    /// Ports of the latest client that media goes to by UDP.
    pub(super) client_port: Mutex<Option<u16>>,
    sessions: AtomicUsize,
    /// Whether the camera has no power: it ends every connection.
    pub(super) is_out: AtomicBool,
}

impl Seen {
    /// Returns the number of requests whose line, or credentials, have `text` in them.
    pub(super) fn requests(&self, text: &str) -> usize {
        let requests = self.requests.lock();
        requests.iter().filter(|it| it.contains(text)).count()
    }

    /// Returns the number of sessions that were not torn down.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }
}

pub(super) struct ScriptedCamera {
    pub(super) address: SocketAddr,
    pub(super) seen: Arc<Seen>,
    /// The certificate of a camera that speaks TLS.
    pub(super) fingerprint: Fingerprint,
}

impl ScriptedCamera {
    pub(super) fn start(script: Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (config, fingerprint) = identity();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, seen) = (script.clone(), Arc::clone(&shared));
                let config = Arc::clone(&config);
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(FRAME)).expect("a timeout");
                    if script.is_secure {
                        let session = ServerConnection::new(config).expect("a session");
                        serve(StreamOwned::new(session, stream), &script, &seen);
                    } else {
                        serve(stream, &script, &seen);
                    }
                });
            }
        });
        Self {
            address,
            seen,
            fingerprint,
        }
    }

    /// Returns the source `cam` of the camera; `rest` is what stands behind the host.
    pub(super) fn source(&self, scheme: &str, rest: &str) -> String {
        format!("cam={scheme}://{}{rest}", self.address)
    }
}

fn identity() -> (Arc<ServerConfig>, Fingerprint) {
    let made = rcgen::generate_simple_self_signed(vec!["camera".to_owned()]);
    let made = made.expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into());
    let fingerprint = Fingerprint::of(made.cert.der());
    (Arc::new(config.expect("an identity")), fingerprint)
}

/// The state of one connection.
struct Connection<'a, S> {
    stream: S,
    script: &'a Script,
    seen: &'a Seen,
    by_udp: Option<(UdpSocket, SocketAddr)>,
    has_session: bool,
    is_playing: bool,
    sequence: u16,
}

fn serve<S: Read + Write>(stream: S, script: &Script, seen: &Seen) {
    let mut connection = Connection {
        stream,
        script,
        seen,
        by_udp: None,
        has_session: false,
        is_playing: false,
        sequence: 0,
    };
    let mut waiting = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match connection.stream.read(&mut buffer) {
            _ if seen.is_out.load(Ordering::SeqCst) => return,
            Ok(count @ 1..) => waiting.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
        // No camera of ours without TLS waits for the end of what begins a handshake.
        if waiting.first() == Some(&0x16) {
            return;
        }
        while let Some(length) = connection.take(&waiting) {
            waiting.drain(..length);
        }
        connection.send_frame();
    }
}

impl<S: Read + Write> Connection<'_, S> {
    /// Handles the first message or frame of `bytes`, and returns its length; `None` if it is not whole.
    fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        if bytes.first() == Some(&b'$') {
            let length = 4 + usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
            let frame = bytes.get(4..length)?;
            let mut control = self.seen.control.lock();
            control.push(frame.to_vec());
            return Some(length);
        }
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        self.answer(&text);
        Some(end)
    }

    fn answer(&mut self, request: &str) {
        let header = |name: &str| {
            let mut lines = request.lines();
            let line = lines.find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_default().to_owned()
        };
        let line = request.lines().next().unwrap_or_default();
        let method = line.split(' ').next().unwrap_or_default();
        let credentials = header("Authorization");
        let note = format!("{line} {credentials}");
        self.seen.requests.lock().push(note);
        let (status, more) = self.response(method, &header("Transport"), &credentials);
        if method == "TEARDOWN" && self.script.ignores_teardown {
            return;
        }
        let head = format!("RTSP/1.0 {status}\r\nCSeq: {}\r\n{more}", header("CSeq"));
        let _ = self.stream.write_all(head.as_bytes());
    }

    /// Returns the status, and what follows behind `CSeq`.
    fn response(&mut self, method: &str, transport: &str, credentials: &str) -> (String, String) {
        let ok = || "200 OK".to_owned();
        let session = "Session: 7;timeout=60\r\n";
        if let Some((redirected, status, location)) = &self.script.redirect
            && *redirected == method
        {
            return (
                format!("{status} Moved"),
                format!("Location: {location}\r\n\r\n"),
            );
        }
        match method {
            "DESCRIBE" if self.script.is_guarded && credentials.is_empty() => {
                let challenge = "WWW-Authenticate: Basic realm=\"camera\"\r\n\r\n";
                ("401 Unauthorized".to_owned(), challenge.to_owned())
            }
            "DESCRIBE" if self.script.is_for_one && self.seen.sessions() > 0 => {
                ("453 Not Enough Bandwidth".to_owned(), "\r\n".to_owned())
            }
            "DESCRIBE" => {
                let sdp = format!(
                    "v=0\r\ns=camera\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\n{}",
                    self.script.description
                );
                (ok(), format!("Content-Length: {}\r\n\r\n{sdp}", sdp.len()))
            }
            "SETUP" => {
                if !self.has_session {
                    self.has_session = true;
                    self.seen.sessions.fetch_add(1, Ordering::SeqCst);
                }
                let ports = transport.split_once("client_port=");
                if let Some((_, ports)) = ports {
                    let port = ports.split('-').next().and_then(|it| it.parse().ok());
                    self.open(port.expect("a port"));
                }
                let more = &self.script.transport;
                (
                    ok(),
                    format!("{session}Transport: {transport}{more}\r\n\r\n"),
                )
            }
            "PLAY" => {
                self.is_playing = !self.script.is_silent;
                (ok(), format!("{session}\r\n"))
            }
            "TEARDOWN" => {
                self.is_playing = false;
                if std::mem::take(&mut self.has_session) {
                    self.seen.sessions.fetch_sub(1, Ordering::SeqCst);
                }
                (ok(), "\r\n".to_owned())
            }
            _ => (ok(), "\r\n".to_owned()),
        }
    }

    fn open(&mut self, port: u16) {
        let from = self.script.sends_from.unwrap_or(Ipv4Addr::LOCALHOST);
        let socket = UdpSocket::bind((from, 0)).expect("an address of loopback");
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        *self.seen.client_port.lock() = Some(port);
        self.by_udp = Some((socket, to));
    }

    fn send_frame(&mut self) {
        if !self.is_playing {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = frame(self.sequence, 0x2222);
        if let Some(side) = self.script.side {
            let coded = packet.len() - KEYFRAME.len();
            (packet[coded + 7], packet[coded + 9]) = (side, side);
        }
        match &self.by_udp {
            Some((socket, to)) => drop(socket.send_to(&packet, to)),
            None => {
                let length = u16::try_from(packet.len()).expect("short").to_be_bytes();
                let frame = [&[b'$', 0, length[0], length[1]], &packet[..]].concat();
                let _ = self.stream.write_all(&frame);
            }
        }
    }
}

/// Returns the RTP packet of a keyframe.
pub(super) fn frame(sequence: u16, ssrc: u32) -> Vec<u8> {
    let header = Header {
        marker: true,
        payload_type: 96,
        sequence,
        timestamp: u32::from(sequence) * 1800,
        ssrc: Ssrc(ssrc),
    };
    let mut packet = vec![0; HEADER_BYTES];
    write_header(&mut packet, &header, &[]);
    packet.extend_from_slice(&KEYFRAME);
    packet
}
