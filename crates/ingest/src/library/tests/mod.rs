//! The shipped clip as files of a folder: 10 s, 30 frames and 50 packets of audio a
//! second. Times are loose upwards: a busy machine makes these tests slower, not red.

mod panics;
mod playback;
mod requests;
mod shared_reading;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, State, Stream, Subscription, Wake};
use glassline_media::{MediaTime, MediaUnit};
use glassline_runtime::{Fault, FaultPoint, Supervisor};

use futures_util::FutureExt as _;

use super::*;

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
    keyframes: None,
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

    /// A library of one thread, and what makes its faults.
    fn faulty_library(&self) -> (Library, Arc<Supervisor>) {
        let limits = Limits {
            threads: 1,
            ..Limits::default()
        };
        let supervisor = Supervisor::start().expect("a thread");
        let library = Library::new(self.0.clone(), Arc::default(), limits, &supervisor);
        (library.expect("a thread"), supervisor)
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
