//! Voices that go to cameras: ONVIF's back channel, as its specification has it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use glassline_access::auth::{Account, Name, Pattern};
use glassline_ingest::SourceSpec;
use glassline_media::{Codec, Track};
use glassline_rtp::Header;
use glassline_transcode::{AudioSource, Decoder};
use glassline_webrtc::Kinds;

use crate::peer::{Peer, SDP, SOON, socket};
use crate::running::{Response, Running};
use crate::source::{Film, Source};

/// The view of a camera of a talker.
#[derive(Debug, PartialEq)]
enum Seen {
    /// A request's method, and whether it requires the back channel.
    Request(String, bool),
    /// An RTP packet on the back channel's own interleaved channel.
    Packet(Header, Vec<u8>),
    /// The connection has ended.
    End,
}

/// A camera that takes a voice in the formats of `line`, and sends no media at all.
struct TalkedCamera {
    address: SocketAddr,
    seen: Receiver<Seen>,
}

const PCMA: &str =
    "m=audio 0 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\na=sendonly\r\na=control:track3\r\n";
const PCMU: &str = "m=audio 0 RTP/AVP 0\r\na=sendonly\r\na=control:track3\r\n";
const AAC: &str = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 mpeg4-generic/16000/1\r\na=fmtp:97 streamtype=5;\
    profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1408\r\n\
    a=sendonly\r\na=control:track3\r\n";
const LATM: &str = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MP4A-LATM/48000/2\r\na=fmtp:97 profile-level-id=41;\
    cpresent=0;config=400023203fc0\r\na=sendonly\r\na=control:track3\r\n";
const AAC_BEFORE_PCMA: &str = "m=audio 0 RTP/AVP 97 8\r\na=rtpmap:97 mpeg4-generic/16000\r\n\
    a=rtpmap:8 PCMA/8000\r\na=sendonly\r\na=control:track3\r\n";
const G726: &str =
    "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 G726-32/8000\r\na=sendonly\r\na=control:track3\r\n";

impl TalkedCamera {
    fn start(line: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (sender, seen) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("a connection"), sender.clone());
                std::thread::spawn(move || serve(stream, line, &sender));
            }
        });
        Self { address, seen }
    }

    /// A server whose stream `door` is this camera.
    fn running(&self) -> Running {
        Running::with_sources(vec![source(self.address, "main")])
    }

    fn next(&self) -> Seen {
        self.seen.recv_timeout(SOON).expect("something happens")
    }

    /// Waits for a request with this method, which must require the back channel.
    fn await_request(&self, method: &str) {
        loop {
            match self.next() {
                Seen::Request(seen, requires) if seen == method => {
                    assert!(requires, "{method}");
                    return;
                }
                Seen::Request(..) | Seen::Packet(..) => {}
                Seen::End => panic!("the connection ended before {method}"),
            }
        }
    }
}

/// Answers one connection. A description without the back channel is refused, so that the camera's
/// media is never live: a voice does not depend on it.
fn serve(stream: TcpStream, line: &str, seen: &Sender<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut writer = stream;
    let mut is_talk = false;
    loop {
        let mut first = [0];
        if reader.read_exact(&mut first).is_err() {
            if is_talk {
                let _ = seen.send(Seen::End);
            }
            return;
        }
        if first == *b"$" {
            let mut head = [0; 3];
            reader.read_exact(&mut head).expect("a frame");
            let mut frame = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
            reader.read_exact(&mut frame).expect("a whole frame");
            assert_eq!(head[0], 6, "the channel of the answer");
            let header = Header::parse(&frame).expect("RTP");
            let _ = seen.send(Seen::Packet(header, frame[12..].to_vec()));
            continue;
        }
        let mut lines = vec![String::from_utf8_lossy(&first).into_owned()];
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            lines.push(line);
        }
        let text = lines.concat();
        let method = text.split(' ').next().expect("a word").to_owned();
        let requires = text.contains("Require: www.onvif.org/ver20/backchannel\r\n");
        let sequence = text
            .lines()
            .find(|it| it.starts_with("CSeq"))
            .expect("CSeq");
        // A connection that asks for the description alone asks whether the camera takes a voice.
        is_talk |= requires && method == "SETUP";
        let (status, more) = match method.as_str() {
            "DESCRIBE" if !requires => ("404 Not Found", String::new()),
            "DESCRIBE" => {
                let video = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=recvonly\r\na=control:track1\r\n";
                let sdp = format!("v=0\r\ns=camera\r\n{video}{line}");
                let length = sdp.len();
                (
                    "200 OK",
                    format!(
                        "Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{sdp}"
                    ),
                )
            }
            "SETUP" => {
                assert!(
                    text.contains("/track3 RTSP"),
                    "the back channel alone: {text}"
                );
                let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=6-7\r\nSession: 7;timeout=60\r\n\r\n";
                ("200 OK", transport.to_owned())
            }
            _ => ("200 OK", "Session: 7\r\n\r\n".to_owned()),
        };
        if requires {
            let _ = seen.send(Seen::Request(method, requires));
        }
        let more = if more.is_empty() {
            "\r\n".to_owned()
        } else {
            more
        };
        let _ = writer.write_all(format!("RTSP/1.0 {status}\r\n{sequence}\r\n{more}").as_bytes());
    }
}

