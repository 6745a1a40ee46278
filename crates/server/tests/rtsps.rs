//! RTSP within TLS: playing, slow clients, and data that is not TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use glassline_client::trust::Trust;
use glassline_client::viewers::{Endpoint, Join, Options, Pool, RtspTransport, Viewer};
use glassline_config::Srtp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Time limit for events that take no time on an idle machine.
const SOON: Duration = Duration::from_secs(20);

/// Made once with `openssl req -x509 -newkey ec -days 36500 -nodes`, for localhost;
/// it vouches for nothing but these tests.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

pub(crate) fn running(change: impl FnOnce(&mut glassline_config::Config)) -> Running {
    Running::with(2, |config| {
        config.rtsp.tls = glassline_config::RtspTls {
            address: "127.0.0.1:0".parse().ok(),
            certificate: Some(data("localhost.pem")),
            key: Some(data("localhost.key.pem")),
            srtp: Srtp::Optional,
        };
        change(config);
    })
}

/// A client that trusts the test's certificate and speaks RTSP by hand.
pub(crate) struct Sealed {
    pub(crate) stream: StreamOwned<ClientConnection, TcpStream>,
    pub(crate) url: String,
    cseq: u32,
    pub(crate) session: String,
}

impl Sealed {
    pub(crate) fn new(running: &Running) -> Self {
        Self::trusting(running, &["localhost.pem"])
    }

    pub(crate) fn trusting(running: &Running, certificates: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        for name in certificates {
            let certificate = CertificateDer::from_pem_file(data(name)).expect("PEM");
            roots.add(certificate).expect("a certificate");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let socket = TcpStream::connect(running.rtsps()).expect("it listens");
        socket.set_read_timeout(Some(SOON)).expect("a timeout");
        Self {
            stream: StreamOwned::new(session, socket),
            url: format!("rtsps://{}/{STREAM}", running.rtsps()),
            cseq: 0,
            session: String::new(),
        }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str) -> String {
        self.ask_with(method, path, headers, "")
    }

    pub(crate) fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> String {
        self.cseq += 1;
        let (url, cseq) = (&self.url, self.cseq);
        let mut text = format!("{method} {url}{path} RTSP/1.0\r\nCSeq: {cseq}\r\n{headers}");
        if !self.session.is_empty() {
            text += &format!("Session: {}\r\n", self.session);
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        text += body;
        self.stream.write_all(text.as_bytes()).expect("sent");
        self.response()
    }

    /// Returns the next response with its body; frames before it are dropped.
    fn response(&mut self) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            match self.byte() {
                b'$' if text.is_empty() => drop(self.frame()),
                byte => text.push(byte),
            }
        }
        self.whole(text)
    }

    /// Returns the rest of a response that begins with this byte.
    pub(crate) fn response_behind(&mut self, first: u8) -> String {
        let mut text = vec![first];
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.byte());
        }
        self.whole(text)
    }

    /// Returns a response's head with the body that it announces.
    fn whole(&mut self, head: Vec<u8>) -> String {
        let head = String::from_utf8(head).expect("text");
        let field = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        if let Some(session) = field("Session") {
            self.session = session.split(';').next().unwrap_or("").to_owned();
        }
        let length = field("Content-Length").map_or(0, |it| it.parse().expect("a length"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("a body");
        head + &String::from_utf8(body).expect("text")
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).expect("a byte");
        byte[0]
    }

    /// Channel and payload of a frame, behind its `$`.
    pub(crate) fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 3];
        self.stream.read_exact(&mut head).expect("a frame's head");
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        self.stream.read_exact(&mut payload).expect("a frame");
        (head[0], payload)
    }

    pub(crate) fn play(&mut self) {
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=6-7\r\n";
        let set_up = self.ask("SETUP", "/trackID=0", transport);
        assert!(set_up.contains("200 OK"), "{set_up}");
        let playing = self.ask("PLAY", "", "");
        assert!(playing.contains("200 OK"), "{playing}");
    }

    /// The next media packet.
    pub(crate) fn packet(&mut self) -> (u16, Vec<u8>) {
        loop {
            assert_eq!(self.byte(), b'$', "frames are never torn");
            let (channel, payload) = self.frame();
            if channel == 6 {
                let packet = glassline_rtp::Packet::parse(&payload).expect("RTP");
                return (packet.header.sequence, packet.payload.to_vec());
            }
        }
    }
}

