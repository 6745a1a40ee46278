//! A WHEP server of the smallest kind: one thread, one stream, the core's own
//! sessions in the accepting role. What it proves is this crate's shell.

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use glassline_media::{Codec, Kind, Track, TrackIndex, UnitBuilder, VideoParameters, WallClock};
use glassline_net::{Options, ReceiveBatch, UdpSocket};
use glassline_rtp::flexfec::Encoder;
use glassline_rtp::h264;
use glassline_webrtc::{
    AcceptConfig, Certificate, Event, Secrets, SenderIndex, Session, stun_username,
};
use parking_lot::Mutex;

use crate::test_http::{Seen, read_request, response};

/// State that a test shares with the server: switches and counts.
#[derive(Default)]
pub(super) struct Shared {
    stop: AtomicBool,
    /// Interval of dropped video packets, in packets; 0 drops none.
    pub(super) lose_every: AtomicU64,
    /// Whether every offer is answered with 404.
    pub(super) refuse: AtomicBool,
    /// Whether each viewer gets one keyframe, with the end of its handshake, and no other.
    pub(super) one_keyframe: AtomicBool,
    /// Whether all sessions are to be closed.
    pub(super) hang_up: AtomicBool,
    /// Sessions ended by DELETE.
    pub(super) deleted: AtomicUsize,
    /// Sessions whose viewer closed DTLS.
    pub(super) closed: AtomicUsize,
    /// Keyframes that viewers requested.
    pub(super) keyframe_requests: AtomicUsize,
    /// Frames that viewers reported.
    pub(super) reported: AtomicUsize,
    /// Whether reports are answered with 410.
    pub(super) refuse_reports: AtomicBool,
    /// Whether a FEC packet follows each frame of the video, and no NACK is answered.
    pub(super) protects: AtomicBool,
    /// Retransmissions that were sent.
    pub(super) repairs: AtomicUsize,
    /// `Authorization` headers of offers.
    pub(super) tokens: Mutex<Vec<bool>>,
}

pub(super) struct Server {
    pub(super) url: String,
    pub(super) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start() -> Self {
        let http = TcpListener::bind("127.0.0.1:0").expect("a free port");
        http.set_nonblocking(true).expect("an option");
        let port = http.local_addr().expect("bound").port();
        let udp = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &Options::default())
            .expect("a free port");
        let shared = Arc::new(Shared::default());
        let mut run = Run::new(http, udp, Arc::clone(&shared));
        let thread = std::thread::spawn(move || run.run());
        Self {
            url: format!("http://127.0.0.1:{port}/demo/whep"),
            shared,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(
                outcome.is_ok() || std::thread::panicking(),
                "the server panicked"
            );
        }
    }
}

struct Run {
    http: TcpListener,
    udp: UdpSocket,
    shared: Arc<Shared>,
    certificate: Arc<Certificate>,
    wall: WallClock,
    tracks: [Track; 2],
    sessions: HashMap<u64, Viewer>,
    owners: HashMap<SocketAddr, u64>,
    next: u64,
    video_sent: u64,
}

struct Viewer {
    ufrag: String,
    session: Session,
    /// Sent packets of the first sender: sequence number, timestamp, marker, payload.
    sent: Vec<(u64, u32, bool, Vec<u8>)>,
    /// FEC over the present frame; `None` where none is sent.
    fec: Option<Encoder>,
}

const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda, 0x01, 0x40, 0x16];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];
const FRAME: Duration = Duration::from_millis(20);
const FRAMES_PER_KEYFRAME: u32 = 25;

impl Run {
    fn new(http: TcpListener, udp: UdpSocket, shared: Arc<Shared>) -> Self {
        let unix = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        let video = VideoParameters {
            sps: SPS.to_vec(),
            pps: PPS.to_vec(),
            ..VideoParameters::default()
        };
        Self {
            http,
            udp,
            shared,
            certificate: Arc::new(Certificate::generate().expect("a key")),
            wall: WallClock::new(Instant::now(), unix),
            tracks: [Track::h264(video), Track::audio(Codec::Opus, 2)],
            sessions: HashMap::new(),
            owners: HashMap::new(),
            next: 0,
            video_sent: 0,
        }
    }

