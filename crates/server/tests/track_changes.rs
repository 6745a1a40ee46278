//! Sources that come back with other codecs: the stream goes on, and those who receive the old
//! tracks are told.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_ingest::SourceSpec;
use glassline_media::{Codec, Kind, MediaTime, Stamps, Track, UnitBuilder};
use glassline_webrtc::Event;

use crate::peer::{Peer, SOON};
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{AUDIO, Film, Source, VIDEO};

/// A VP8 keyframe of no content: only its first bytes are looked at.
const KEYFRAME: &[u8] = b"\x10\x02\x00\x9d\x01\x2a\x40\x01\xf0\x00";

/// A thread that publishes VP8 keyframes and Opus, 25 frames of each a second.
pub(crate) struct Vp8Source {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Vp8Source {
    pub(crate) fn start(stream: &Arc<Stream>) -> Self {
        let tracks = vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
        let publisher = stream.publish(tracks, Instant::now());
        let mut publisher = publisher.expect("a source with another codec is taken");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                for track in [VIDEO, AUDIO] {
                    let mut builder = UnitBuilder::default();
                    builder.push(KEYFRAME);
                    let time = MediaTime::from_nanos(number * 40_000_000);
                    let now = Instant::now();
                    let unit = builder.build(track, time, true, Stamps::arrived(now));
                    let unit = unit.expect("it has a packet");
                    publisher.push(unit, now).expect("an announced track");
                }
                number += 1;
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Vp8Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn is_closed(peer: &Peer<'_>) -> bool {
    let mut events = peer.events.iter();
    events.any(|event| matches!(event, Event::Closed(_)))
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_viewer_is_closed_when_the_codec_changes_and_plays_when_it_comes_back() {
    let running = Running::start(2);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    let mut peers = [Peer::joined(&running), Peer::joined(&running)];
    drop(source);
    let _source = Vp8Source::start(&stream);
    for peer in &mut peers {
        assert!(peer.run_until(SOON, is_closed), "the viewer is told");
        let mut video = peer.received.iter().filter(|it| it.kind == Kind::Video);
        assert!(video.all(|it| it.payload != KEYFRAME), "sent as H.264");
    }
    eventually("the server forgets them", || stream.viewers() == 0);
    assert_eq!(running.total("viewers_closed_total"), 2);
    for peer in &peers {
        let told = || {
            let answer = peer.delete();
            (answer.status == 410).then(|| answer.problem(410))
        };
        eventually("the session tells why", || told().is_some());
        let problem = told().expect("it is kept");
        assert_eq!(problem["title"], "The source changed its codecs");
    }
    let mut again = Peer::of_stream(&running, STREAM).expect("answered");
    let gets_vp8 = |peer: &Peer<'_>| {
        let mut video = peer.received.iter().filter(|it| it.kind == Kind::Video);
        video.any(|it| it.payload.ends_with(KEYFRAME))
    };
    assert!(again.run_until(SOON, gets_vp8), "the new codec plays");
}

#[test]
fn a_codec_that_changes_before_the_handshake_is_not_sent() {
    let running = Running::start(1);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    let mut peer = Peer::answered(&running);
    drop(source);
    let _source = Vp8Source::start(&stream);
    assert!(peer.run_until(SOON, is_closed), "the viewer is told");
    assert_eq!(peer.received.len(), 0);
}

/// Sets up the video within the connection.
fn set_up(running: &Running) -> Hand {
    let mut hand = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/{STREAM}/trackID=0", running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = hand.ask("SETUP", &url, transport);
    assert!(answer.contains("200 OK"), "{answer}");
    hand
}

/// Reads to the end of the connection, and returns everything that came.
pub(crate) fn read_to_end(hand: &mut Hand) -> Vec<u8> {
    let end = Instant::now() + SOON;
    let (mut rest, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        assert!(Instant::now() < end, "the server closes the connection");
        match hand.stream.read(&mut buffer) {
            Ok(0) => return rest,
            Ok(count) => rest.extend_from_slice(&buffer[..count]),
            Err(error) => panic!("the server closes the connection: {error}"),
        }
    }
}

#[test]
fn rtsp_clients_are_closed_when_the_codec_changes_and_are_described_the_new_one() {
    let running = Running::start(2);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    source.await_published(|units| units.len() > 5);
    let (mut plays, mut waits) = (set_up(&running), set_up(&running));
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    let answer = plays.ask("PLAY", &url, "");
    assert!(answer.contains("200 OK"), "{answer}");
    drop(source);
    let _source = Vp8Source::start(&stream);
    let came = read_to_end(&mut plays);
    let contains = |bytes: &[u8]| came.windows(bytes.len()).any(|it| it == bytes);
    assert!(!contains(KEYFRAME), "sent as H.264");
    // RTCP BYE, within a compound packet (RFC 3550 §6.6).
    assert!(contains(&[0x81, 203]), "a goodbye");
    read_to_end(&mut waits);
    eventually("the server forgets it", || stream.viewers() == 0);
    let closed = running.metric("rtsp_clients_closed_total");
    let changed = closed
        .iter()
        .filter(|(labels, _)| labels.contains("tracks_changed"));
    assert_eq!(changed.map(|(_, count)| *count).sum::<u64>(), 2);

    let described = Hand::new(running.rtsp()).ask("DESCRIBE", &url, "");
    assert!(described.contains("VP8/90000"), "{described}");
    let mut again = set_up(&running);
    let answer = again.ask("PLAY", &url, "");
    assert!(answer.contains("200 OK"), "{answer}");
    let (mut came, mut buffer) = (Vec::new(), [0; 2048]);
    while !came.ends_with(KEYFRAME) {
        let count = again.stream.read(&mut buffer).expect("media");
        assert!(count > 0, "it stays");
        came.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn a_client_that_was_described_other_tracks_has_to_ask_again() {
    let running = Running::start(2);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    let mut hand = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    let described = hand.ask("DESCRIBE", &url, "");
    assert!(described.contains("H264/90000"), "{described}");
    drop(source);
    let _source = Vp8Source::start(&stream);
    let track = format!("{url}/trackID=0");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let gone = hand.ask("SETUP", &track, transport);
    assert!(gone.contains("410 Gone"), "{gone}");
    eventually("nobody is set up", || stream.viewers() == 0);

    let described = hand.ask("DESCRIBE", &url, "");
    assert!(described.contains("VP8/90000"), "{described}");
    let answer = hand.ask("SETUP", &track, transport);
    assert!(answer.contains("200 OK"), "{answer}");
}

#[test]
fn a_camera_that_changes_its_codec_is_live_again() {
    for transport in ["tcp", "udp"] {
        camera_changes_its_codec(transport);
    }
}

fn camera_changes_its_codec(transport: &str) {
    let camera = Running::start(1);
    let source = Source::start(&camera.stream(), Film::default());
    source.await_published(|units| units.len() > 5);
    let spec = format!(
        "{STREAM}=rtsp://{}/{STREAM}?transport={transport}",
        camera.rtsp()
    );
    let spec = SourceSpec::parse(&spec).expect("a source");
    let running = Running::with_sources(vec![spec]);
    let stream = running.stream();
    let is_live = || stream.state().as_str() == "live";
    eventually("the camera is live", is_live);
    let mut viewer = Peer::joined(&running);
    drop(source);
    let _source = Vp8Source::start(&camera.stream());
    assert!(viewer.run_until(SOON, is_closed), "its viewer is told");
    eventually("the camera is live again", || {
        is_live() && stream.tracks()[0].codec == Codec::Vp8
    });
    let units = stream.totals().units;
    eventually("media flows", || stream.totals().units > units + 20);
}
