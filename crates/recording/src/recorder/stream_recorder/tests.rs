use std::path::PathBuf;

use bytes::Bytes;
use glassline_hub::StreamName;
use glassline_media::{Codec, Stamps, UnitBuilder};

use super::*;
use crate::catalogue::{Catalogue, FolderIndex, RecordedFile, Span, TimeRange};
use crate::disk::FailureKind;
use crate::disk::model::{ModelDisk, Speed};
use crate::folder::Folder;
use crate::scratch::Scratch;
use crate::writer::{FolderWriter, QueueBound, WriterOptions};

const MS: Duration = Duration::from_millis(1);

/// Milliseconds from one frame to the next.
const FRAME_MS: u64 = 40;

/// Wall-clock time at which tests begin, in s since 1970.
const NOON: u64 = 1_796_047_200;

/// A camera of VP8 and Opus, its recorder, and a disk, all in virtual time.
struct Scene {
    _scratch: Scratch,
    catalogue: Catalogue,
    _folder: Folder,
    index: Arc<FolderIndex>,
    disk: ModelDisk,
    writer: FolderWriter,
    queue: Arc<JobQueue>,
    layer_recording: Arc<LayerRecording>,
    recorder: StreamRecorder,
    start: Instant,
    /// Milliseconds since the start.
    now_ms: u64,
    /// Sum of all steps of the calendar.
    stepped: i64,
    size: u16,
    missed: u64,
    /// Whether the disk does not answer.
    hangs: bool,
}

impl Scene {
    fn new(file_s: u64) -> Self {
        Self::bounded(file_s, QueueBound::default())
    }

    fn bounded(file_s: u64, bound: QueueBound) -> Self {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path(), None).expect("a folder");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        let index = catalogue.folder(scratch.path()).expect("it was added");
        let disk = ModelDisk::new(Speed::SPINNING);
        let options = WriterOptions {
            sync: Duration::from_secs(10),
            identity: None,
        };
        let stream = StreamName::parse("cam").expect("a name");
        let (layer_recording, queue) = (
            Arc::new(LayerRecording::named(stream, String::new())),
            Arc::new(JobQueue::new(bound)),
        );
        let options_of_recorder = RecorderOptions {
            file: Duration::from_secs(file_s),
        };
        let (of_layer_recording, of_queue) = (Arc::clone(&layer_recording), Arc::clone(&queue));
        let mut scene = Self {
            writer: FolderWriter::new(Arc::new(disk.clone()), Arc::clone(&index), options),
            start: crate::disk::Disk::now(&disk),
            recorder: StreamRecorder::new(of_layer_recording, of_queue, options_of_recorder),
            _scratch: scratch,
            catalogue,
            _folder: folder,
            index,
            disk,
            queue,
            layer_recording,
            now_ms: 0,
            stepped: 0,
            size: 640,
            missed: 0,
            hangs: false,
        };
        let now = scene.now();
        scene.recorder.begin(&Self::tracks(), 0, now);
        scene
    }

    fn tracks() -> Vec<Track> {
        vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)]
    }

    fn now(&self) -> Now {
        let at = self.start + MS * u32::try_from(self.now_ms).expect("small");
        let ms = (NOON * 1000 + self.now_ms).saturating_add_signed(self.stepped);
        Now {
            at,
            wall: WallClock::new(at, Duration::from_millis(ms)),
        }
    }

    fn unit(&self, track: usize, frame: &[u8], keyframe: bool) -> Arc<MediaUnit> {
        let mut builder = UnitBuilder::default();
        builder.push(frame);
        let time = MediaTime::from_nanos(self.now_ms.cast_signed() * 1_000_000);
        let stamps = Stamps::arrived(self.now().at);
        let unit = builder.build(TrackIndex(track), time, keyframe, stamps);
        Arc::new(unit.expect("a packet"))
    }

    /// Publishes for this long, with a keyframe every second, and lets the disk work.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 / FRAME_MS {
            let is_key = self.now_ms.is_multiple_of(1000);
            let [low, high] = self.size.to_le_bytes();
            let frame = match is_key {
                true => [
                    &[0x10, 0, 0, 0x9d, 1, 0x2a, low, high, 0xe0, 1][..],
                    &[7; 1000],
                ]
                .concat(),
                false => vec![1; 500],
            };
            let mut units = vec![self.unit(0, &frame, is_key)];
            for _ in 0..2 {
                units.push(self.unit(1, &[0xfc, 1, 2], true));
                self.now_ms += FRAME_MS / 2;
            }
            let now = self.now();
            self.recorder.take(&units, self.missed, now);
            self.work();
        }
    }

    /// Lets the disk do what is queued.
    fn work(&mut self) {
        self.disk.advance_to(self.now().at);
        if self.hangs {
            return;
        }
        while let Some(job) = self.queue.take(Duration::ZERO) {
            self.writer.run(job);
        }
        self.writer.tick();
        for sync in self.writer.take_syncs() {
            sync.run();
        }
        // The queue is told that nothing is worked on.
        assert!(self.queue.take(Duration::ZERO).is_none());
    }

    fn end(&mut self) {
        let now = self.now();
        self.recorder.end(now);
        self.work();
    }

    fn all() -> TimeRange {
        TimeRange {
            from: UNIX_EPOCH,
            to: UNIX_EPOCH + Duration::from_secs(1 << 32),
        }
    }

    fn files(&self) -> Vec<RecordedFile> {
        let files = self
            .catalogue
            .files(&self.layer_recording.stream, Self::all());
        files.expect("an index")
    }

    fn spans(&self) -> Vec<Span> {
        let spans = self
            .catalogue
            .spans(&self.layer_recording.stream, Self::all());
        spans.expect("an index")
    }

    /// Opens what the disk has of each file, by path.
    fn read(&self) -> Vec<(PathBuf, glassline_cmaf::RecordedFile<Bytes>)> {
        let written = self.disk.written().into_iter();
        let read = written.map(|(path, content)| {
            let file = glassline_cmaf::RecordedFile::open(Bytes::from(content));
            (path, file.expect("a recording"))
        });
        read.collect()
    }
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