    fn run(&mut self) {
        let mut batch = ReceiveBatch::new(32);
        let mut due = Instant::now();
        let mut frame = 0;
        while !self.shared.stop.load(Ordering::Relaxed) {
            while let Ok((stream, _)) = self.http.accept() {
                self.answer(stream);
            }
            while self.udp.receive_batch(&mut batch).expect("loopback") > 0 {
                for datagram in batch.iter_mut() {
                    self.receive(datagram.source, datagram.bytes);
                }
            }
            if Instant::now() >= due {
                self.send_frame(frame);
                frame += 1;
                due += FRAME;
            }
            self.serve();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn answer(&mut self, mut stream: TcpStream) {
        stream.set_nonblocking(false).expect("an option");
        let request = read_request(&stream);
        let path = request.line.split(' ').nth(1).expect("a path");
        let text = if request.line.starts_with("DELETE") {
            self.delete(&request)
        } else if path.ends_with("/clock") {
            response("200 OK", &[], r#"{"received_ns":7000,"sent_ns":9000}"#)
        } else if path.ends_with("/report") {
            self.report(&request)
        } else {
            self.accept(&request)
        };
        stream.write_all(text.as_bytes()).expect("a reader");
    }

    fn delete(&mut self, request: &Seen) -> String {
        let path = request.line.split(' ').nth(1).expect("a path");
        let number = path.rsplit('/').next().and_then(|text| text.parse().ok());
        let known = number.is_some_and(|number| self.sessions.remove(&number).is_some());
        if !known {
            return response("404 Not Found", &[], "");
        }
        self.shared.deleted.fetch_add(1, Ordering::Relaxed);
        response("200 OK", &[], "")
    }

    /// Counts the frames of a report, and asks for the next one after a second.
    fn report(&self, request: &Seen) -> String {
        if self.shared.refuse_reports.load(Ordering::Relaxed) {
            return response("410 Gone", &[], "no session of that name");
        }
        let report: serde_json::Value = serde_json::from_str(&request.body).expect("JSON");
        let frames = report["frames"]["rtp_timestamp"].as_array();
        let frames = frames.expect("a column").len();
        self.shared.reported.fetch_add(frames, Ordering::Relaxed);
        response("200 OK", &[], r#"{"report_every_s":1}"#)
    }

    fn accept(&mut self, request: &Seen) -> String {
        let has_token = request.has("authorization: Bearer secret");
        self.shared.tokens.lock().push(has_token);
        if self.shared.refuse.load(Ordering::Relaxed) {
            return response("404 Not Found", &[], "no stream of that name");
        }
        let secrets = Secrets::expand(&rand::random());
        let ufrag = secrets.ufrag.clone();
        let config = AcceptConfig {
            local: vec![self.udp.local_addr().into()],
            tracks: &self.tracks,
            ..AcceptConfig::new(Arc::clone(&self.certificate), secrets, self.wall)
        };
        let (session, answer) =
            Session::accept(config, &request.body, Instant::now()).expect("our own offer");
        self.next += 1;
        let protects = self.shared.protects.load(Ordering::Relaxed);
        let video = session.senders().iter().find(|it| it.fec().is_some());
        let fec = video.filter(|_| protects).map(|it| Encoder::new(it.ssrc));
        let viewer = Viewer {
            ufrag,
            session,
            sent: Vec::new(),
            fec,
        };
        self.sessions.insert(self.next, viewer);
        let location = format!("Location: /demo/whep/{}", self.next);
        let headers = ["Content-Type: application/sdp", &location];
        response("201 Created", &headers, &answer)
    }

    fn receive(&mut self, source: SocketAddr, bytes: &mut [u8]) {
        if let Some((ours, _)) = stun_username(bytes) {
            let owner = self
                .sessions
                .iter()
                .find_map(|(number, viewer)| (viewer.ufrag == ours).then_some(*number));
            if let Some(number) = owner {
                self.owners.insert(source, number);
            }
        }
        let owner = self.owners.get(&source);
        if let Some(viewer) = owner.and_then(|number| self.sessions.get_mut(number)) {
            let local = self.udp.local_addr();
            // Drops are the viewers' concern; they show in what fails to arrive.
            let _ = viewer
                .session
                .handle_datagram(Instant::now(), source, local, bytes);
        }
    }

    fn serve(&mut self) {
        let mut out = Vec::new();
        let now = Instant::now();
        let hang_up = self.shared.hang_up.load(Ordering::Relaxed);
        let one_keyframe = self.shared.one_keyframe.load(Ordering::Relaxed);
        let keyframe = video_frame(true).build(
            TrackIndex(0),
            glassline_media::MediaTime::ZERO,
            true,
            glassline_media::Stamps::arrived(now),
        );
        let keyframe = keyframe.expect("packets");
        for viewer in self.sessions.values_mut() {
            let mut is_joined = false;
            if hang_up {
                viewer.session.close(now);
            }
            if viewer.session.poll_timeout().is_some_and(|at| at <= now) {
                viewer.session.handle_timeout(now);
            }
            while let Some(event) = viewer.session.poll_event() {
                match event {
                    Event::Nack {
                        sender: SenderIndex(0),
                        lost,
                        ..
                    } if viewer.fec.is_none() => {
                        let repairs = viewer.repair(&self.udp, &lost, now);
                        self.shared.repairs.fetch_add(repairs, Ordering::Relaxed);
                    }
                    Event::Connected { .. } => is_joined = true,
                    Event::KeyframeRequest { .. } => {
                        self.shared
                            .keyframe_requests
                            .fetch_add(1, Ordering::Relaxed);
                    }
                    Event::Closed(_) => {
                        self.shared.closed.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => {}
                }
            }
            while let Some(to) = viewer.session.poll_transmit(&mut out) {
                self.udp.send(&out, to.socket).expect("loopback takes it");
            }
            if is_joined && one_keyframe {
                for (index, payload) in keyframe.payloads().enumerate() {
                    let marker = keyframe.marker(index);
                    viewer.send(&self.udp, TrackIndex(0), 0, marker, payload, false, now);
                }
            }
        }
    }

    /// Sends a frame of several packets and a packet of audio to every viewer.
    fn send_frame(&mut self, frame: u32) {
        let one_keyframe = self.shared.one_keyframe.load(Ordering::Relaxed);
        let video_frame = video_frame(frame.is_multiple_of(FRAMES_PER_KEYFRAME) && !one_keyframe);
        let mut audio = UnitBuilder::with_capacity(100);
        audio.push(&[0xfc; 100]);
        let now = Instant::now();
        let lose_every = self.shared.lose_every.load(Ordering::Relaxed);
        for (track, mut builder) in TrackIndex::enumerate([video_frame, audio]) {
            let stamps = glassline_media::Stamps::arrived(now);
            let burst = builder
                .build(track, glassline_media::MediaTime::ZERO, false, stamps)
                .expect("packets");
            let is_video = self.tracks[track].kind() == Kind::Video;
            let timestamp = frame * if is_video { 1800 } else { 960 };
            for (index, payload) in burst.payloads().enumerate() {
                self.video_sent += u64::from(is_video);
                let lose = is_video && lose_every > 0 && self.video_sent.is_multiple_of(lose_every);
                let marker = is_video && burst.marker(index);
                for viewer in self.sessions.values_mut() {
                    viewer.send(&self.udp, track, timestamp, marker, payload, lose, now);
                }
            }
        }
    }
}

/// Returns the packets of a frame.
fn video_frame(keyframe: bool) -> UnitBuilder {
    let (kind, size) = if keyframe { (0x65, 4000) } else { (0x41, 2500) };
    let mut slice = vec![0xabu8; size];
    slice[..2].copy_from_slice(&[kind, 0x88]);
    let sets = [SPS, PPS];
    let sets = if keyframe { &sets[..] } else { &[] };
    let mut packets = UnitBuilder::with_capacity(5000);
    h264::packetize(sets.iter().copied().chain([&slice[..]]), 1100, &mut packets);
    packets
}

impl Viewer {
    #[expect(clippy::too_many_arguments, reason = "a test's packet, field by field")]
    fn send(
        &mut self,
        udp: &UdpSocket,
        track: TrackIndex,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        lose: bool,
        now: Instant,
    ) {
        let mut out = [0; 1500];
        let senders = self.session.senders();
        let sender = senders.iter().position(|sender| sender.track == track);
        let Some(sender) = sender.map(SenderIndex) else {
            return;
        };
        let sealed = self
            .session
            .seal(sender, timestamp, marker, payload, now, &mut out);
        let (Some(sealed), Some(to)) = (sealed, self.session.peer()) else {
            return;
        };
        if sender == SenderIndex(0) {
            let packet = (sealed.sequence, timestamp, marker, payload.to_vec());
            self.sent.push(packet);
        }
        if !lose {
            udp.send(&out[..sealed.len], to.socket)
                .expect("loopback takes it");
        }
        if sender == SenderIndex(0) {
            self.protect(udp, sealed.sequence, timestamp, marker, payload, now);
        }
    }

    /// Adds a packet of the video to the FEC packet of its frame, which leaves behind the last one.
    fn protect(
        &mut self,
        udp: &UdpSocket,
        sequence: u64,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        now: Instant,
    ) {
        let (session, Some(fec)) = (&mut self.session, &mut self.fec) else {
            return;
        };
        if fec.span() == 0 {
            fec.begin(1);
        }
        let sender = &session.senders()[0];
        let header = sender.protected_header(sequence, timestamp, marker, 0);
        assert!(fec.push(header.bytes(), payload, 0), "a frame is short");
        if !marker {
            return;
        }
        fec.end(|parity| {
            let mut out = [0; 1500];
            let sealed = session.seal_fec(SenderIndex(0), timestamp, &parity, now, &mut out);
            let (bytes, to) = (sealed.expect("agreed"), session.peer().expect("connected"));
            udp.send(&out[..bytes], to.socket)
                .expect("loopback takes it");
        });
    }

    fn repair(&mut self, udp: &UdpSocket, lost: &[u64], now: Instant) -> usize {
        let mut out = [0; 1500];
        let mut repairs = 0;
        for (sequence, timestamp, marker, payload) in &self.sent {
            if !lost.contains(sequence) {
                continue;
            }
            let resealed = self.session.seal_retransmission(
                SenderIndex(0),
                *sequence,
                *timestamp,
                *marker,
                payload,
                now,
                &mut out,
            );
            if let (Some(bytes), Some(to)) = (resealed, self.session.peer()) {
                udp.send(&out[..bytes], to.socket)
                    .expect("loopback takes it");
                repairs += 1;
            }
        }
        repairs
    }
}
