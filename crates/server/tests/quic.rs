//! MoQ over QUIC: publishers, readers, and clients that violate the protocol.

use std::future::Future;
use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use glassline_config::Secret;
use glassline_congestion::Algorithm;
use glassline_media::{Codec, Kind, MediaTime, Track, TrackIndex, annexb};
use glassline_quic::moq::{
    Address, Announcement, BroadcastReader, ConnectError, Ended, Frame, Options, Role, Session,
    TrackConfig, TrackReader, connect,
};
use glassline_quic::{ClientEndpoint, CongestionControl, Trust};
use tokio::runtime::Runtime;

use crate::peer::{Peer, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source, VIDEO};
use crate::track_changes::Vp8Source;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

/// A session with `running`, for a broadcast called `name`, with `query` behind.
pub(crate) async fn open(
    running: &Running,
    name: &str,
    role: Role,
) -> Result<Session, ConnectError> {
    open_pinned(running, name, role, &running.fingerprint()).await
}

async fn open_pinned(
    running: &Running,
    name: &str,
    role: Role,
    pin: &str,
) -> Result<Session, ConnectError> {
    let at = running.quic();
    let address = Address::parse(&format!("moq://{at}/{name}#sha256={pin}"));
    let endpoint = ClientEndpoint::new().expect("a socket");
    let options = Options {
        congestion: CongestionControl::new(Algorithm::Cubic),
        trust: Trust::System,
        role,
    };
    soon(connect(&endpoint, &address.expect("an address"), options)).await
}

const SETS: [&[u8]; 2] = [
    &[0x67, 0x42, 0xc0, 0x1f, 0xd9, 0x00, 0x50, 0x05, 0xbb],
    &[0x68, 0xce, 0x3c, 0x80],
];

/// Encodes a number in bytes that contain no start code.
fn marks(number: u32) -> [u8; 4] {
    [21, 14, 7, 0].map(|shift| 0x80 | (number >> shift) as u8)
}

fn number(marks: &[u8]) -> u32 {
    let digits = marks.iter().map(|mark| u32::from(mark & 0x7f));
    digits.fold(0, |number, digit| number << 7 | digit)
}

/// Frame `number` at 30 a second; every tenth is a keyframe.
fn frame(number: u32) -> Frame {
    let keyframe = number.is_multiple_of(10);
    let mut data = Vec::new();
    let mut nal = |bytes: &[u8]| {
        data.extend_from_slice(&[0, 0, 0, 1]);
        data.extend_from_slice(bytes);
    };
    if keyframe {
        SETS.into_iter().for_each(&mut nal);
    }
    let head = if keyframe { 0x65 } else { 0x41 };
    nal(&[&[head, 0x88][..], &[0xab; 2500], &marks(number), &[0x80]].concat());
    Frame {
        time: MediaTime::from_nanos(i64::from(number) * 33_333_000),
        keyframe,
        data: Bytes::from(data),
    }
}

/// A client that publishes frames at their pace until it is dropped or disconnected.
pub(crate) struct Camera {
    runtime: Runtime,
    ended: tokio::task::JoinHandle<Ended>,
}

impl Camera {
    pub(crate) fn start(
        running: &Running,
        name: &str,
        query: &str,
        track_configs: Vec<TrackConfig>,
    ) -> Self {
        Self::sending(running, name, query, track_configs, u32::MAX)
    }

    /// Starts a client that sends `frames` frames and then stays silent.
    fn sending(
        running: &Running,
        name: &str,
        query: &str,
        track_configs: Vec<TrackConfig>,
        frames: u32,
    ) -> Self {
        let runtime = runtime();
        let target = format!("{name}{query}");
        let ended = match runtime.block_on(open(running, &target, Role::Publisher)) {
            Ok(session) => runtime.spawn(film(session, name.to_owned(), track_configs, frames)),
            Err(ConnectError::Ended(ended)) => runtime.spawn(async { ended }),
            Err(other) => panic!("{other}"),
        };
        Self { runtime, ended }
    }

    /// Returns whether the server has ended the session.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_finished()
    }

    /// Returns how the server ended the session.
    pub(crate) fn ended(self) -> Ended {
        let Self { runtime, ended } = self;
        runtime.block_on(soon(ended)).expect("no panic")
    }
}

