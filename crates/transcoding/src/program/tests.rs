//! Programs that are missing, end or hang. The time is the test's own.

use std::time::{Duration, Instant};

use glassline_media::{Bitrate, Codec, MediaTime, Track};
use glassline_transcode::{AccessUnit, ProgramTranscoder, VideoSource};
use mio::{Events, Poll};

use super::*;

/// Time that a process may take to begin or end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A decoding whose clock the test sets.
struct Scene {
    poll: Poll,
    decoding: ProgramDecoding,
    now: Instant,
    frames: i64,
}

impl Scene {
    fn of(program: &str) -> Self {
        let source = VideoSource::of(&Track::new(Codec::H265)).expect("FFmpeg decodes it");
        let poll = Poll::new().expect("a descriptor");
        let registry = poll.registry().try_clone().expect("a descriptor");
        let bitrate = Bitrate::default();
        Self {
            decoding: ProgramDecoding::new(
                ProgramTranscoder::new(source, bitrate),
                program.to_owned(),
                registry,
            ),
            poll,
            now: Instant::now(),
            frames: 0,
        }
    }

    fn with_script(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
        Self::of(&format!("{folder}/{name}"))
    }

    /// Gives one frame, after 40 ms of the test's clock. Returns whether it was left out.
    fn push(&mut self) -> bool {
        self.now += Duration::from_millis(40);
        self.frames += 1;
        let unit = AccessUnit {
            data: &[7; 4_000],
            time: MediaTime::from_nanos(self.frames * 40_000_000),
            keyframe: true,
        };
        self.decoding.push(unit, true, self.now)
    }

    fn serve(&mut self) {
        let mut frames = Vec::new();
        self.decoding.serve(self.now, &mut frames);
        assert!(frames.is_empty(), "it shows nothing");
    }

    /// Serves the program until there is a trouble that begins with `wanted`.
    fn await_trouble(&mut self, wanted: &str) {
        let (mut events, end) = (Events::with_capacity(4), Instant::now() + PATIENCE);
        loop {
            self.serve();
            let trouble = self.decoding.trouble().unwrap_or_default();
            if trouble.starts_with(wanted) {
                return;
            }
            assert!(Instant::now() < end, "not {wanted}, but {trouble}");
            self.poll
                .poll(&mut events, Some(Duration::from_secs(1)))
                .expect("events");
        }
    }
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    let missing = find("ffmpeg-that-nobody-has").expect_err("missing");
    assert!(
        missing.contains("/usr/bin") && missing.contains("install the package ffmpeg"),
        "{missing}"
    );
    let missing = find("/opt/none/ffmpeg").expect_err("missing");
    assert!(missing.contains("transcoding.ffmpeg"), "{missing}");
    assert!(find("sh").is_ok());
    let mut scene = Scene::of("/opt/none/ffmpeg");
    assert!(scene.push(), "nothing decodes it");
    let trouble = scene.decoding.trouble().expect("no program");
    assert!(trouble.contains("install the package ffmpeg"), "{trouble}");
}

#[test]
fn a_program_that_ends_is_started_again_after_longer_and_longer_pauses() {
    let mut scene = Scene::with_script("dies.sh");
    for pause in [1, 2, 4] {
        assert!(!scene.push(), "it is started");
        scene.await_trouble(&format!(
            "FFmpeg ended: Unrecognized option 'fps_mode'.; the next try is {pause} s later"
        ));
        scene.now += Duration::from_secs(pause) - Duration::from_millis(100);
        assert!(scene.push(), "not yet");
        scene.now += Duration::from_millis(100);
    }
}

#[test]
fn a_program_that_hangs_is_killed_with_what_it_started() {
    let mut scene = Scene::with_script("hangs.sh");
    for _ in 0..30 {
        assert!(!scene.push(), "it is given frames");
    }
    scene.serve();
    assert_eq!(scene.decoding.trouble(), None, "a moment is no hang");
    scene.now += Duration::from_secs(4);
    scene.serve();
    // What waits for it is more than two seconds old by now, if its pipe is full.
    scene.now += Duration::from_secs(2);
    scene.await_trouble("FFmpeg showed no picture for 5 s and was killed");
}

#[test]
fn what_waits_for_a_program_is_bounded_in_time() {
    let mut scene = Scene::with_script("hangs.sh");
    // More than a pipe holds.
    for _ in 0..100 {
        scene.push();
    }
    scene.serve();
    scene.now += Duration::from_millis(2_500);
    assert!(scene.push(), "left out");
}
