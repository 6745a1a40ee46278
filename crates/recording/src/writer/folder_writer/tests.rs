use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use glassline_hub::StreamName;
use proptest::prelude::*;

use super::*;
use crate::catalogue::{Catalogue, RecordedFile, TimeRange};
use crate::disk::FailureKind;
use crate::disk::model::{ModelDisk, Speed};
use crate::file_header::{Beginning, FileHeader};
use crate::scratch::Scratch;

const FAST: Speed = Speed {
    access: Duration::ZERO,
    bytes_per_second: 1 << 40,
};

/// A writer over a disk in virtual time. The index is on a real disk.
struct Scene {
    scratch: Scratch,
    catalogue: Catalogue,
    _folder: Folder,
    disk: ModelDisk,
    writer: FolderWriter,
    start: Instant,
}

impl Scene {
    fn new(speed: Speed, sync: Duration) -> Self {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path(), None).expect("a folder");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        let index = catalogue.folder(scratch.path()).expect("it was added");
        let disk = ModelDisk::new(speed);
        let options = WriterOptions {
            sync,
            identity: None,
        };
        Self {
            start: disk.now(),
            writer: FolderWriter::new(Arc::new(disk.clone()), index, options),
            scratch,
            catalogue,
            _folder: folder,
            disk,
        }
    }

    fn layer_recording(name: &str) -> Arc<LayerRecording> {
        let stream = StreamName::parse(name).expect("a name");
        Arc::new(LayerRecording::named(stream, String::new()))
    }

    fn begin(&mut self, layer_recording: &Arc<LayerRecording>, number: u32, second: u64) {
        let header = FileHeader {
            stream: layer_recording.stream.clone(),
            layer: String::new(),
            run: 1,
            number,
            start: UNIX_EPOCH + Duration::from_secs(1_800_000_000 + second),
            beginning: Beginning::Length,
        };
        self.writer.run(Job::Begin(Box::new(NewFile {
            layer_recording: Arc::clone(layer_recording),
            header,
            tracks: Vec::new(),
            pieces: vec![Bytes::from_static(b"head")],
        })));
    }

    fn append(&mut self, layer_recording: &Arc<LayerRecording>, end_s: u64, bytes: usize) {
        let published = self.disk.now();
        self.writer.run(Job::Append(Fragment {
            layer_recording: Arc::clone(layer_recording),
            pieces: vec![Bytes::from(vec![b'.'; bytes])],
            end: Duration::from_secs(end_s),
            wall_end: Duration::from_secs(1_800_000_000 + end_s),
            published,
        }));
    }

    fn finish(&mut self, layer_recording: &Arc<LayerRecording>) {
        self.writer.run(Job::Finish(FileEnd {
            layer_recording: Arc::clone(layer_recording),
            pieces: vec![Bytes::from_static(b"tail")],
            patch: Some(Patch {
                offset: 0,
                bytes: Bytes::from_static(b"HEAD"),
            }),
        }));
    }

    /// Does the syncs that are due at this second.
    fn tick(&mut self, second: u64) {
        self.disk
            .advance_to(self.start + Duration::from_secs(second));
        self.writer.tick();
        self.sync();
    }

    fn sync(&mut self) {
        self.writer.take_syncs().into_iter().for_each(SyncJob::run);
    }

    fn files(&self, layer_recording: &LayerRecording) -> Vec<RecordedFile> {
        let all = TimeRange {
            from: UNIX_EPOCH,
            to: UNIX_EPOCH + Duration::from_secs(1 << 32),
        };
        self.catalogue
            .files(&layer_recording.stream, all)
            .expect("an index")
    }
}

