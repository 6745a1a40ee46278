//! The shipped clip as files of a folder: 10 s, 30 frames and 50 packets of audio a
//! second. Times are loose upwards: a busy machine makes these tests slower, not red.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, State, Stream, Subscription, Wake};
use glassline_media::{MediaTime, MediaUnit};

use futures_util::FutureExt as _;

use super::*;
use crate::runtime::{Fault, FaultPoint, Supervisor};

static VIDEO: &[u8] = include_bytes!("../../../../../assets/demo.h264");
static AUDIO: &[u8] = include_bytes!("../../../../../assets/demo.ogg");

/// Longest wait of a test.
const SOON: Duration = Duration::from_secs(20);

/// Playback from the start, again and again.
const LOOPED: Play = Play {
    from: Some(Duration::ZERO),
    until: None,
    scale: 1.0,
    speed: 1.0,
    once: false,
};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("glassline-library-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("a folder");
        folder.write("clip.h264", VIDEO);
        folder.write("clip.ogg", AUDIO);
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a file for the test");
    }

    fn library(&self, limits: Limits) -> (Library, Arc<Hub>) {
        // A test that got no processor time still finds what it missed.
        let hub = Arc::new(Hub::new(glassline_hub::Limits {
            ring_span: 2 * SOON,
            repair_span: 2 * SOON,
            ..glassline_hub::Limits::default()
        }));
        let supervisor = Supervisor::start().expect("a thread");
        let library = Library::new(self.0.clone(), Arc::clone(&hub), limits, &supervisor);
        (library.expect("threads"), hub)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Reads a stream as a client does.
struct Client {
    subscription: Subscription,
    media_units: Vec<Arc<MediaUnit>>,
}

impl Client {
    fn of(stream: &Arc<Stream>) -> Self {
        Self {
            subscription: stream.subscribe(Arc::new(WakeCounter::default())),
            media_units: Vec::new(),
        }
    }

    /// Waits until `done` is true for the units that came.
    fn until(&mut self, what: &str, done: impl Fn(&[Arc<MediaUnit>]) -> bool) {
        let end = Instant::now() + SOON;
        while !done(&self.media_units) {
            assert!(
                Instant::now() < end,
                "{what}: {} came",
                self.media_units.len()
            );
            std::thread::sleep(Duration::from_millis(2));
            self.subscription.poll(&mut self.media_units);
        }
    }

    fn count(&mut self, media_units: usize) {
        self.until("units", |all| all.len() >= media_units);
    }

    fn poll(&mut self) -> usize {
        self.subscription.poll(&mut self.media_units);
        self.media_units.len()
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn begun(private: &PrivateReading) -> Started {
    until("it begins", || private.started().is_some());
    let started = private.started().expect("it has begun");
    started.expect("the file is good")
}

async fn found(library: &Library, name: &str) -> Arc<MediaFile> {
    let found = library.find(name).await.expect("a good file");
    found.expect("the file is there")
}

/// Returns the keyframes of the clip, read by other means.
fn keyframes(folder: &Path) -> Vec<MediaTime> {
    let paths = [folder.join("clip.h264")];
    let options = glassline_demux::Options {
        once: true,
        ..Default::default()
    };
    let mut source = glassline_demux::open(&paths, &options).expect("a good file");
    let frames = std::iter::from_fn(|| source.next_frame().expect("readable"));
    let keys = frames
        .filter(|frame| frame.keyframe)
        .map(|frame| frame.time);
    keys.collect()
}

fn at(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

fn millis(time: MediaTime) -> i64 {
    (time.nanos() + 500_000).div_euclid(1_000_000)
}

#[tokio::test]
async fn a_file_is_read_through_once_for_fifty_who_ask_together() {
    let folder = Folder::new();
    let (library, hub) = folder.library(Limits::default());
    let library = Arc::new(library);
    let asks = (0..50).map(|_| {
        let library = Arc::clone(&library);
        tokio::spawn(async move { found(&library, "clip.h264").await })
    });
    let mut media_files = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        media_files.push(ask.await.expect("no panic"));
    }
    assert_eq!(library.counts().opened, 1);
    assert_eq!(media_files[0].duration(), Duration::from_secs(10));
    let lives: Vec<_> = media_files.iter().map(|it| it.live()).collect();
    let mut clients: Vec<_> = lives.iter().map(|live| Client::of(live.stream())).collect();
    assert_eq!(library.counts().readings, 1);
    assert_eq!(lives[0].stream().tracks().len(), 1);
    assert!(hub.streams().is_empty(), "nothing plays yet");
    for live in &lives {
        live.play();
    }
    assert_eq!(hub.streams().len(), 1, "listed once");
    for client in &mut clients {
        client.count(3);
        assert_eq!(client.media_units[0].index, 0);
        assert!(client.media_units[0].keyframe, "the file's first frame");
    }
}

#[tokio::test]
async fn who_comes_alone_gets_the_file_from_its_start_each_time() {
    let folder = Folder::new();
    let limits = Limits {
        linger: Duration::from_millis(100),
        ..Limits::default()
    };
    let (library, hub) = folder.library(limits);
    let media_file = found(&library, "clip.ogg").await;
    for round in 0..2 {
        let live = media_file.live();
        let mut client = Client::of(live.stream());
        live.play();
        assert!(hub.stream("clip.ogg").is_some(), "WHEP finds it");
        client.count(5);
        assert_eq!(client.media_units[0].index, 0, "round {round}");
        let spacing = client.media_units[4]
            .time
            .saturating_since(client.media_units[0].time);
        assert_eq!(spacing, Duration::from_millis(80));
        assert_eq!(live.stream().state().as_str(), "live");
        let stream = Arc::clone(live.stream());
        drop(live);
        // A viewer that found the stream in the hub keeps it playing.
        let viewer = stream.add_viewer();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(stream.state().as_str(), "live");
        drop(viewer);
        until("it ends", || hub.stream("clip.ogg").is_none());
        assert_eq!(stream.state().as_str(), "ended");
        until("it is gone", || library.counts().readings == 0);
    }
    assert_eq!(library.counts().opened, 1);
}

#[tokio::test]
async fn a_name_that_a_stream_has_stays_that_stream() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("films")).expect("a folder");
    folder.write("films/a b.ogg", AUDIO);
    let (library, hub) = folder.library(Limits::default());
    let name = glassline_hub::StreamName::parse("clip.ogg").expect("a good name");
    let camera = hub.create(name).expect("room");
    let live = found(&library, "clip.ogg").await.live();
    live.play();
    assert!(!Arc::ptr_eq(live.stream(), &camera));
    let nested = found(&library, "films/a b.ogg").await.live();
    assert_eq!(nested.stream().name().as_str(), "~films_a_b.ogg");
    assert_eq!(hub.streams().len(), 1, "neither is listed");
    nested.play();
    Client::of(nested.stream()).count(3);
}

#[tokio::test]
async fn a_fork_begins_with_the_keyframe_before_and_pauses() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let keys = keyframes(&folder.0);
    let expected = keys.iter().rfind(|key| key.nanos() <= 3_200_000_000);
    let private = media_file.fork(None).expect("room");
    let mut client = Client::of(private.stream());
    private.play(Play {
        from: at(3_200),
        ..Play::default()
    });
    let started = begun(&private);
    assert_eq!(
        started.from,
        expected.expect("one").saturating_since(MediaTime::ZERO)
    );
    assert_eq!((started.scale, started.speed), (1.0, 1.0));
    client.count(4);
    assert!(client.media_units[0].keyframe);
    assert_eq!(client.media_units[0].time, started.time);
    assert_eq!(started.first_packets, [0]);
    // No unit comes while it is paused, and it continues with the next frame.
    let position = private.pause();
    let paused = client.poll();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.poll(), paused, "it holds");
    let last = client
        .media_units
        .last()
        .map(|media_unit| (media_unit.index, media_unit.time));
    let (index, time) = last.expect("some came");
    private.play(Play::default());
    client.count(paused + 2);
    let resumed = begun(&private);
    let next = &client.media_units[paused];
    assert_eq!(next.index, index + 1);
    assert_eq!(
        (next.time, next.first_packet),
        (resumed.time, resumed.first_packets[0])
    );
    let step = resumed.from.saturating_sub(position);
    assert!(step.as_millis().abs_diff(33) <= 1, "{step:?} of the file");
    let pause = next.time.saturating_since(time);
    assert!(
        pause >= Duration::from_millis(200),
        "{pause:?} on the stream"
    );
}