async fn film(
    session: Session,
    name: String,
    track_configs: Vec<TrackConfig>,
    frames: u32,
) -> Ended {
    let mut broadcast = session.publish(&name, track_configs).expect("a good name");
    broadcast.set_clock(MediaTime::ZERO, SystemTime::now());
    let mut ticks = tokio::time::interval(Duration::from_micros(33_333));
    for number in 0..frames {
        tokio::select! {
            _ = ticks.tick() => {}
            ended = session.ended() => return ended,
        }
        if let Err(error) = broadcast.write(TrackIndex(0), &frame(number)) {
            println!("{error}");
            return session.ended().await;
        }
    }
    session.ended().await
}

pub(crate) fn track_configs() -> Vec<TrackConfig> {
    vec![TrackConfig::new(Track::new(Codec::H264))]
}

/// Waits until `done` returns true, and fails with `what` if it never does.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_publisher_sends_is_watched_over_webrtc() {
    let running = Running::start(1);
    let camera = Camera::start(&running, STREAM, "", track_configs());
    eventually("it is live", || {
        running
            .hub()
            .stream(STREAM)
            .is_some_and(|it| it.state().as_str() == "live")
    });
    let mut peer = Peer::answered(&running);
    let seen = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 200;
    assert!(peer.run_until(SOON, seen), "frames: {:?}", peer.events);
    let mut frames =
        glassline_rtp::payload::Depacketizer::new(&Track::new(Codec::H264)).expect("a format");
    let mut whole = 0;
    for received in peer.in_order(Kind::Video) {
        let (sequence, timestamp) = (received.sequence, received.timestamp);
        frames.push(sequence, timestamp, received.marker, &received.payload);
        while let Some(unit) = frames.poll() {
            let tail = unit.data.len() - 5;
            let sent = frame(number(&unit.data[tail..tail + 4]));
            let same = annexb::nals(&unit.data).eq(annexb::nals(&sent.data));
            assert!(same, "a frame came as it was sent");
            assert_eq!(unit.is_keyframe(), sent.keyframe);
            whole += 1;
        }
    }
    assert!(whole > 30, "{whole} frames");
    // Frames are answered, and the publisher tells what it measures by that.
    eventually("its report", || {
        let sessions = running.admin("/api/v1/quic/sessions").json();
        let session = &sessions["sessions"][0];
        session["app_rtt_ms"].as_f64() > Some(0.0)
            && session["goodput_bps"].as_f64() > Some(300_000.0)
            && session["transport_rtt_ms"].as_f64() > Some(0.0)
            && session["publishes"][0] == STREAM
    });
    let metrics = running.admin("/metrics").body;
    let row = format!("glassline_quic_app_rtt_seconds{{stream=\"{STREAM}\"}} ");
    assert!(metrics.contains(&row), "{metrics}");
    // Both clocks are this machine's.
    let latency = running
        .get(&format!("/api/v1/streams/{STREAM}/latency"))
        .json();
    let stages = latency["stages"].as_array().expect("a list");
    assert!(stages.iter().any(|it| it["stage"] == "uplink"), "{latency}");
    camera.ended.abort();
    eventually("it is over", || {
        running
            .hub()
            .stream(STREAM)
            .is_some_and(|it| it.state().as_str() == "down")
    });
}

#[test]
fn streams_of_the_hub_are_read_as_they_were_published() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|media_units| media_units.len() > 20);
    runtime().block_on(async {
        let session = open(&running, STREAM, Role::Subscriber)
            .await
            .expect("reading is open");
        let began = soon(session.announced().next()).await;
        assert_eq!(began, Some(Announcement::Began(STREAM.to_owned())));
        let mut subscription = soon(session.subscribe(STREAM)).await.expect("it is there");
        let catalog = soon(subscription.catalog())
            .await
            .expect("good")
            .expect("one");
        let chosen = catalog.choose().expect("video and audio");
        assert_eq!(
            (chosen[0].track.codec, chosen[1].track.codec),
            (Codec::H264, Codec::Opus)
        );
        let mut frames = soon(subscription.read(&chosen[0], SOON))
            .await
            .expect("there");
        let mut audio_reader = soon(subscription.read(&chosen[1], SOON))
            .await
            .expect("there");
        let mut got = Vec::new();
        for _ in 0..60 {
            got.push(soon(frames.next()).await.expect("good").expect("more"));
            let audio = soon(audio_reader.next())
                .await
                .expect("good")
                .expect("more");
            assert!(!audio.data.is_empty());
        }
        assert!(got[0].keyframe, "it begins at one");
        assert!(got.windows(2).all(|pair| pair[0].time < pair[1].time));
        let published = source.published();
        let mut media_units = published
            .iter()
            .filter(|media_unit| media_unit.track == VIDEO);
        let first = got[0].time;
        let near = |time: MediaTime| time.nanos().abs_diff(first.nanos()) < 1_000;
        let start = media_units
            .find(|media_unit| near(media_unit.time))
            .expect("it was published");
        assert!(start.keyframe);
        for (got, media_unit) in got[1..].iter().zip(media_units) {
            let nanos = got.time.nanos().abs_diff(media_unit.time.nanos());
            assert!(nanos < 20_000, "no frame is missing: {nanos} ns apart");
            assert_eq!(got.keyframe, media_unit.keyframe);
        }
    });
}