fn source(camera: SocketAddr, path: &str) -> SourceSpec {
    SourceSpec::parse(&format!("door=rtsp://{camera}/{path}")).expect("a source")
}

fn talk(running: &Running, codec: Codec) -> Result<Peer<'_>, Response> {
    let asked = (vec![Track::new(codec)], Kinds::NONE);
    Peer::asking(running, "/door/talk", &[], socket(), asked, str::to_owned)
}

fn a_voice_reaches_the_camera_and_leaves(line: &'static str, codec: Codec, payload_type: u8) {
    let camera = TalkedCamera::start(line);
    let running = camera.running();
    assert_eq!(running.get("/door/talk").status, 204);
    let mut talker = talk(&running, codec).expect("answered");
    camera.await_request("PLAY");
    assert!(talker.run_until(SOON, Peer::is_connected));
    for round in 0..10_u8 {
        assert!(talker.say(1_000 + 160 * u32::from(round), &[round; 160]));
        talker.run_for(Duration::from_millis(5));
    }
    let mut first = None;
    for round in 0..10_u8 {
        let Seen::Packet(header, payload) = camera.next() else {
            panic!("packets alone");
        };
        assert_eq!(payload, [round; 160]);
        assert_eq!(header.payload_type, payload_type);
        assert_eq!(header.marker, round == 0);
        let first = first.get_or_insert(header);
        assert_eq!(header.ssrc, first.ssrc);
        let after = header.sequence.wrapping_sub(first.sequence);
        assert_eq!(after, u16::from(round));
        let ticks = header.timestamp.wrapping_sub(first.timestamp);
        assert_eq!(ticks, 160 * u32::from(round));
    }
    assert_eq!(running.total("talk_packets_total"), 10);
    // Nobody else talks meanwhile.
    let refused = talk(&running, codec).err().expect("busy");
    let why = refused.problem(409);
    assert!(
        why["detail"]
            .as_str()
            .expect("text")
            .contains("somebody else"),
        "{why}"
    );
    talker.delete();
    camera.await_request("TEARDOWN");
    assert_eq!(camera.next(), Seen::End);
    // The next one may.
    let again = talk(&running, codec);
    camera.await_request("PLAY");
    again.expect("answered").delete();
}

#[test]
fn a_voice_in_pcma_reaches_the_camera_and_leaves() {
    a_voice_reaches_the_camera_and_leaves(PCMA, Codec::Pcma, 8);
}

#[test]
fn a_voice_in_pcmu_reaches_the_camera_and_leaves() {
    a_voice_reaches_the_camera_and_leaves(PCMU, Codec::Pcmu, 0);
}

/// Samples of the first channel of a payload, as the camera decodes it.
fn heard(line: &str, payload: &[u8], decoder: &mut Option<Decoder>) -> Vec<f32> {
    let (track, frame) = if line == LATM {
        let ones = payload.iter().take_while(|it| **it == 255).count();
        let length = 255 * ones + usize::from(payload[ones]);
        assert_eq!(payload.len(), ones + 1 + length, "one whole frame");
        let stereo = Track::audio(Codec::Aac, 2).with_clock_rate(48_000);
        (stereo, &payload[ones + 1..])
    } else {
        let (head, frame) = payload.split_first_chunk::<4>().expect("an AU header");
        let size = (frame.len() as u16) << 3;
        assert_eq!(*head, [0, 16, (size >> 8) as u8, size as u8]);
        (Track::audio(Codec::Aac, 1).with_clock_rate(16_000), frame)
    };
    let decoder = decoder.get_or_insert_with(|| {
        let source = AudioSource::of(&track).expect("AAC-LC");
        Decoder::new(&source).expect("a decoder")
    });
    let mut samples = Vec::new();
    let format = decoder.decode(frame, &mut samples).expect("decodes");
    assert_eq!(format.channels, usize::from(track.channels));
    samples.iter().step_by(format.channels).copied().collect()
}