#[tokio::test]
async fn a_seek_goes_on_on_the_same_timeline() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let private = found(&library, "clip.h264")
        .await
        .fork(Some(Play::default()));
    let private = private.expect("room");
    let mut client = Client::of(private.stream());
    assert_eq!(begun(&private).from, Duration::ZERO);
    client.count(4);
    private.play(Play {
        from: at(8_000),
        ..Play::default()
    });
    let started = begun(&private);
    // The reading thread may have begun before this one looks.
    let is_new = |it: &Arc<MediaUnit>| it.first_packet >= started.first_packets[0];
    client.until("the new", |all| {
        all.iter().filter(|it| is_new(it)).count() >= 3
    });
    let before = client.media_units.iter().position(is_new).expect("it came");
    let (last, first) = (&client.media_units[before - 1], &client.media_units[before]);
    assert!(first.keyframe && first.index == last.index + 1);
    assert_eq!(
        (first.time, first.first_packet),
        (started.time, started.first_packets[0])
    );
    let step = first.time.saturating_since(last.time);
    assert!(
        step > Duration::ZERO && step < Duration::from_secs(3),
        "{step:?}"
    );
    assert!(started.from > Duration::from_secs(5) && started.from <= Duration::from_secs(8));
}

#[tokio::test]
async fn scales_show_keyframes_in_order_at_the_time_they_are_shown() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let keys: Vec<_> = keyframes(&folder.0).into_iter().map(millis).collect();
    assert!(keys.len() >= 4, "{keys:?}");
    let played = |scale: f64, from| {
        let private = media_file.fork(None).expect("room");
        let mut client = Client::of(private.stream());
        private.play(Play {
            from: at(from),
            scale,
            ..Play::default()
        });
        let started = begun(&private);
        client.until("it ends", |_| private.is_over());
        client.poll();
        assert!(
            client.media_units.iter().all(|it| it.keyframe),
            "keyframes only"
        );
        assert!((started.scale - scale).abs() < 1e-9);
        let times = client.media_units.iter().map(|it| millis(it.time));
        (started.from.as_millis(), times.collect::<Vec<_>>())
    };
    let spaced = |keys: &[i64], scale: i64| {
        let first = keys[0];
        let shown = keys.iter().map(|key| (key - first).abs() / scale);
        shown.collect::<Vec<_>>()
    };
    let close = |got: &[i64], wanted: &[i64]| {
        let pairs = got.iter().zip(wanted);
        got.len() == wanted.len() && pairs.clone().all(|(a, b)| a.abs_diff(*b) <= 1)
    };
    let (from, times) = played(4.0, 0);
    assert_eq!(from, 0);
    assert!(close(&times, &spaced(&keys, 4)), "{times:?} {keys:?}");
    let (from, times) = played(-4.0, 9_900);
    let backwards: Vec<_> = keys.iter().rev().copied().collect();
    assert_eq!(from, u128::from(backwards[0].unsigned_abs()));
    assert!(
        close(&times, &spaced(&backwards, 4)),
        "{times:?} {backwards:?}"
    );
}