/// Returns whether a client that trusts only the certificate with this SHA-256 can read.
pub(crate) fn is_reached(running: &Running, pin: &str) -> bool {
    let session = open_pinned(running, STREAM, Role::Subscriber, pin);
    runtime().block_on(session).is_ok()
}

/// Reads the first frame of the stream.
async fn read_first(session: &Session) -> (BroadcastReader, TrackReader) {
    let mut subscription = soon(session.subscribe(STREAM)).await.expect("it is there");
    let catalog = soon(subscription.catalog()).await.expect("good");
    let chosen = catalog.expect("one").choose().expect("video");
    let mut frames = soon(subscription.read(&chosen[0], SOON))
        .await
        .expect("there");
    soon(frames.next()).await.expect("good").expect("a frame");
    (subscription, frames)
}

#[test]
fn an_address_has_a_number_of_sessions_of_its_own() {
    let running = Running::with(1, |config| config.quic.clients_per_address = Some(2));
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|media_units| media_units.len() > 5);
    let runtime = runtime();
    let open = || runtime.block_on(open(&running, STREAM, Role::Subscriber));
    let sessions = [open().expect("one"), open().expect("two")];
    let read = sessions
        .each_ref()
        .map(|it| runtime.block_on(read_first(it)));
    assert!(open().is_err(), "the address has two that read");
    drop((read, sessions));
    eventually("the places are free again", || open().is_ok());
}

#[test]
fn a_session_that_reads_no_more_makes_room_for_a_newcomer() {
    let running = Running::with(1, |config| config.quic.clients = 2);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|media_units| media_units.len() > 5);
    let runtime = runtime();
    let open = || runtime.block_on(open(&running, STREAM, Role::Subscriber));
    let sessions = [open().expect("one"), open().expect("two")];
    let [reads, ends] = sessions
        .each_ref()
        .map(|it| runtime.block_on(read_first(it)));
    assert!(open().is_err(), "both read");
    drop(ends);
    eventually("the one that reads no more makes room", || open().is_ok());
    let ended = runtime.block_on(soon(sessions[1].ended()));
    assert!(
        matches!(&ended, Ended::Closed(why) if why.contains("full")),
        "{ended}"
    );
    let (_, mut frames) = reads;
    let frame = runtime.block_on(soon(frames.next())).expect("it reads on");
    assert!(frame.is_some());
}

#[test]
fn a_reader_is_told_that_the_codec_changed_and_reads_the_new_catalog() {
    let running = Running::start(1);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    source.await_published(|media_units| media_units.len() > 20);
    runtime().block_on(async {
        let session = open(&running, STREAM, Role::Subscriber)
            .await
            .expect("reading is open");
        let codec = async || {
            let mut subscription = soon(session.subscribe(STREAM)).await.expect("it is there");
            let catalog = soon(subscription.catalog()).await.expect("good");
            let chosen = catalog.expect("one").choose().expect("video");
            let frames = soon(subscription.read(&chosen[0], SOON)).await;
            (chosen[0].track.codec, frames, subscription)
        };
        let (before, frames, _subscription) = codec().await;
        assert_eq!(before, Codec::H264);
        let mut frames = frames.expect("there");
        drop(source);
        let _source = Vp8Source::start(&stream);
        let ended = async { while let Ok(Some(_)) = frames.next().await {} };
        soon(ended).await;
        let end = Instant::now() + SOON;
        loop {
            let (codec, frames, _subscription) = codec().await;
            if codec == Codec::Vp8 {
                let frame = soon(frames.expect("there").next()).await;
                assert!(frame.expect("good").is_some(), "the new track is read");
                break;
            }
            assert!(Instant::now() < end, "the catalog is the old one");
        }
    });
}