/// A camera whose back channel takes AAC alone was refused.
fn a_camera_that_takes_aac_alone_hears_the_tone(line: &'static str, rate: u32) {
    let camera = TalkedCamera::start(line);
    let running = camera.running();
    let mut talker = talk(&running, Codec::Pcmu).expect("answered");
    assert!(talker.run_until(SOON, Peer::is_connected));
    // 500 Hz as a square wave: eight samples up, eight down.
    let square: Vec<_> = (0..160).map(|n| [0x90, 0x10][n / 8 % 2]).collect();
    let (mut samples, mut decoder, mut before) = (Vec::new(), None, None::<Header>);
    let mut timestamp = 77;
    let end = Instant::now() + SOON;
    while samples.len() < rate as usize {
        assert!(Instant::now() < end, "{} samples of {rate}", samples.len());
        // The queue holds half a second; on a busy machine, the thread behind it takes its time.
        let decoded = samples.len() as u64 * 8_000 / u64::from(rate);
        if u64::from(timestamp - 77) < decoded + 3_000 {
            assert!(talker.say(timestamp, &square));
            timestamp += 160;
        }
        talker.run_for(Duration::from_millis(15));
        for seen in camera.seen.try_iter() {
            let Seen::Packet(header, payload) = seen else {
                continue;
            };
            samples.append(&mut heard(line, &payload, &mut decoder));
            assert!(header.marker && header.payload_type == 97, "{header:?}");
            if let Some(before) = before {
                assert_eq!(header.sequence, before.sequence.wrapping_add(1));
                assert_eq!(header.timestamp, before.timestamp.wrapping_add(1_024));
            }
            before = Some(header);
        }
    }
    // The fundamental of a square wave has 81 % of its energy, and 1.27 times its amplitude.
    let tail = &samples[rate as usize / 2..];
    let (mut re, mut im, mut energy) = (0.0, 0.0, 0.0);
    for (n, sample) in tail.iter().map(|it| f64::from(*it)).enumerate() {
        let phase = std::f64::consts::TAU * 500.0 * n as f64 / f64::from(rate);
        re += sample * phase.cos();
        im += sample * phase.sin();
        energy += sample * sample;
    }
    let share = 2.0 * (re * re + im * im) / tail.len() as f64 / energy;
    assert!((0.7..0.95).contains(&share), "{share} of the energy");
    let loudness = (energy / tail.len() as f64).sqrt();
    assert!((0.4..0.6).contains(&loudness), "{loudness}, of 0.49");
    talker.delete();
    camera.await_request("TEARDOWN");
    assert_eq!(camera.next(), Seen::End);
}

#[test]
fn a_camera_that_takes_aac_alone_hears_a_voice_in_g711() {
    a_camera_that_takes_aac_alone_hears_the_tone(AAC, 16_000);
}

#[test]
fn a_camera_that_takes_aac_in_latm_alone_hears_both_channels() {
    a_camera_that_takes_aac_alone_hears_the_tone(LATM, 48_000);
}

#[test]
fn a_talker_that_sends_opus_alone_is_heard_by_every_camera() {
    // Opus of 20 ms of silence.
    let silence = [0xf8, 0xff, 0xfe];
    for (line, payload_type, bytes) in [(PCMU, 0, 160..161), (AAC, 97, 5..60)] {
        let camera = TalkedCamera::start(line);
        let running = camera.running();
        let mut talker = talk(&running, Codec::Opus).expect("answered");
        assert!(talker.run_until(SOON, Peer::is_connected));
        let mut timestamp = 5;
        loop {
            assert!(talker.say(timestamp, &silence));
            timestamp += 960;
            talker.run_for(Duration::from_millis(15));
            let packet = camera.seen.try_iter().find_map(|seen| match seen {
                Seen::Packet(header, payload) => Some((header.payload_type, payload)),
                _ => None,
            });
            if let Some((number, payload)) = packet {
                assert_eq!(number, payload_type);
                assert!(bytes.contains(&payload.len()), "{payload:?}");
                break;
            }
        }
        talker.delete();
        camera.await_request("TEARDOWN");
    }
}

#[test]
fn g711_is_preferred_to_aac() {
    let camera = TalkedCamera::start(AAC_BEFORE_PCMA);
    let running = camera.running();
    let mut talker = talk(&running, Codec::Pcma).expect("answered");
    assert!(talker.run_until(SOON, Peer::is_connected));
    camera.await_request("PLAY");
    assert!(talker.say(9, &[3; 160]));
    let Seen::Packet(header, payload) = camera.next() else {
        panic!("a packet");
    };
    assert_eq!((header.payload_type, header.timestamp), (8, 9));
    assert_eq!(payload, [3; 160]);
}