#[tokio::test]
async fn half_the_scale_shows_every_frame_for_twice_as_long() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let play = Play {
        from: at(0),
        scale: 0.5,
        ..Play::default()
    };
    let private = media_file.fork(Some(play)).expect("room");
    begun(&private);
    let mut client = Client::of(private.stream());
    client.count(3);
    let step = client.media_units[2]
        .time
        .saturating_since(client.media_units[1].time);
    assert!(step.as_micros().abs_diff(66_667) < 10, "{step:?}");
    assert_eq!(client.media_units[2].index, client.media_units[1].index + 1);
    // A higher speed sends sooner and shows the same.
    private.play(Play {
        from: at(0),
        speed: 8.0,
        until: at(1_000),
        ..Play::default()
    });
    let began = Instant::now();
    until("it ends", || private.is_over());
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    client.poll();
    let video_frames = &client.media_units[client.media_units.len() - 30..];
    let shown = video_frames[29].time.saturating_since(video_frames[0].time);
    assert!(shown.as_millis().abs_diff(967) <= 1, "{shown:?}");
}

#[tokio::test]
async fn audio_has_no_scale() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.ogg").await;
    let play = Play {
        from: at(9_800),
        scale: -4.0,
        ..Play::default()
    };
    let private = media_file.fork(Some(play)).expect("room");
    let started = begun(&private);
    assert!((started.scale - 1.0).abs() < 1e-9);
    assert_eq!(started.from, Duration::from_millis(9_800));
    until("it ends", || private.is_over());
    assert!(matches!(private.stream().state(), State::Ended { .. }));
    // The file can be played again.
    private.play(Play {
        from: at(0),
        ..Play::default()
    });
    assert_eq!(begun(&private).from, Duration::ZERO);
    assert_eq!(private.stream().state().as_str(), "live");
}

