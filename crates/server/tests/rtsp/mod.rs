//! Streams over RTSP: hundreds of players, players that stall, and requests that no player sends.

mod panics;
mod places;
mod publishers;
mod unserved;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Join, Options, Pool, RtspTransport, State, Viewer};

use glassline_rtp::rtcp;

use crate::failures::failures;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Time limit for events that take no time on an idle machine.
const SOON: Duration = Duration::from_secs(20);

fn endpoint(running: &Running, transport: RtspTransport) -> Endpoint {
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    Endpoint::Rtsp {
        url: url.parse().expect("a URL"),
        transport,
    }
}

fn pool() -> Pool {
    Pool::start(Options::default()).expect("a thread")
}

/// Waits until `done` is true of all viewers.
fn await_viewers(pool: &Pool, mut done: impl FnMut(&Viewer) -> bool) -> Vec<Viewer> {
    let end = Instant::now() + SOON;
    loop {
        let viewers = pool.snapshot();
        for viewer in &viewers {
            assert_eq!(viewer.failure, None);
        }
        if viewers.iter().all(&mut done) {
            return viewers;
        }
        assert!(Instant::now() < end, "{viewers:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn plays_whole(shards: usize, transport: RtspTransport) {
    let running = Running::start(shards);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 40);
    let pool = pool();
    for _ in 0..8 {
        pool.join(Join::new(endpoint(&running, transport)));
    }
    let viewers = await_viewers(&pool, |viewer| {
        viewer.frames > 60 && viewer.audio.received > 60
    });
    for viewer in &viewers {
        assert_eq!(viewer.damaged, 0, "{viewer:?}");
        assert_eq!(viewer.video.lost(), 0, "{viewer:?}");
        assert_eq!(viewer.audio.lost(), 0, "{viewer:?}");
        assert!(viewer.keyframes > 0, "it began with one");
    }
    assert_eq!(running.hub().stream(STREAM).expect("there").viewers(), 8);
    drop(pool);
    let end = Instant::now() + SOON;
    while running.hub().stream(STREAM).expect("there").viewers() > 0 {
        assert!(Instant::now() < end, "they left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn viewers_get_every_packet_within_their_connection() {
    for shards in [1, 2, 4] {
        plays_whole(shards, RtspTransport::Tcp);
    }
}

#[test]
fn viewers_get_every_packet_by_udp() {
    for shards in [1, 2, 4] {
        plays_whole(shards, RtspTransport::Udp);
    }
}

#[test]
fn viewers_get_every_packet_through_http() {
    for shards in [1, 4] {
        plays_whole(shards, RtspTransport::Http);
    }
}

#[test]
fn two_hundred_who_join_at_once_all_play() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let pool = pool();
    for _ in 0..200 {
        pool.join(Join::new(endpoint(&running, RtspTransport::Tcp)).counting());
    }
    let viewers = await_viewers(&pool, |viewer| {
        viewer.state == State::Playing && viewer.frames > 30
    });
    assert_eq!(viewers.len(), 200);
}

/// A client that speaks RTSP by hand.
pub(crate) struct Hand {
    pub(crate) stream: TcpStream,
    cseq: u32,
    session: String,
}

impl Hand {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("it listens"))
    }

    /// Returns a client on a connection that was made elsewhere.
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        Self {
            stream,
            cseq: 0,
            session: String::new(),
        }
    }

    /// Sends a request and reads to the end of the response's head and body; frames in
    /// between are dropped.
    pub(crate) fn ask(&mut self, method: &str, url: &str, headers: &str) -> String {
        self.send(method, url, headers);
        self.response()
    }

    fn send(&mut self, method: &str, url: &str, headers: &str) {
        self.cseq += 1;
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n", self.cseq);
        if !self.session.is_empty() {
            text += &format!("Session: {}\r\n", self.session);
        }
        text += &format!("{headers}\r\n");
        self.stream.write_all(text.as_bytes()).expect("sent");
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).expect("a byte");
        byte[0]
    }

    /// The channel and payload of the next frame, if the next thing is a frame.
    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 3];
        self.stream.read_exact(&mut head).expect("a frame's head");
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        self.stream.read_exact(&mut payload).expect("a frame");
        (head[0], payload)
    }

    fn response(&mut self) -> String {
        let mut text = vec![];
        loop {
            match self.byte() {
                b'$' if text.is_empty() => drop(self.frame()),
                byte => text.push(byte),
            }
            if text.ends_with(b"\r\n\r\n") {
                break;
            }
        }
        let head = String::from_utf8(text).expect("text");
        let field = |name: &str| {
            let line = head
                .lines()
                .find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
            line.and_then(|line| line.split_once(": "))
                .map(|(_, value)| value.to_owned())
        };
        if let Some(session) = field("session") {
            session
                .split(';')
                .next()
                .unwrap_or("")
                .clone_into(&mut self.session);
        }
        let length = field("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body).expect("a body");
        head + &String::from_utf8(body).expect("text")
    }

    /// Offers to publish what `sdp` describes.
    pub(crate) fn announce(&mut self, url: &str, sdp: &str) -> String {
        let length = sdp.len();
        let headers = format!("Content-Type: application/sdp\r\nContent-Length: {length}\r\n");
        self.send("ANNOUNCE", url, &headers);
        self.stream.write_all(sdp.as_bytes()).expect("sent");
        self.response()
    }

    /// Sets up and plays the video.
    fn play(&mut self, running: &Running) -> String {
        let url = format!("rtsp://{}/{STREAM}", running.rtsp());
        let set_up = self.ask(
            "SETUP",
            &format!("{url}/trackID=0"),
            "Transport: RTP/AVP/TCP;unicast;interleaved=6-7\r\n",
        );
        assert!(set_up.contains("200 OK"), "{set_up}");
        self.ask("PLAY", &url, "")
    }
}