#[test]
fn a_stream_is_played_inside_tls_without_a_gap() {
    let running = running(|_| {});
    let film = Film {
        frame_bytes: 40_000,
        ..Film::default()
    };
    let _source = Source::start(&running.stream(), film);
    let mut sealed = Sealed::new(&running);
    let described = sealed.ask("DESCRIBE", "", "");
    assert!(described.contains("H264/90000"), "{described}");
    sealed.play();
    let (mut last, first) = sealed.packet();
    assert_eq!(first[0] & 0x1f, 24, "parameter sets of the keyframe");
    for _ in 0..1500 {
        let (sequence, _) = sealed.packet();
        assert_eq!(sequence, last.wrapping_add(1));
        last = sequence;
    }
    let left = sealed.ask("TEARDOWN", "", "");
    assert!(left.contains("200 OK"), "{left}");
}

#[test]
fn both_ways_of_a_tunnel_go_inside_tls() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    for round in 0..8 {
        let mut get = Sealed::new(&running);
        let cookie = format!("x-sessioncookie: cookie{round}\r\n");
        let accept = "Accept: application/x-rtsp-tunnelled\r\n\r\n";
        let head = format!("GET /{STREAM} HTTP/1.0\r\n{cookie}{accept}");
        get.stream.write_all(head.as_bytes()).expect("sent");
        let answer = get.response();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        // The request stands in the same record as the head of the POST, or in the next
        // one: TLS has read both before the connection comes to its other half.
        let mut post = Sealed::new(&running);
        let request = format!("DESCRIBE {} RTSP/1.0\r\nCSeq: 1\r\n\r\n", get.url);
        let request = base64::engine::general_purpose::STANDARD.encode(request);
        let kind = "Content-Type: application/x-rtsp-tunnelled\r\nContent-Length: 32767\r\n\r\n";
        let head = format!("POST /{STREAM} HTTP/1.0\r\n{cookie}{kind}");
        match round % 2 {
            0 => {
                let whole = head + &request;
                post.stream.write_all(whole.as_bytes()).expect("sent");
            }
            _ => {
                let mut write = |text: &str| {
                    let mut writer = post.stream.conn.writer();
                    writer.write_all(text.as_bytes()).expect("room");
                };
                write(&head);
                write(&request);
                post.stream.flush().expect("sent");
            }
        }
        let described = get.response();
        assert!(described.contains("H264/90000"), "{described}");
    }
}