#[test]
fn a_file_is_whole_when_it_ends_and_its_row_says_so() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recording = Scene::layer_recording("site/cam");
    scene.begin(&layer_recording, 0, 0);
    scene.append(&layer_recording, 1, 10);
    let files = scene.files(&layer_recording);
    assert_eq!((files[0].bytes, files[0].is_closed), (14, false));
    scene.finish(&layer_recording);
    scene.sync();
    let files = scene.files(&layer_recording);
    assert_eq!((files[0].bytes, files[0].is_closed), (18, true));
    let path = scene
        .scratch
        .path()
        .join("site/cam/2027-01-15/08-00-00.000Z.mp4");
    assert_eq!(files[0].path, path);
    let content = &scene.disk.written()[&path];
    assert_eq!(content.as_slice(), b"HEAD..........tail");
    let figures = layer_recording.figures();
    assert_eq!(
        (figures.files, figures.fragments, figures.file),
        (1, 1, None)
    );
}

#[test]
fn two_files_of_one_millisecond_have_names_of_their_own() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recording = Scene::layer_recording("cam");
    for number in 0..3 {
        scene.begin(&layer_recording, number, 0);
        scene.append(&layer_recording, 1, 10);
        scene.finish(&layer_recording);
        scene.sync();
    }
    let names: Vec<_> = scene
        .files(&layer_recording)
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(names.len(), 3);
    assert!(names[2].ends_with("08-00-00.002Z.mp4"), "{names:?}");
}

#[test]
fn a_file_without_a_fragment_is_removed() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recording = Scene::layer_recording("cam");
    scene.begin(&layer_recording, 0, 0);
    scene.begin(&layer_recording, 1, 5);
    scene.append(&layer_recording, 1, 10);
    scene.sync();
    assert_eq!(scene.files(&layer_recording).len(), 1);
    assert_eq!(scene.disk.written().len(), 1);
}

#[test]
fn a_disk_that_refuses_ends_files_with_the_reason_and_takes_the_next_ones_when_it_is_back() {
    for (refusal, kind) in [
        (io::ErrorKind::ReadOnlyFilesystem, FailureKind::ReadOnly),
        (io::ErrorKind::StaleNetworkFileHandle, FailureKind::Away),
        (io::ErrorKind::Other, FailureKind::Error),
    ] {
        let mut scene = Scene::new(FAST, Duration::from_secs(10));
        let (layer_recording, other) = (
            Scene::layer_recording("cam"),
            Scene::layer_recording("other"),
        );
        scene.begin(&layer_recording, 0, 0);
        scene.append(&layer_recording, 1, 10);
        scene.disk.refuse(Some(refusal));
        scene.append(&layer_recording, 2, 10);
        scene.append(&layer_recording, 3, 10);
        let failure = layer_recording.take_failure().expect("the disk refused");
        assert_eq!(failure.kind, kind);
        scene.begin(&other, 0, 0);
        assert_eq!(other.take_failure().expect("within the pause").kind, kind);
        scene.sync();
        scene.disk.refuse(None);
        scene.tick(3);
        assert_eq!(layer_recording.take_failure(), None);
        scene.begin(&layer_recording, 1, 9);
        scene.append(&layer_recording, 1, 10);
        assert!(!layer_recording.has_failed());
        let files = scene.files(&layer_recording);
        assert_eq!(files.len(), 2);
        assert_eq!(
            (files[0].duration, files[0].is_closed),
            (Duration::from_secs(1), true)
        );
        assert_eq!(
            (files[1].duration, files[1].is_closed),
            (Duration::from_secs(1), false)
        );
    }
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recording = Scene::layer_recording("cam");
    scene.disk.set_free(1004);
    scene.begin(&layer_recording, 0, 0);
    for second in 1..=9 {
        scene.append(&layer_recording, second, 200);
    }
    assert_eq!(
        layer_recording.take_failure().expect("full").kind,
        FailureKind::Full
    );
    scene.sync();
    let file = &scene.files(&layer_recording)[0];
    assert_eq!((file.duration, file.bytes), (Duration::from_secs(5), 1004));
    assert!(file.is_closed);
}