#[test]
fn a_talker_that_vanishes_before_its_handshake_frees_the_camera() {
    let camera = TalkedCamera::start(PCMU);
    let sources = vec![source(camera.address, "main")];
    let running = Running::with_sources_and(sources, |config| config.limits.handshake_s = 1);
    let asked = talk(&running, Codec::Pcmu).expect("answered");
    drop(asked);
    camera.await_request("TEARDOWN");
    assert_eq!(camera.next(), Seen::End);
    talk(&running, Codec::Pcmu).expect("the camera is free");
}

#[test]
fn cameras_that_take_no_voice_are_told_apart() {
    let detail = |response: Response, status: u16| {
        let problem = response.problem(status);
        problem["detail"].as_str().expect("text").to_owned()
    };
    let refusal = |running: &Running, codec| talk(running, codec).err().expect("refused");

    let other = TalkedCamera::start(G726);
    let why = detail(refusal(&other.running(), Codec::Pcmu), 422);
    assert!(
        why.contains("G726-32 of 8000 Hz") && why.contains("AAC-LC is needed"),
        "{why}"
    );

    // A talker that sends video alone.
    let camera = TalkedCamera::start(AAC);
    let why = detail(refusal(&camera.running(), Codec::Vp8), 400);
    assert!(why.contains("no m= line sends audio"), "{why}");
    camera.await_request("TEARDOWN");

    // This server has no back channel, and answers 551.
    let other = Running::start(1);
    let _source = Source::start(&other.stream(), Film::default());
    let running = Running::with_sources(vec![source(other.rtsp(), "cam")]);
    let why = detail(refusal(&running, Codec::Pcmu), 422);
    assert!(why.contains("no ONVIF back channel"), "{why}");

    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = closed.local_addr().expect("bound");
    drop(closed);
    let running = Running::with_sources(vec![source(address, "main")]);
    let why = detail(refusal(&running, Codec::Pcmu), 502);
    assert!(why.contains("cannot connect to the camera"), "{why}");

    let response = running.request("POST", "/nobody/talk", &[SDP], "v=0\r\n");
    assert_eq!(response.status, 404, "{}", response.body);
    assert_eq!(running.get("/nobody/talk").status, 404);
}

#[test]
fn a_camera_that_hangs_up_ends_the_talk() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        // Connections for the camera's media are refused by 404, the one for the voice ends at once
        // after PLAY.
        for stream in listener.incoming() {
            let (stream, sender) = (stream.expect("a connection"), sender.clone());
            let hang_up = stream.try_clone().expect("a socket");
            let (inner, requests) = channel();
            std::thread::spawn(move || serve(stream, PCMU, &inner));
            std::thread::spawn(move || {
                for it in requests {
                    if matches!(&it, Seen::Request(method, true) if method == "PLAY") {
                        std::thread::sleep(Duration::from_millis(300));
                        let _ = hang_up.shutdown(std::net::Shutdown::Both);
                        let _ = sender.send(());
                    }
                }
            });
        }
    });
    let running = Running::with_sources(vec![source(address, "main")]);
    let mut talker = talk(&running, Codec::Pcmu).expect("answered");
    seen.recv_timeout(SOON).expect("PLAY");
    let ended = |peer: &Peer<'_>| peer.session.is_closed();
    assert!(talker.run_until(SOON, ended), "the talker is told");
    running.await_sessions(0, SOON);
}

#[test]
fn talking_needs_the_right_to_publish() {
    let camera = TalkedCamera::start(PCMU);
    let sources = vec![source(camera.address, "main")];
    let account = |name: &str, publish: &[&str]| {
        let name = Name::parse(name).expect("a name");
        let pattern = |it: &&str| Pattern::parse(it).expect("a pattern");
        Account {
            read: vec![pattern(&"*")],
            publish: publish.iter().map(pattern).collect(),
            ..Account::new(name, "pw", &[1; 16])
        }
    };
    let running = Running::with_sources_and(sources, |config| {
        config.auth.users = vec![account("viewer", &[]), account("guard", &["door"])];
    });
    // `viewer:pw` and `guard:pw`.
    let try_as = |shown: &str| {
        let basic = format!("Basic {shown}");
        let asked = (vec![Track::new(Codec::Pcmu)], Kinds::NONE);
        let headers = [("Authorization", basic.as_str())];
        Peer::asking(
            &running,
            "/door/talk",
            &headers,
            socket(),
            asked,
            str::to_owned,
        )
    };
    let stranger = talk(&running, Codec::Pcmu).err().expect("no credentials");
    assert_eq!(stranger.status, 401);
    let viewer = try_as("dmlld2VyOnB3")
        .err()
        .expect("watching is not talking");
    assert_eq!(viewer.status, 403);
    try_as("Z3VhcmQ6cHc=").expect("may talk");
}