#[test]
fn a_token_is_taken_as_a_password_inside_tls() {
    let running = running(|config| {
        let token = glassline_config::Secret::new("swordfish");
        config.auth.read_token = Some(token.expect("a token"));
    });
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut sealed = Sealed::new(&running);
    let asked = sealed.ask("DESCRIBE", "", "");
    assert!(asked.starts_with("RTSP/1.0 401"), "{asked}");
    assert!(asked.contains("WWW-Authenticate: Basic"), "{asked}");
    for (password, status) in [("goldfish", "401"), ("swordfish", "200")] {
        let shown = base64::engine::general_purpose::STANDARD.encode(format!("u:{password}"));
        let header = format!("Authorization: Basic {shown}\r\n");
        let answer = sealed.ask("DESCRIBE", "", &header);
        assert!(
            answer.starts_with(&format!("RTSP/1.0 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn udp_in_the_clear_is_not_offered_inside_tls() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let transport = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
    let answer = Sealed::new(&running).ask("SETUP", "/trackID=0", transport);
    assert!(answer.starts_with("RTSP/1.0 461"), "{answer}");
}

#[test]
fn a_slow_reader_inside_tls_skips_whole_frames_and_nobody_else_notices() {
    let running = running(|config| config.rtsp.lag_ms = 300);
    let film = Film {
        frame_bytes: 60_000,
        gop: 15,
    };
    let _source = Source::start(&running.stream(), film);
    let pool = Pool::start(Options::default()).expect("a thread");
    for _ in 0..4 {
        let url = format!("rtsp://{}/{STREAM}", running.rtsp());
        pool.join(Join::new(Endpoint::Rtsp {
            url: url.parse().expect("a URL"),
            transport: RtspTransport::Tcp,
        }));
    }
    let mut sealed = Sealed::new(&running);
    sealed.play();
    std::thread::sleep(Duration::from_secs(5));
    // All frames are whole, and after the gap comes a keyframe.
    let (mut last, _) = sealed.packet();
    let end = Instant::now() + SOON;
    loop {
        assert!(Instant::now() < end, "no gap in what it got");
        let (sequence, payload) = sealed.packet();
        if last.wrapping_add(1) != sequence {
            assert_eq!(payload[0] & 0x1f, 24, "it goes on at a keyframe");
            break;
        }
        last = sequence;
    }
    for viewer in pool.snapshot() {
        assert_eq!((viewer.damaged, viewer.video.lost()), (0, 0), "{viewer:?}");
        assert!(viewer.frames > 60, "{viewer:?}");
    }
}

#[test]
fn who_speaks_no_tls_or_nothing_is_closed_and_counted() {
    let running = running(|_| {});
    let closed = || {
        let reasons = running.metric("rtsp_clients_closed_total");
        let tls = reasons
            .iter()
            .filter(|(labels, _)| labels.contains("\"tls\""));
        tls.map(|(_, count)| count).sum::<u64>()
    };
    let mut plain = TcpStream::connect(running.rtsps()).expect("it listens");
    plain.set_read_timeout(Some(SOON)).expect("a timeout");
    plain
        .write_all(b"OPTIONS rtsp://h/ RTSP/1.0\r\nCSeq: 1\r\n\r\n")
        .expect("sent");
    let mut rest = Vec::new();
    // Perhaps an alert, then the end.
    match plain.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(closed(), 1);
    let began = Instant::now();
    let mut silent = TcpStream::connect(running.rtsps()).expect("it listens");
    silent.set_read_timeout(Some(SOON)).expect("a timeout");
    assert_eq!(silent.read(&mut [0; 16]).expect("closed"), 0);
    assert!(began.elapsed() >= Duration::from_secs(9));
    assert_eq!(closed(), 2);
}

#[test]
fn a_certificate_that_is_not_there_is_named_at_start() {
    let mut config = glassline_config::Config::default();
    for address in [
        &mut config.http.address,
        &mut config.media.address,
        &mut config.admin.address,
    ] {
        address.set_port(0);
    }
    config.rtsp.address = None;
    config.rtsp.tls.address = "127.0.0.1:0".parse().ok();
    config.rtsp.tls.certificate = Some(data("nowhere.pem"));
    config.rtsp.tls.key = Some(data("localhost.key.pem"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let start = glassline_server::Server::start(config, Vec::new());
    let error = runtime.block_on(start).expect_err("no certificate");
    let shown = error.to_string();
    assert!(shown.contains("nowhere.pem"), "{shown}");
    assert!(shown.contains("rtsp.tls.certificate"), "{shown}");
}

#[test]
fn viewers_inside_tls_get_every_packet() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 40);
    let url = format!("rtsps://localhost:{}/{STREAM}", running.rtsps().port());
    let join = || {
        Join::new(Endpoint::Rtsp {
            url: url.parse().expect("a URL"),
            transport: RtspTransport::Tcp,
        })
    };
    let wary = Pool::start(Options::default()).expect("a thread");
    wary.join(join());
    let trusting = Options {
        trust: Trust::Anyone,
        ..Options::default()
    };
    let pool = Pool::start(trusting).expect("a thread");
    for _ in 0..8 {
        pool.join(join());
        pool.join(join().counting());
    }
    let end = Instant::now() + SOON;
    loop {
        let viewers = pool.snapshot();
        let (good, bad) = (&viewers[..], &wary.snapshot()[0]);
        for viewer in good {
            assert_eq!(viewer.failure, None);
        }
        let plays = |it: &Viewer| it.frames > 60 && it.audio.received > 60;
        if good.iter().all(plays) && bad.failure.is_some() {
            break;
        }
        assert!(Instant::now() < end, "{viewers:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    for viewer in pool.snapshot() {
        let lost = (viewer.damaged, viewer.video.lost(), viewer.audio.lost());
        assert_eq!(lost, (0, 0, 0), "{viewer:?}");
        assert_eq!(viewer.protection, Some("TLS"));
    }
    let failure = wary.snapshot()[0].failure.clone().expect("it ended");
    assert!(failure.contains("certificate"), "{failure}");
}