#[test]
fn syncs_of_many_files_are_spread_over_the_interval() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recordings: Vec<_> = (0..100)
        .map(|it| Scene::layer_recording(&format!("cam{it}")))
        .collect();
    for layer_recording in &layer_recordings {
        scene.begin(layer_recording, 0, 0);
    }
    let mut of_second = BTreeMap::<u64, usize>::new();
    for second in 1..=30 {
        for layer_recording in &layer_recordings {
            scene.append(layer_recording, second, 100);
        }
        scene
            .disk
            .advance_to(scene.start + Duration::from_secs(second));
        scene.writer.tick();
        let syncs = scene.writer.take_syncs();
        of_second.insert(second, syncs.len());
        syncs.into_iter().for_each(SyncJob::run);
    }
    let most = of_second.values().max().copied().unwrap_or_default();
    assert!(most <= 25, "{of_second:?}");
    let all = of_second.values().sum::<usize>();
    assert!((200..=300).contains(&all), "{all}");
}

/// The plan of a hundred cameras of 3 Mbit/s: at most 60 % of a spinning disk.
#[test]
fn a_spinning_disk_has_time_for_a_hundred_streams() {
    let mut scene = Scene::new(Speed::SPINNING, Duration::from_secs(10));
    let layer_recordings: Vec<_> = (0..100)
        .map(|it| Scene::layer_recording(&format!("cam{it}")))
        .collect();
    for layer_recording in &layer_recordings {
        scene.begin(layer_recording, 0, 0);
    }
    // A kilobyte stands for a megabyte, so that the model needs little memory.
    scene.disk.set_speed(Speed {
        bytes_per_second: Speed::SPINNING.bytes_per_second / 1000,
        ..Speed::SPINNING
    });
    for second in 1..=40 {
        for layer_recording in &layer_recordings {
            scene.append(layer_recording, second, 375);
        }
        scene.tick(second);
    }
    let share = scene.disk.busy().as_secs_f64() / 40.0;
    assert!((0.3..=0.6).contains(&share), "{share}");
}

proptest! {
    /// A power failure at any moment costs at most the sync interval, and what is left is the beginning
    /// of what was written.
    #[test]
    fn a_power_failure_costs_at_most_the_interval(
        interval in 1u64..=10,
        streams in 1usize..=4,
        failing in 1u64..=60,
    ) {
        let mut scene = Scene::new(FAST, Duration::from_secs(interval));
        let layer_recordings: Vec<_> = (0..streams).map(|it| Scene::layer_recording(&format!("cam{it}"))).collect();
        for layer_recording in &layer_recordings {
            scene.begin(layer_recording, 0, 0);
        }
        for second in 1..=failing {
            for layer_recording in &layer_recordings {
                scene.append(layer_recording, second, 10);
            }
            scene.tick(second);
        }
        let (written, left) = (scene.disk.written(), scene.disk.after_power_failure());
        for (path, written) in &written {
            let left = &left[path];
            prop_assert!(written.starts_with(left));
            let lost_s = (written.len() - left.len()) as u64 / 10;
            prop_assert!(lost_s <= interval, "{} s of {} s", lost_s, interval);
        }
    }
}

#[test]
fn a_mount_point_without_its_disk_is_not_written_to() {
    let mut scene = Scene::new(FAST, Duration::from_secs(10));
    let layer_recording = Scene::layer_recording("cam");
    let id = Folder::identity_of(scene.scratch.path()).expect("readable");
    scene.writer.options.identity = id;
    scene.begin(&layer_recording, 0, 0);
    assert!(!layer_recording.has_failed());
    let own = scene.scratch.path().join(".glassline/identity.json");
    std::fs::remove_file(own).expect("it exists");
    scene.begin(&layer_recording, 1, 9);
    let failure = layer_recording.take_failure().expect("no identity");
    assert_eq!(failure.kind, FailureKind::Away);
    assert!(failure.text.contains("not mounted"), "{failure}");
}