#[test]
fn without_the_token_nothing_of_media_is_read() {
    let running = Running::with(1, |config| {
        config.auth.publish_token = Secret::new("show-1234567").ok();
    });
    for query in ["", "?token=wrong"] {
        let camera = Camera::start(&running, STREAM, query, track_configs());
        let ended = camera.ended();
        assert!(matches!(ended, Ended::Unauthorized), "{query}: {ended}");
    }
    assert!(running.hub().stream(STREAM).is_none());
    let refused = running.metric("quic_refused_total");
    let unauthorized = refused
        .iter()
        .find(|(labels, _)| labels.contains("unauthorised"));
    assert_eq!(unauthorized.map(|(_, count)| *count), Some(2));
    assert_eq!(running.total("quic_accepted_total"), 0);
    let list = running.admin("/api/v1/failures").json();
    let failures = list["failures"].as_array().expect("a list");
    let count = failures
        .iter()
        .map(|it| it["count"].as_u64().expect("a count"));
    assert_eq!(count.sum::<u64>(), 2, "{list}");
    for failure in failures {
        assert_eq!(failure["protocol"], "quic");
        assert_eq!(failure["role"], "publisher");
        assert_eq!(failure["stage"], "rights");
    }
    let _camera = Camera::start(&running, STREAM, "?token=show-1234567", track_configs());
    eventually("it is live", || running.hub().stream(STREAM).is_some());
}

#[test]
fn a_name_has_one_publisher_and_must_be_one() {
    let running = Running::start(1);
    let _camera = Camera::start(&running, STREAM, "", track_configs());
    eventually("it is live", || running.hub().stream(STREAM).is_some());
    let second = Camera::start(&running, STREAM, "", track_configs()).ended();
    assert!(
        second
            .to_string()
            .contains("another source publishes this stream"),
        "{second}"
    );
    let unnamed = Camera::start(&running, "api", "", track_configs()).ended();
    assert!(
        unnamed.to_string().contains("no stream can have"),
        "{unnamed}"
    );
}

#[test]
fn a_silent_publisher_gives_its_stream_to_the_next_one() {
    let running = Running::start(1);
    let killed = Camera::sending(&running, STREAM, "", track_configs(), 30);
    eventually("it is live", || running.hub().stream(STREAM).is_some());
    // Like `glassline publish`, the next one tries again until it is taken.
    let end = Instant::now() + SOON;
    let next = loop {
        let next = Camera::start(&running, STREAM, "", track_configs());
        eventually("one of them ends", || {
            next.ended.is_finished() || killed.ended.is_finished()
        });
        if !next.ended.is_finished() {
            break next;
        }
        assert!(Instant::now() < end, "{}", next.ended());
    };
    let ended = killed.ended();
    let text = ended.to_string();
    assert!(
        text.contains("another source publishes this stream"),
        "{text}"
    );
    let stream = running.hub().stream(STREAM).expect("it has a source");
    eventually("the next one is live", || {
        matches!(stream.state(), glassline_hub::State::Live { .. })
    });
    assert!(!next.ended.is_finished());
}

#[test]
fn a_catalog_that_cannot_be_is_refused_by_name() {
    let running = Running::start(1);
    let mut wide = Track::new(Codec::H264);
    (wide.video.width, wide.video.height) = (100_000, 720);
    let ended = Camera::start(&running, STREAM, "", vec![TrackConfig::new(wide)]).ended();
    assert!(
        ended.to_string().contains("contradict their catalog"),
        "{ended}"
    );
    let refused = running.metric("quic_refused_total");
    let catalog = refused
        .iter()
        .find(|(labels, _)| labels.contains("catalog"));
    assert_eq!(catalog.map(|(_, count)| *count), Some(1));
    assert!(running.hub().stream(STREAM).is_none());
}

#[test]
fn noise_at_the_port_disturbs_nobody() {
    let running = Running::start(1);
    let noise = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for bytes in [1, 20, 600, 1200, 1400] {
        for first in [0x00, 0x40, 0xc3, 0xff] {
            let mut datagram = vec![0x5a; bytes];
            datagram[0] = first;
            noise.send_to(&datagram, running.quic()).expect("sent");
        }
    }
    let _camera = Camera::start(&running, STREAM, "", track_configs());
    eventually("it is live", || running.hub().stream(STREAM).is_some());
    assert_eq!(running.total("quic_sessions"), 1);
}
