//! Long tests.

use std::fs::File;
use std::io::Write as _;

use glassline_hub::StreamName;
use glassline_media::{Codec, Stamps, UnitBuilder};

use super::*;
use crate::catalogue::Catalogue;
use crate::disk::SystemDisk;
use crate::folder::Folder;
use crate::scratch::Scratch;
use crate::writer::{FolderWriter, QueueBound, WriterOptions};

const STREAMS: usize = 100;
const SECONDS: u64 = 8;
const FRAMES: u64 = 30;

/// Bytes of a frame of 3 Mbit/s.
const FRAME_BYTES: usize = 12_500;

/// The processor time of a hundred recorders with their writer, beside that of a loop of equal writes.
#[test]
#[ignore = "long: `cargo xtask soak` writes 600 MB"]
fn a_hundred_streams_cost_little_more_than_equal_writes() {
    let ratio = recorded().as_secs_f64() / written().as_secs_f64();
    println!("recording takes {ratio:.2} times the processor time of equal writes");
    // Code that is not optimized takes several times as long.
    let most = if cfg!(debug_assertions) { 15.0 } else { 2.0 };
    assert!(ratio < most, "{ratio}");
}

/// Returns the processor time of writes without anything else.
fn written() -> Duration {
    let scratch = Scratch::new();
    let path = |stream| scratch.path().join(format!("{stream}"));
    let create = |stream| File::create(path(stream)).expect("a file");
    let mut files: Vec<File> = (0..STREAMS).map(create).collect();
    let second = vec![7; FRAME_BYTES * FRAMES as usize];
    let before = glassline_net::thread_cpu();
    for _ in 0..SECONDS {
        for file in &mut files {
            file.write_all(&second).expect("written");
        }
    }
    glassline_net::thread_cpu() - before
}

/// Returns the processor time of recorders and their writer, without that of publishers.
fn recorded() -> Duration {
    let scratch = Scratch::new();
    let folder = Folder::open(scratch.path(), None).expect("a folder");
    let catalogue = Catalogue::default();
    catalogue.add(&folder).expect("an index");
    let index = catalogue.folder(scratch.path()).expect("it was added");
    let options = WriterOptions {
        sync: Duration::from_secs(10),
        identity: Some(folder.id()),
    };
    let mut writer = FolderWriter::new(Arc::new(SystemDisk), index, options);
    let queue = Arc::new(JobQueue::new(QueueBound::default()));
    let start = Instant::now();
    let now = |ms: u64| {
        let at = start + Duration::from_millis(ms);
        Now {
            at,
            wall: WallClock::new(at, Duration::from_millis(1_796_047_200_000 + ms)),
        }
    };
    let mut recorders: Vec<StreamRecorder> = (0..STREAMS)
        .map(|stream| {
            let name = StreamName::parse(&format!("cam{stream}")).expect("a name");
            let layer_recording = Arc::new(LayerRecording::named(name, String::new()));
            let file = Duration::from_secs(600);
            let mut recorder = StreamRecorder::new(
                layer_recording,
                Arc::clone(&queue),
                RecorderOptions { file },
            );
            recorder.begin(&[Track::new(Codec::Vp8)], 0, now(0));
            recorder
        })
        .collect();
    let mut cpu = Duration::ZERO;
    for frame in 0..SECONDS * FRAMES {
        let ms = frame * 1000 / FRAMES;
        let unit = unit(frame, now(ms).at);
        let before = glassline_net::thread_cpu();
        for recorder in &mut recorders {
            recorder.take(std::slice::from_ref(&unit), 0, now(ms));
        }
        while let Some(job) = queue.take(Duration::ZERO) {
            writer.run(job);
        }
        cpu += glassline_net::thread_cpu() - before;
    }
    cpu
}

fn unit(frame: u64, at: Instant) -> Arc<MediaUnit> {
    let keyframe = frame.is_multiple_of(FRAMES);
    let head: &[u8] = match keyframe {
        true => &[0x10, 0, 0, 0x9d, 1, 0x2a, 64, 0, 48, 0],
        false => &[1],
    };
    let mut builder = UnitBuilder::default();
    for part in [head, &vec![7; FRAME_BYTES][..]].concat().chunks(1100) {
        builder.push(part);
    }
    let time = MediaTime::from_nanos((frame * 1_000_000_000 / FRAMES).cast_signed());
    let unit = builder.build(TrackIndex(0), time, keyframe, Stamps::arrived(at));
    Arc::new(unit.expect("packets"))
}