#[test]
fn play_says_where_the_tracks_begin_and_a_report_comes_first() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut hand = Hand::new(running.rtsp());
    let answer = hand.play(&running);
    let info = answer.lines().find(|line| line.starts_with("RTP-Info"));
    let info = info.expect("RTP-Info");
    assert_eq!(hand.byte(), b'$');
    let (channel, report) = hand.frame();
    assert_eq!((channel, report[1]), (7, 200), "a sender report");
    assert_eq!(hand.byte(), b'$');
    let (channel, packet) = hand.frame();
    let packet = glassline_rtp::Packet::parse(&packet).expect("RTP");
    assert_eq!(channel, 6);
    let seq = format!("seq={}", packet.header.sequence);
    let time = format!("rtptime={}", packet.header.timestamp);
    assert!(info.contains(&seq) && info.contains(&time), "{info}");
    assert_eq!(
        packet.payload[0] & 0x1f,
        24,
        "parameter sets of the keyframe"
    );
}

#[test]
fn a_client_that_stalls_skips_and_is_closed_and_nobody_else_notices() {
    let running = Running::with(1, |config| {
        config.rtsp.lag_ms = 500;
        config.rtsp.stall_s = 3;
    });
    let film = Film {
        frame_bytes: 40_000,
        ..Film::default()
    };
    let _source = Source::start(&running.stream(), film);
    let pool = pool();
    for _ in 0..4 {
        pool.join(Join::new(endpoint(&running, RtspTransport::Tcp)));
    }
    await_viewers(&pool, |viewer| viewer.frames > 30);
    let mut stalled = Hand::new(running.rtsp());
    stalled.play(&running);
    let end = Instant::now() + SOON;
    while running.total("rtsp_clients_closed_total") == 0 {
        assert!(Instant::now() < end, "it takes nothing, and is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    let failure = &failures(&running)[0];
    let text = |name: &str| failure[name].as_str().unwrap_or_default();
    assert_eq!((text("stage"), text("stream")), ("connected", STREAM));
    let reason = "s the player took nothing of what is sent to it over TCP";
    assert!(text("reason").ends_with(reason), "{failure}");
    assert!(text("remedy").contains("rtsp.stall_s"), "{failure}");
    for viewer in await_viewers(&pool, |_| true) {
        assert_eq!((viewer.damaged, viewer.video.lost()), (0, 0), "{viewer:?}");
    }
    let described = Hand::new(running.rtsp()).ask(
        "DESCRIBE",
        &format!("rtsp://{}/{STREAM}", running.rtsp()),
        "",
    );
    assert!(described.contains("H264/90000"), "{described}");
}

#[test]
fn a_client_that_was_slow_for_a_while_goes_on_at_a_keyframe() {
    let running = Running::with(1, |config| config.rtsp.lag_ms = 300);
    let film = Film {
        frame_bytes: 60_000,
        gop: 15,
    };
    let _source = Source::start(&running.stream(), film);
    let mut hand = Hand::new(running.rtsp());
    hand.play(&running);
    std::thread::sleep(Duration::from_secs(5));
    // All frames are whole, and after the gap comes a keyframe.
    let mut last = None;
    let mut skipped = false;
    let end = Instant::now() + SOON;
    while !skipped {
        assert!(Instant::now() < end, "no gap in what it got");
        assert_eq!(hand.byte(), b'$', "frames are never torn");
        let (channel, payload) = hand.frame();
        if channel != 6 {
            continue;
        }
        let packet = glassline_rtp::Packet::parse(&payload).expect("RTP");
        let sequence = packet.header.sequence;
        if last.is_some_and(|last: u16| last.wrapping_add(1) != sequence) {
            skipped = true;
            assert_eq!(packet.payload[0] & 0x1f, 24, "it goes on at a keyframe");
        }
        last = Some(sequence);
    }
    assert!(running.total("rtsp_frames_skipped_total") > 0);
}

#[test]
fn leaving_in_the_middle_of_a_frame_harms_nobody() {
    let running = Running::start(2);
    let film = Film {
        frame_bytes: 40_000,
        ..Film::default()
    };
    let _source = Source::start(&running.stream(), film);
    let pool = pool();
    pool.join(Join::new(endpoint(&running, RtspTransport::Tcp)));
    await_viewers(&pool, |viewer| viewer.frames > 10);
    for round in 0..20 {
        let mut hand = Hand::new(running.rtsp());
        hand.play(&running);
        if round % 2 == 0 {
            // TEARDOWN while frames are under way: its answer comes between two.
            let url = format!("rtsp://{}/{STREAM}", running.rtsp());
            let answer = hand.ask("TEARDOWN", &url, "");
            assert!(answer.contains("200 OK"), "{answer}");
        }
    }
    let before = pool.snapshot()[0].frames;
    let viewers = await_viewers(&pool, |viewer| viewer.frames > before + 10);
    assert_eq!((viewers[0].damaged, viewers[0].video.lost()), (0, 0));
}

#[test]
fn requests_in_pieces_and_all_at_once_are_answered_in_order() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    let mut hand = Hand::new(running.rtsp());
    let text = format!("OPTIONS {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    for byte in text.as_bytes() {
        hand.stream.write_all(&[*byte]).expect("sent");
    }
    assert!(hand.response().contains("CSeq: 1"));
    let all: String = (2..12)
        .map(|cseq| format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: {cseq}\r\n\r\n"))
        .collect();
    hand.stream.write_all(all.as_bytes()).expect("sent");
    for cseq in 2..12 {
        let answer = hand.response();
        assert!(answer.contains(&format!("CSeq: {cseq}\r\n")), "{answer}");
        assert!(answer.contains("m=video"), "{answer}");
    }
    let answer = hand.ask("DESCRIBE", &format!("{url}/none"), "");
    assert!(answer.starts_with("RTSP/1.0 404"), "{answer}");
    let answer = hand.ask("DANCE", &url, "");
    assert!(answer.starts_with("RTSP/1.0 501"), "{answer}");
    let counted = running.metric("rtsp_requests_total");
    let expected = [
        ("OPTIONS", 200, 1),
        ("DESCRIBE", 200, 10),
        ("DESCRIBE", 404, 1),
        ("other", 501, 1),
    ];
    let labels = |(method, status, count): (&str, u16, u64)| {
        let labels = format!("method=\"{method}\",status=\"{status}\",thread=\"0\"");
        (labels, count)
    };
    assert_eq!(counted, expected.map(labels));
    let told = running.admin("/api/v1/rtsp/requests").json();
    let first = serde_json::json!({"method": "DESCRIBE", "status": 200, "count": 10});
    assert_eq!(told["requests"][0], first, "{told}");
}

#[test]
fn the_server_says_goodbye_when_it_ends() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut hand = Hand::new(running.rtsp());
    hand.play(&running);
    drop(running);
    let mut farewell = false;
    let mut byte = [0];
    while hand.stream.read_exact(&mut byte).is_ok() {
        assert_eq!(byte[0], b'$');
        let (channel, payload) = hand.frame();
        farewell |= channel == 7
            && rtcp::parse(&payload)
                .flatten()
                .any(|packet| matches!(packet, rtcp::Packet::Bye(_)));
    }
    assert!(farewell, "a BYE, and then the end");
}

#[test]
fn a_file_is_played_from_where_a_client_asks_and_held_when_it_says_so() {
    let assets = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
    let running = Running::with(2, |config| config.rtsp.media_folder = Some(assets));
    let url = format!("rtsp://{}/demo.ogg", running.rtsp());
    let mut hand = Hand::new(running.rtsp());
    let described = hand.ask("DESCRIBE", &url, "");
    assert!(described.contains("a=range:npt=0-"), "{described}");
    let set_up = hand.ask(
        "SETUP",
        &format!("{url}/trackID=0"),
        "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n",
    );
    assert!(set_up.contains("200 OK"), "{set_up}");
    let playing = hand.ask("PLAY", &url, "Range: npt=2-\r\n");
    assert!(playing.contains("200 OK"), "{playing}");
    let start = |answer: &str| -> f64 {
        let range = answer
            .lines()
            .find_map(|line| line.strip_prefix("Range: npt="));
        let range = range.unwrap_or_else(|| panic!("{answer}"));
        let from = range.split('-').next().unwrap_or("");
        from.parse().unwrap_or_else(|_| panic!("{answer}"))
    };
    assert!((start(&playing) - 2.0).abs() < 0.1, "{playing}");
    for _ in 0..20 {
        assert_eq!(hand.byte(), b'$');
        hand.frame();
    }
    let viewers = running.metric("viewers");
    let row = |(labels, count): &(String, u64)| {
        *count == 1 && labels.contains("demo.ogg") && labels.contains("rtsp")
    };
    assert!(viewers.iter().any(row), "{viewers:?}");
    let held = hand.ask("PAUSE", &url, "");
    assert!(start(&held) > 2.0, "{held}");
    let on = hand.ask("PLAY", &url, "");
    assert!((start(&on) - start(&held)).abs() < 0.1, "{held}\n{on}");
    let elsewhere = hand.ask("PLAY", &url, "Range: npt=1-1.5\r\n");
    assert!((start(&elsewhere) - 1.0).abs() < 0.1, "{elsewhere}");
    // The session ends by itself, with a log line.
    loop {
        assert_eq!(hand.byte(), b'$');
        let (channel, payload) = hand.frame();
        let mut packets = rtcp::parse(&payload).flatten();
        if channel == 1 && packets.any(|packet| matches!(packet, rtcp::Packet::Bye(_))) {
            break;
        }
    }
    let beyond = hand.ask("PLAY", &url, "Range: npt=9999-\r\n");
    assert!(beyond.starts_with("RTSP/1.0 457"), "{beyond}");
    let none = hand.ask("DESCRIBE", &format!("{url}x"), "");
    assert!(none.starts_with("RTSP/1.0 404"), "{none}");
}