#[tokio::test]
async fn a_reading_that_is_dropped_stops_and_frees_its_place_and_its_file() {
    let folder = Folder::new();
    let limits = Limits {
        private: 20,
        idle_span: Duration::from_millis(50),
        ..Limits::default()
    };
    let (library, _hub) = folder.library(limits);
    let media_file = found(&library, "clip.h264").await;
    let path = folder
        .0
        .join("clip.h264")
        .canonicalize()
        .expect("it is there");
    let descriptors = || {
        let all = fs::read_dir("/proc/self/fd").expect("our own");
        let to = all.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
        to.filter(|to| *to == path).count()
    };
    let before = descriptors();
    let fork = || media_file.fork(Some(Play::default()));
    let privates: Vec<_> = (0..20).map(|_| fork().expect("room")).collect();
    for private in &privates {
        begun(private);
    }
    assert_eq!(descriptors(), before, "they share the file's");
    assert_eq!(fork().expect_err("no more"), Full { limit: 20 });
    assert_eq!(library.counts().private, 20);
    let stream = Arc::clone(privates[0].stream());
    drop(privates);
    until("they are gone", || library.counts().readings == 0);
    assert_eq!(stream.state().as_str(), "ended");
    assert!(fork().is_ok(), "there is room again");
    drop(media_file);
    let end = Instant::now() + SOON;
    while library.counts().media_files > 0 {
        assert!(Instant::now() < end, "the file is put back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(descriptors() < before, "and closed");
}

#[tokio::test]
async fn a_broken_file_is_read_once_and_again_when_it_changed() {
    let folder = Folder::new();
    folder.write("broken.ogg", &AUDIO[..60]);
    let (library, _hub) = folder.library(Limits::default());
    let mut reasons = Vec::new();
    for _ in 0..50 {
        let error = library.find("broken.ogg").await.expect_err("it ends early");
        reasons.push(error.to_string());
    }
    assert_eq!(library.counts().opened, 1);
    reasons.dedup();
    assert_eq!(reasons.len(), 1);
    assert!(
        reasons[0].contains("broken.ogg") && reasons[0].contains("byte"),
        "{reasons:?}"
    );
    folder.write("broken.ogg", AUDIO);
    let end = Instant::now() + SOON;
    while library.find("broken.ogg").await.is_err() {
        assert!(Instant::now() < end, "it is seen that the file changed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(library.counts().opened, 2);
}

#[tokio::test]
async fn names_that_lead_nowhere_leave_nothing_behind() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let outside = format!(
        "../{}/clip.ogg",
        folder.0.file_name().expect("it has one").display()
    );
    for name in [
        "",
        "none.ogg",
        "../clip.ogg",
        &outside,
        "clip.txt",
        "/etc/passwd",
        ".h.ogg",
    ] {
        assert!(
            library.find(name).await.expect("no error").is_none(),
            "{name}"
        );
    }
    assert_eq!(library.counts(), Counts::default());
}

#[tokio::test]
async fn one_thread_paces_hundreds() {
    let folder = Folder::new();
    let limits = Limits {
        threads: 1,
        ..Limits::default()
    };
    let (library, _hub) = folder.library(limits);
    let media_file = found(&library, "clip.h264").await;
    // An eighth of the recorded speed: 1,125 frames a second in all, which a busy machine manages
    // without optimization, too.
    let play = Play {
        from: at(0),
        scale: 0.125,
        ..Play::default()
    };
    let fork = || media_file.fork(Some(play)).expect("room");
    let privates: Vec<_> = (0..300).map(|_| fork()).collect();
    let mut clients: Vec<_> = privates.iter().map(|it| Client::of(it.stream())).collect();
    for _ in 0..15 {
        std::thread::sleep(Duration::from_millis(200));
        for client in &mut clients {
            client.poll();
        }
    }
    let mut late = Vec::new();
    for client in &mut clients {
        let count = client.media_units.len();
        assert!(count >= 6, "{count} frames of some 11");
        late.extend(client.media_units.iter().map(|media_unit| {
            let stamps = media_unit.stamps;
            stamps.published.saturating_duration_since(stamps.origin)
        }));
    }
    late.sort();
    let (median, most) = (late[late.len() / 2], late[late.len() * 9 / 10]);
    assert!(
        median < Duration::from_millis(50),
        "median {median:?}, nine of ten {most:?}"
    );
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_no_entry_behind() {
    let folder = Folder::new();
    let (library, _) = folder.library(Limits::default());
    let (mut number, mut dropped) = (0, 0);
    while dropped < 20 {
        number += 1;
        assert!(number < 100_000, "no lookup takes more than one poll");
        let name = format!("missing-{number}.mp4");
        // Polled once, and dropped like the request of a client that hung up.
        let found = library.find(&name).now_or_never();
        dropped += usize::from(found.is_none());
    }
    // Threads may still be looking for the last ones.
    while library.counts().media_files > 0 {
        tokio::task::yield_now().await;
    }
    let found = library.find("clip.h264").await.expect("a good file");
    assert!(found.is_some());
    assert_eq!(library.counts().media_files, 1);
}

#[tokio::test]
async fn a_file_that_nobody_waits_for_any_more_is_opened_once_and_kept() {
    let folder = Folder::new();
    let supervisor = Supervisor::start().expect("a thread");
    let library = Library::new(
        folder.0.clone(),
        Arc::default(),
        Limits::default(),
        &supervisor,
    );
    let library = library.expect("threads");
    supervisor.inject_at(FaultPoint::OpenFile, Fault::Hang(SOON / 20));
    let mut asked = Box::pin(library.find("clip.h264"));
    while library.counts().opened == 0 {
        let _ = (&mut asked).now_or_never();
        tokio::task::yield_now().await;
    }
    drop(asked);
    for _ in 0..50 {
        let _ = library.find("clip.h264").now_or_never();
    }
    let found = library.find("clip.h264").await.expect("a good file");
    assert!(found.is_some());
    assert_eq!(library.counts().opened, 1, "one thread has read it for all");
}

#[tokio::test]
async fn a_list_that_nobody_waits_for_any_more_is_made_and_kept() {
    let folder = Folder::new();
    let (library, _) = folder.library(Limits::default());
    assert!(library.list().now_or_never().is_none());
    let made = loop {
        let listed = library.listed.try_lock();
        if let Some((_, listing)) = listed.ok().as_deref().and_then(Option::as_ref) {
            break Arc::clone(listing);
        }
        tokio::task::yield_now().await;
    };
    assert!(Arc::ptr_eq(&library.list().await, &made));
}

#[tokio::test]
async fn a_reading_that_panics_is_down_and_the_others_play_on() {
    let folder = Folder::new();
    let hub = Arc::new(Hub::default());
    let supervisor = Supervisor::start().expect("a thread");
    let limits = Limits {
        threads: 1,
        ..Limits::default()
    };
    let library = Library::new(folder.0.clone(), Arc::clone(&hub), limits, &supervisor);
    let library = library.expect("a thread");
    let file = library.find("clip.h264").await.expect("a good file");
    let file = file.expect("it is there");
    let readings: Vec<_> = (0..2).map(|_| file.fork(None).expect("a place")).collect();
    assert!(supervisor.inject("library-0", Fault::PanicServing));
    readings.iter().for_each(|reading| reading.play(LOOPED));
    let is_down =
        |reading: &&PrivateReading| matches!(reading.stream().state(), State::Down { .. });
    let packets = || readings.iter().map(|it| it.stream().totals().packets);
    let deadline = Instant::now() + 4 * SOON;
    while readings.iter().filter(is_down).count() != 1 || packets().max() < Some(30) {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            packets().collect::<Vec<_>>()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(supervisor.failure(), None);
    let again = file.fork(Some(LOOPED)).expect("a place");
    while again.stream().totals().packets == 0 {
        assert!(Instant::now() < deadline, "no newcomer is served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_thread_that_panics_ends_its_readings_and_plays_new_ones() {
    let folder = Folder::new();
    let supervisor = Supervisor::start().expect("a thread");
    let limits = Limits {
        threads: 1,
        ..Limits::default()
    };
    let library = Library::new(folder.0.clone(), Arc::default(), limits, &supervisor);
    let library = library.expect("a thread");
    let file = library.find("clip.h264").await.expect("a good file");
    let file = file.expect("it is there");
    for _ in 0..2 {
        let reading = file.fork(Some(LOOPED)).expect("a place");
        let deadline = Instant::now() + 4 * SOON;
        while reading.stream().totals().packets == 0 {
            assert!(Instant::now() < deadline, "no newcomer is served");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(supervisor.inject("library-0", Fault::Panic));
        while !matches!(reading.stream().state(), State::Down { .. }) {
            assert!(Instant::now() < deadline, "its client is not told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(supervisor.failure(), None);
}

#[tokio::test]
async fn a_file_whose_opening_panics_is_like_a_broken_one_and_others_are_opened() {
    let folder = Folder::new();
    let supervisor = Supervisor::start().expect("a thread");
    let library = Library::new(
        folder.0.clone(),
        Arc::default(),
        Limits::default(),
        &supervisor,
    );
    let library = library.expect("threads");
    let copy = folder.0.join("other.h264");
    fs::copy(folder.0.join("clip.h264"), copy).expect("written");
    supervisor.inject_at(FaultPoint::OpenFile, Fault::Panic);
    // The second lookup does not open it again.
    for _ in 0..2 {
        let found = library.find("clip.h264").await;
        let error = found.expect_err("it panicked");
        assert!(error.to_string().contains("it panicked"), "{error}");
    }
    let other = library.find("other.h264").await.expect("a good file");
    assert!(other.is_some());
    let panics = supervisor
        .parts()
        .map(|(_, counters)| counters.panics.get());
    assert_eq!(panics.sum::<u64>(), 1);
}
