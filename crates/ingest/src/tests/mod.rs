mod added_source;
mod camera;
mod camera_layers;
mod command;
mod decode_times;
mod http_camera;
mod pipe;
mod refusing_camera;
mod scripted_camera;
mod udp;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Limits, Prospect, State, Stream, Wake};
use glassline_latency::FrameCodes;
use glassline_media::{MediaTime, MediaUnit, TrackIndex};
use glassline_runtime::{Fault, FaultPoint, Supervisor};
use tokio::sync::watch;

use super::*;

static DEMO_VIDEO: &[u8] = include_bytes!("../../../../assets/demo.h264");
static DEMO_AUDIO: &[u8] = include_bytes!("../../../../assets/demo.ogg");

/// A folder of files that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("glassline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file for the test");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the first second of the demo clip, which is one group of pictures.
fn one_second() -> &'static [u8] {
    let starts = |at: &usize| DEMO_VIDEO[*at..].starts_with(&[0, 0, 0, 1, 0x67]);
    let second = (1..DEMO_VIDEO.len() - 5)
        .find(starts)
        .expect("a second keyframe");
    &DEMO_VIDEO[..second]
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

struct Running {
    hub: Arc<Hub>,
    codes: FrameCodes,
    stop: watch::Sender<bool>,
    sources: Sources,
    supervisor: Arc<Supervisor>,
}

impl Running {
    async fn start(specs: &[&str]) -> Result<Self, StartError> {
        let supervisor = Supervisor::start().expect("a thread");
        Self::with(specs, supervisor).await
    }

    async fn with(specs: &[&str], supervisor: Arc<Supervisor>) -> Result<Self, StartError> {
        let hub = Arc::new(Hub::new(Limits::default()));
        let codes = FrameCodes::default();
        let (stop, stopped) = watch::channel(false);
        let parsed = specs
            .iter()
            .map(|text| SourceSpec::parse(text).expect(text));
        let sources = spawn(
            &hub,
            parsed.collect(),
            Surroundings {
                codes: codes.clone(),
                supervisor: Arc::clone(&supervisor),
                udp_ports: None,
            },
            stopped,
            Permit::default(),
        );
        let sources = sources.await?;
        Ok(Self {
            hub,
            codes,
            stop,
            sources,
            supervisor,
        })
    }