#[test]
fn files_are_cut_at_keyframes_and_their_decode_times_go_on() {
    let mut scene = Scene::new(60);
    scene.run(200);
    scene.end();
    let files = scene.files();
    assert!((4..=5).contains(&files.len()), "{files:?}");
    let spans = scene.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    let length = spans[0].to.duration_since(spans[0].from).expect("later");
    assert!(
        (199.5..=200.1).contains(&length.as_secs_f64()),
        "{length:?}"
    );
    let mut next = None;
    for (number, (file, (path, read))) in files.iter().zip(scene.read()).enumerate() {
        assert_eq!((&file.path, file.number as usize), (&path, number));
        assert!(read.is_finished() && file.is_closed);
        assert!(
            read.fragments()
                .iter()
                .all(|it| it.duration <= Duration::from_secs(2))
        );
        let (first, last) = (read.fragments()[0], *read.fragments().last().expect("one"));
        assert!(first.starts_with_sync);
        assert!(
            next.is_none_or(|it| it == first.decode_time),
            "tfdt goes on"
        );
        next = Some(last.decode_time + last.duration);
        let header = FileHeader::of_note(read.note().expect("ours")).expect("ours");
        assert_eq!(
            (header.run, header.number, header.start),
            (file.run, file.number, file.start)
        );
        let tracks: Vec<_> = file.tracks.iter().map(|it| it.codec.as_str()).collect();
        assert_eq!(tracks.len(), 2, "{tracks:?}");
    }
    let losses = scene.layer_recording.figures().losses;
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn another_size_is_another_file_without_a_gap() {
    let mut scene = Scene::new(3600);
    scene.run(5);
    scene.size = 320;
    scene.run(5);
    scene.end();
    let files = scene.files();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(files[1].beginning, Beginning::Parameters);
    let sizes = files
        .iter()
        .map(|it| (it.tracks[0].width, it.tracks[0].height));
    assert_eq!(sizes.collect::<Vec<_>>(), [(640, 480), (320, 480)]);
    assert_eq!(scene.spans().len(), 1);
}

#[test]
fn a_clock_that_is_set_begins_a_file_that_says_so_and_nothing_is_lost() {
    for step_ms in [-3_600_000, 3_600_000] {
        let mut scene = Scene::new(60);
        scene.run(90);
        scene.stepped = step_ms;
        scene.run(120);
        scene.end();
        let files = scene.files();
        let clock = files.iter().filter(|it| it.beginning == Beginning::Clock);
        assert_eq!(clock.count(), 1, "{files:?}");
        let sum: Duration = files.iter().map(|it| it.duration).sum();
        assert_eq!(seconds(sum), 210.0);
        let runs = files
            .iter()
            .map(|it| it.run)
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(runs.len(), 1);
    }
}

#[test]
fn a_clock_that_is_corrected_a_little_cuts_no_short_files() {
    let mut scene = Scene::new(60);
    for _ in 0..4 {
        scene.run(60);
        scene.stepped -= 1500;
    }
    scene.end();
    let files = scene.files();
    let whole = files.get(1..files.len() - 1).expect("several files");
    assert!(whole.len() >= 2, "{files:?}");
    let is_long = |it: &RecordedFile| it.duration >= Duration::from_secs(58);
    assert!(whole.iter().all(is_long), "{files:?}");
}

#[test]
fn a_disk_that_refuses_is_a_gap_with_its_reason_and_recording_goes_on_when_it_is_back() {
    for (refusal, kind) in [
        (std::io::ErrorKind::StorageFull, FailureKind::Full),
        (
            std::io::ErrorKind::ReadOnlyFilesystem,
            FailureKind::ReadOnly,
        ),
        (std::io::ErrorKind::NotFound, FailureKind::Away),
    ] {
        let mut scene = Scene::new(3600);
        scene.run(10);
        scene.disk.refuse(Some(refusal));
        scene.run(20);
        let trouble = scene.recorder.trouble().expect("the disk refuses");
        scene.disk.refuse(None);
        scene.run(10);
        assert_eq!(scene.recorder.trouble(), None);
        scene.end();
        let spans = scene.spans();
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert_eq!(spans[1].loss_before.as_ref(), Some(&trouble));
        let gap = spans[1].from.duration_since(spans[0].to).expect("later");
        assert!((19.0..=24.0).contains(&gap.as_secs_f64()), "{gap:?}");
        let losses = scene.layer_recording.figures().losses;
        let loss = losses[&kind];
        assert_eq!((loss.count, losses.len()), (1, 1));
        assert!((19.0..=24.0).contains(&loss.time.as_secs_f64()), "{loss:?}");
        let files = scene.files();
        let said = files[1].beginning.loss().expect("a loss").1;
        assert!(said.abs_diff(gap) < MS * 100, "{said:?} {gap:?}");
    }
}

#[test]
fn a_disk_that_hangs_costs_what_its_queue_does_not_hold() {
    let bound = QueueBound {
        bytes: 64 << 10,
        span: Duration::from_secs(8),
    };
    let mut scene = Scene::bounded(3600, bound);
    scene.run(10);
    scene.hangs = true;
    scene.run(60);
    assert_eq!(
        scene.recorder.trouble().as_deref(),
        Some("the disk is too slow")
    );
    scene.hangs = false;
    scene.run(10);
    scene.end();
    let spans = scene.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    let gap = spans[1].from.duration_since(spans[0].to).expect("later");
    // What was queued is written, and the rest of the minute is the gap.
    assert!((52.0..=58.0).contains(&gap.as_secs_f64()), "{gap:?}");
    let loss = scene.layer_recording.figures().losses[&FailureKind::Slow];
    assert!(loss.time.abs_diff(gap) < MS * 1500, "{loss:?} {gap:?}");
}

#[test]
fn units_that_the_hub_dropped_are_a_gap_and_the_next_file_begins_with_a_keyframe() {
    let mut scene = Scene::new(3600);
    scene.run(10);
    scene.now_ms += 3_480;
    scene.missed = 87;
    scene.run(10);
    scene.end();
    let files = scene.files();
    assert_eq!(files.len(), 2, "{files:?}");
    let (reason, lost) = files[1].beginning.loss().expect("a loss");
    assert!(reason.contains("too busy"), "{reason}");
    assert!((3.4..=4.6).contains(&lost.as_secs_f64()), "{lost:?}");
    assert_eq!((files[0].run, files[1].number), (files[1].run, 1));
    let read = scene.read();
    let first = read[1].1.fragments()[0];
    assert!(first.starts_with_sync && first.decode_time >= MediaTime::from_nanos(13_000_000_000));
}

#[test]
fn a_source_that_comes_again_begins_another_run() {
    let mut scene = Scene::new(3600);
    scene.run(5);
    scene.end();
    scene.now_ms += 30_000;
    let now = scene.now();
    scene.recorder.begin(&Scene::tracks(), 0, now);
    scene.run(5);
    scene.end();
    let files = scene.files();
    assert_eq!(files.len(), 2);
    assert!(files[0].run != files[1].run && files[1].number == 0);
    assert_eq!(scene.spans().len(), 2);
    assert!(scene.layer_recording.figures().losses.is_empty());
}

#[test]
fn a_codec_without_a_place_in_mp4_is_named_and_the_other_tracks_are_recorded() {
    let mut scene = Scene::new(3600);
    let now = scene.now();
    let text = Track::new(Codec::Jpeg);
    scene.recorder.begin(std::slice::from_ref(&text), 0, now);
    let trouble = scene.recorder.trouble().expect("no track");
    assert!(trouble.contains("none of its codecs"), "{trouble}");
    let mut tracks = Scene::tracks();
    tracks.push(text);
    scene.recorder.begin(&tracks, 0, now);
    scene.run(3);
    scene.end();
    assert_eq!(scene.files()[0].tracks.len(), 2);
}

/// The newest file may be cut off at any byte: the catalogue then finds every whole fragment.
#[test]
fn a_file_that_is_cut_anywhere_is_found_up_to_its_last_whole_fragment() {
    let mut scene = Scene::new(3600);
    scene.run(12);
    scene.work();
    let file = scene.files().remove(0);
    assert!(!file.is_closed);
    let content = scene
        .disk
        .written()
        .remove(&file.path)
        .expect("it is written");
    let whole = glassline_cmaf::RecordedFile::open(content.clone()).expect("a recording");
    let fragments = whole.fragments().to_vec();
    assert!(fragments.len() >= 10);
    std::fs::create_dir_all(file.path.parent().expect("a day")).expect("a folder");
    let below = file
        .path
        .strip_prefix(scene.index.folder())
        .expect("below")
        .to_owned();
    let header = FileHeader::of_note(whole.note().expect("ours")).expect("ours");
    let boundaries = fragments.iter().map(|it| it.end() as usize);
    let cuts = boundaries.flat_map(|it| [it - 1, it, it + 1]);
    let others = (0..60).map(|it| it * content.len() / 60);
    for cut in cuts.chain(others).filter(|it| *it <= content.len()) {
        scene.index.begin(&below, &header, &[]).expect("a row");
        std::fs::write(&file.path, &content[..cut]).expect("written");
        crate::catalogue::find_after_crash(&scene.index).expect("an index");
        let kept: Vec<_> = fragments
            .iter()
            .filter(|it| it.end() <= cut as u64)
            .collect();
        let files = scene.files();
        let Some(last) = kept.last() else {
            assert!(files.is_empty() && !file.path.exists(), "{cut}");
            continue;
        };
        let length = last.decode_time.saturating_since(fragments[0].decode_time) + last.duration;
        assert!(
            files[0].is_closed && files[0].duration.abs_diff(length) < MS,
            "{cut}"
        );
        let left = std::fs::read(&file.path).expect("it exists");
        assert_eq!(files[0].bytes, left.len() as u64);
        let again = glassline_cmaf::RecordedFile::open(left).expect("a recording");
        assert!(again.is_finished(), "every player seeks in it");
        assert_eq!(again.fragments().len(), kept.len(), "{cut}");
    }
}

#[test]
fn a_file_that_a_full_disk_left_without_an_end_gets_one_by_a_repair() {
    let mut scene = Scene::new(3600);
    scene.run(12);
    scene.work();
    let file = scene.files().remove(0);
    let content = scene.disk.written().remove(&file.path);
    let content = content.expect("it is written");
    std::fs::create_dir_all(file.path.parent().expect("a day")).expect("a folder");
    std::fs::write(&file.path, &content).expect("written");
    let findings = Catalogue::repair(&scene._folder).expect("our own file");
    assert_eq!((findings.files, findings.problems.len()), (1, 0));
    let left = std::fs::read(&file.path).expect("it exists");
    let read = glassline_cmaf::RecordedFile::open(left).expect("a recording");
    assert!(read.is_finished(), "every player seeks in it");
    assert!(
        crate::catalogue::check(scene.index.folder())
            .expect("an index")
            .problems
            .is_empty()
    );
}