    fn stream(&self, name: &str) -> Arc<Stream> {
        self.hub
            .stream(name)
            .expect("the stream exists from the start")
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        let ended = tokio::time::timeout(Duration::from_secs(10), self.sources.join()).await;
        ended.expect("sources end when told to");
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn files_are_published_in_real_time_and_loop_without_a_jump() {
    let folder = Folder::new("loop");
    let video = folder.file("v.h264", one_second());
    let audio = folder.file("a.ogg", DEMO_AUDIO);
    // Audio is first on the command line; video is the first track all the same.
    let running = Running::start(&[&format!("hall={audio},{video}")])
        .await
        .expect("starts");
    let stream = running.stream("hall");
    let mut subscription = stream.subscribe(Arc::new(NoWake));
    let mut media_units: Vec<Arc<MediaUnit>> = Vec::new();
    until("one and a half rounds", || {
        subscription.poll(&mut media_units);
        media_units
            .iter()
            .filter(|media_unit| media_unit.track == TrackIndex(0))
            .count()
            >= 45
    })
    .await;
    assert_eq!(stream.tracks()[0].kind(), glassline_media::Kind::Video);
    assert!(matches!(stream.state(), State::Live { .. }));
    running.stop().await;
    assert!(matches!(stream.state(), State::Down { .. }));

    for (track, per_second) in [(0, 30), (1, 50)] {
        let of_track: Vec<_> = media_units
            .iter()
            .filter(|media_unit| media_unit.track == TrackIndex(track))
            .collect();
        let first = of_track[0];
        for (number, media_unit) in (0i64..).zip(&of_track) {
            let since = media_unit.time.nanos() - first.time.nanos();
            let due = first.stamps.origin + (media_unit.time.saturating_since(first.time));
            // Audio has no gap where it begins anew, but the packet that would reach beyond the
            // video's end is left out: 20 ms at most.
            let error = (since - number * 1_000_000_000 / per_second).abs();
            assert!(
                error <= if track == 0 { 2 } else { 20_000_000 },
                "{number}: {error} ns"
            );
            assert_eq!(media_unit.stamps.origin, due, "the origin is the due time");
            assert!(
                media_unit.stamps.published >= media_unit.stamps.origin,
                "never early"
            );
        }
    }
    let keyframes: Vec<_> = media_units
        .iter()
        .filter(|media_unit| media_unit.track == TrackIndex(0) && media_unit.keyframe)
        .map(|media_unit| media_unit.time)
        .collect();
    assert!(keyframes.len() >= 2, "the loop begins with a keyframe");
    let apart = keyframes[1].saturating_since(keyframes[0]);
    assert!(
        apart.abs_diff(Duration::from_secs(1)) < Duration::from_micros(1),
        "{apart:?}"
    );
}

#[tokio::test]
async fn a_file_played_once_ends() {
    let folder = Folder::new("once");
    let video = folder.file("v.h264", one_second());
    let running = Running::start(&[&format!("intro={video}?once")])
        .await
        .expect("starts");
    let stream = running.stream("intro");
    until("the end", || matches!(stream.state(), State::Ended { .. })).await;
    assert_eq!(stream.totals().units, 30);
    running.stop().await;
    assert!(
        matches!(stream.state(), State::Ended { .. }),
        "an end stays one"
    );
}

#[tokio::test]
async fn the_demo_says_when_its_frames_were_captured() {
    let running = Running::start(&["demo", "lobby=demo"])
        .await
        .expect("starts");
    let stream = running.stream("demo");
    until("the first frame", || stream.totals().units > 2).await;
    let code = running
        .codes
        .get("demo")
        .expect("the demo has a frame code");
    assert_eq!((code.fps, code.frames), (30, 300));
    assert!(running.codes.get("lobby").is_some());
    assert!(running.codes.get("hall").is_none());
    let first = stream
        .since_keyframe(TrackIndex(0))
        .first()
        .cloned()
        .expect("a keyframe");
    assert_eq!(first.time, MediaTime::ZERO);
    assert_eq!(
        first.stamps.origin, code.epoch,
        "frame 0 is captured at the epoch"
    );
    let codes = running.codes.clone();
    running.stop().await;
    assert!(codes.get("demo").is_none(), "nothing is captured any more");
}

#[tokio::test]
async fn requests_wait_for_a_camera_on_demand_before_its_task_has_begun() {
    let specs = [
        "cam=rtsp://127.0.0.1:1/?on_demand",
        "always=rtsp://127.0.0.1:1/",
    ];
    // This runtime has one thread, which has run no other task yet when this returns.
    let running = Running::start(&specs).await.expect("cameras may be away");
    let prospect = |name| running.hub.stream(name).expect("configured").prospect();
    assert_eq!(prospect("cam"), Prospect::OnDemand);
    assert_eq!(prospect("always"), Prospect::None);
}

#[tokio::test]
async fn sources_that_cannot_work_say_why() {
    let folder = Folder::new("bad");
    let cut = folder.file("cut.ogg", &DEMO_AUDIO[..60]);
    for (specs, wanted) in [
        (
            vec!["cam=/nowhere/v.h264".to_owned()],
            "'cam': /nowhere/v.h264",
        ),
        (vec![format!("cam={cut}")], "cut.ogg, byte "),
        (
            vec!["a=demo".to_owned(), "a=demo".to_owned()],
            "two sources are called 'a'",
        ),
    ] {
        let specs: Vec<_> = specs.iter().map(String::as_str).collect();
        let shown = match Running::start(&specs).await {
            Ok(_) => panic!("{specs:?} started"),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(wanted), "{specs:?}: {shown}");
    }
}

/// Sends bytes without an end to whoever connects and asks for a description, and returns how many
/// MiB were taken before the connection was closed.
async fn endless_camera(listener: tokio::net::TcpListener, head: &'static str) -> usize {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut stream, _) = listener.accept().await.expect("somebody connects");
    let mut requests = String::new();
    let mut buffer = vec![0; 1 << 20];
    while !requests.contains("DESCRIBE") {
        let count = stream.read(&mut buffer).await.expect("a request");
        assert!(count > 0, "it asks for a description");
        requests += std::str::from_utf8(&buffer[..count]).expect("text");
        let number = requests.matches("CSeq: ").count();
        if !requests.contains("DESCRIBE") && requests.ends_with("\r\n\r\n") {
            let answer = format!("RTSP/1.0 200 OK\r\nCSeq: {number}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("taken");
        }
    }
    let number = requests.matches("CSeq: ").count();
    let head = format!("RTSP/1.0 200 OK\r\nCSeq: {number}\r\n{head}");
    stream.write_all(head.as_bytes()).await.expect("taken");
    buffer.fill(b'x');
    for sent in 0..700 {
        if stream.write_all(&buffer).await.is_err() {
            return sent;
        }
    }
    700
}

#[tokio::test]
async fn a_camera_whose_message_has_no_end_is_given_up_at_once() {
    let body = "Content-Type: application/sdp\r\nContent-Length: 4000000000000\r\n\r\n";
    for head in [body, "X-Endless: "] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let camera = tokio::spawn(endless_camera(listener, head));
        let running = Running::start(&[&format!("cam=rtsp://{address}/live")]).await;
        let running = running.expect("a camera is no file");
        let taken = tokio::time::timeout(Duration::from_secs(60), camera).await;
        let taken = taken.expect("it is closed").expect("no panic");
        // What the kernel holds for both ends, and the server's own bound.
        assert!(taken < 40, "{taken} MiB were taken");
        let stream = running.stream("cam");
        until("the failure", || {
            matches!(stream.state(), State::Down { .. })
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_camera_that_does_not_answer_is_down_and_keeps_its_password() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let spec = format!("cam=rtsp://admin:hunter2@127.0.0.1:{port}/live");
    let running = Running::start(&[&spec])
        .await
        .expect("a camera may come later");
    let stream = running.stream("cam");
    assert!(matches!(stream.state(), State::Connecting));
    until("the failure", || {
        matches!(stream.state(), State::Down { .. })
    })
    .await;
    let detail = stream.state().detail().unwrap_or_default().to_owned();
    assert!(detail.contains("connect"), "{detail}");
    assert!(!detail.contains("hunter2"), "{detail}");
    running.stop().await;
}

#[tokio::test]
async fn a_file_source_that_panics_is_down_and_comes_back() {
    let running = Running::start(&["demo=demo"]).await.expect("starts");
    let stream = running.stream("demo");
    let is_live = || matches!(stream.state(), State::Live { .. });
    until("the demo", is_live).await;
    for round in 1..=6 {
        let sources = stream.totals().sources;
        assert!(running.supervisor.inject("file demo", Fault::Panic));
        until("it comes back", || {
            is_live() && stream.totals().sources > sources
        })
        .await;
        let panics = running.supervisor.parts();
        let panics = panics.map(|(_, counters)| counters.panics.get());
        assert_eq!(panics.sum::<u64>(), round);
        assert!(running.codes.get("demo").is_some(), "a new epoch");
    }
    assert_eq!(
        running.supervisor.failure(),
        None,
        "a source ends no process"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_panic_while_a_file_is_opened_at_start_is_an_error_that_names_the_source() {
    let supervisor = Supervisor::start().expect("a thread");
    supervisor.inject_at(FaultPoint::OpenFile, Fault::Panic);
    let started = Running::with(&["demo=demo"], Arc::clone(&supervisor)).await;
    let error = started.err().expect("it panicked").to_string();
    assert!(
        error.starts_with("source 'demo': opening the file: it panicked"),
        "{error}"
    );
    assert!(error.contains("leave the source out"), "{error}");
    let running = Running::with(&["demo=demo"], supervisor).await;
    running.expect("it works the next time").stop().await;
}

#[tokio::test]
async fn a_circle_of_fallbacks_is_refused() {
    for circle in [
        &["a=publisher?fallback=a"][..],
        &["a=publisher?fallback=b", "b=publisher?fallback=a"],
        &[
            "a=publisher?fallback=b",
            "b=publisher?fallback=c",
            "c=publisher?fallback=b",
        ],
    ] {
        let refused = Running::start(circle).await.err();
        let refused = refused.expect("a circle").to_string();
        assert!(refused.contains("leads back to it"), "{refused}");
    }
    let chain = [
        "a=publisher?fallback=b",
        "b=publisher?fallback=c",
        "c=publisher",
    ];
    let running = Running::start(&chain).await.expect("a chain");
    running.stop().await;
}
