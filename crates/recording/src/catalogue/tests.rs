use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::index::Growth;
use super::*;
use crate::file_header::{Beginning, FileHeader};
use crate::folder::FilePlace;
use crate::scratch::Scratch;

/// Seconds of 2026-11-30 14:00.
const NOON: u64 = 1_796_047_200;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOON + second)
}

fn name(text: &str) -> StreamName {
    StreamName::parse(text).expect("a name")
}

fn range(from: u64, to: u64) -> TimeRange {
    TimeRange {
        from: at(from),
        to: at(to),
    }
}

/// A folder with files of a stream: run, number, start, duration in s, and why each begins.
struct Scene {
    _scratch: Scratch,
    catalogue: Catalogue,
    index: Arc<FolderIndex>,
    _folder: Folder,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path(), None).expect("a folder");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        let index = catalogue.folder(scratch.path()).expect("it was added");
        Self {
            _scratch: scratch,
            catalogue,
            index,
            _folder: folder,
        }
    }

    fn header(stream: &str, run: u64, number: u32, start: u64, beginning: Beginning) -> FileHeader {
        FileHeader {
            stream: name(stream),
            layer: String::new(),
            run,
            number,
            start: at(start),
            beginning,
        }
    }

    /// Notes a file, and returns its path below the folder.
    fn begin(&self, header: &FileHeader) -> PathBuf {
        let place = FilePlace {
            stream: header.stream.clone(),
            layer: header.layer.clone(),
            start: header.start,
        };
        let path = place.path();
        self.index.begin(&path, header, &[]).expect("a row");
        path
    }

    fn closed(&self, header: &FileHeader, seconds: u64) {
        let path = self.begin(header);
        let growth = Growth {
            duration: Duration::from_secs(seconds),
            bytes: 1000,
        };
        self.index.end(&path, growth).expect("a row");
    }

    fn spans(&self, range: TimeRange) -> Vec<(u64, u64, Option<String>)> {
        let second = |at: SystemTime| {
            let since = at.duration_since(UNIX_EPOCH).expect("later");
            since.as_secs() - NOON
        };
        let spans = self.catalogue.spans(&name("cam"), range).expect("an index");
        let spans = spans.into_iter();
        spans
            .map(|it| (second(it.from), second(it.to), it.loss_before))
            .collect()
    }
}

#[test]
fn files_of_a_run_are_one_span_and_a_loss_is_a_gap_with_its_reason() {
    let scene = Scene::new();
    let file = |run, number, start, beginning, seconds| {
        let header = Scene::header("cam", run, number, start, beginning);
        scene.closed(&header, seconds);
    };
    file(1, 0, 0, Beginning::Start, 600);
    // The wall clock of the second file is 2 s off, as after a slow drift: the run goes on.
    file(1, 1, 602, Beginning::Length, 598);
    let loss = Beginning::Loss {
        reason: "the disk was slow".to_owned(),
        lost_ms: 5000,
    };
    file(1, 2, 1205, loss, 100);
    file(2, 0, 2000, Beginning::Start, 100);
    let slow = Some("the disk was slow".to_owned());
    let all = [(0, 1200, None), (1205, 1305, slow), (2000, 2100, None)];
    assert_eq!(scene.spans(range(0, 5000)), all);
    assert_eq!(scene.spans(range(700, 1000)), [(700, 1000, None)]);
    assert_eq!(scene.spans(range(1400, 1900)), []);
    assert_eq!(
        scene
            .catalogue
            .files(&name("cam"), range(0, 700))
            .expect("files")
            .len(),
        2
    );
    assert_eq!(
        scene
            .catalogue
            .files(&name("ca"), range(0, 700))
            .expect("files")
            .len(),
        0
    );
}

#[test]
fn a_file_that_grows_is_found_as_far_as_it_was_written() {
    let scene = Scene::new();
    scene.closed(&Scene::header("cam", 1, 0, 0, Beginning::Start), 60);
    let path = scene.begin(&Scene::header("cam", 1, 1, 60, Beginning::Length));
    assert_eq!(scene.spans(range(0, 500)), [(0, 60, None)]);
    let growth = Growth {
        duration: Duration::from_secs(7),
        bytes: 777,
    };
    scene.index.grow(&path, growth);
    assert_eq!(scene.spans(range(0, 500)), [(0, 67, None)]);
    let files = scene
        .catalogue
        .files(&name("cam"), range(61, 500))
        .expect("files");
    assert_eq!(
        (files.len(), files[0].bytes, files[0].is_closed),
        (1, 777, false)
    );
    let streams = scene.catalogue.streams().expect("streams");
    assert_eq!((streams[0].last, streams[0].bytes), (at(67), 1777));
    assert_eq!((streams[0].files, streams[0].first), (2, at(0)));
}

#[test]
fn a_clock_that_was_set_back_makes_files_overlap_and_hides_nothing() {
    let scene = Scene::new();
    scene.closed(&Scene::header("cam", 1, 0, 3600, Beginning::Start), 600);
    scene.closed(&Scene::header("cam", 1, 1, 600, Beginning::Clock), 600);
    scene.closed(&Scene::header("cam", 1, 2, 1200, Beginning::Length), 2700);
    assert_eq!(scene.spans(range(0, 9000)), [(600, 4200, None)]);
    assert_eq!(
        scene
            .catalogue
            .files(&name("cam"), range(0, 9000))
            .expect("files")
            .len(),
        3
    );
}

#[test]
fn a_mark_is_written_beside_the_files_and_read_again() {
    let scene = Scene::new();
    scene.closed(&Scene::header("cam", 1, 0, 0, Beginning::Start), 600);
    let mark = NewMark {
        stream: name("cam"),
        label: "a \"door\"\nopens".to_owned(),
        from: at(100),
        to: at(130),
        is_for_ever: true,
    };
    let made = scene.catalogue.mark(mark.clone()).expect("a folder");
    let found = scene
        .catalogue
        .marks(&name("cam"), range(129, 200))
        .expect("marks");
    assert_eq!(found, [made]);
    assert!(
        scene
            .catalogue
            .marks(&name("cam"), range(131, 200))
            .expect("marks")
            .is_empty()
    );
    scene.index.clear().expect("an index");
    let day = scene.index.folder().join(day_folder(&mark));
    let read = scene.index.read_marks(&mark.stream, &day).expect("a file");
    assert_eq!(read, 1);
    let again = scene
        .catalogue
        .marks(&name("cam"), range(129, 200))
        .expect("marks");
    assert_eq!((again.len(), &again[0].label), (1, &mark.label));
}

#[test]
fn the_files_next_to_an_instant_are_found_of_one_layer_and_of_all() {
    let scene = Scene::new();
    for start in [0, 600, 1200, 400_000] {
        for layer in ["", "h"] {
            let header = FileHeader {
                layer: layer.to_owned(),
                ..Scene::header("cam", 1, 0, start, Beginning::Length)
            };
            scene.closed(&header, 600);
        }
    }
    scene.closed(&Scene::header("other", 1, 0, 650, Beginning::Start), 600);
    let around = |layer: Option<&str>, second: u64, count| {
        let files = scene
            .catalogue
            .around(&name("cam"), layer, at(second), count);
        let files = files.expect("an index").into_iter();
        let start = |it: &RecordedFile| it.start.duration_since(at(0)).expect("later").as_secs();
        files.map(|it| (start(&it), it.layer)).collect::<Vec<_>>()
    };
    let h = "h".to_owned();
    assert_eq!(
        around(Some("h"), 700, 1),
        [(600, h.clone()), (1200, h.clone())]
    );
    assert_eq!(
        around(Some("h"), 600, 1),
        [(600, h.clone()), (1200, h.clone())],
        "it begins at that instant"
    );
    assert_eq!(around(Some("h"), 300_000, 1)[1], (400_000, h.clone()));
    assert_eq!(around(Some("h"), 500_000, 1), [(400_000, h)]);
    assert_eq!(around(None, 700, 8).len(), 8);
    assert_eq!(around(Some("l"), 700, 8), []);
}

fn day_folder(mark: &NewMark) -> PathBuf {
    let day = crate::folder::day_folder(&mark.stream, mark.from);
    day.join(crate::folder::MARKS_FILE)
}

#[test]
fn a_file_that_somebody_reads_is_not_deleted() {
    let scene = Scene::new();
    let header = Scene::header("cam", 1, 0, 0, Beginning::Start);
    scene.closed(&header, 600);
    let file = scene
        .catalogue
        .files(&name("cam"), range(0, 9))
        .expect("files")
        .remove(0);
    assert!(scene.catalogue.hold(&file).is_none(), "it was never made");
    std::fs::create_dir_all(file.path.parent().expect("a day")).expect("a folder");
    std::fs::write(&file.path, "media").expect("a file");
    let held = [(); 2].map(|()| scene.catalogue.hold(&file).expect("it exists"));
    let holders = scene.catalogue.holders();
    let delete = || holders.delete_unheld(&file.path, || std::fs::remove_file(&file.path));
    assert!(!delete().expect("nothing is done"));
    let [one, other] = held;
    drop(one);
    assert!(!delete().expect("nothing is done"));
    drop(other);
    assert!(delete().expect("it exists") && !file.path.exists());
}

mod soak {
    use std::time::Instant;

    use super::*;
    use crate::recorders::{FolderPlan, Plan};
    use crate::retention::Retention;

    /// A hundred streams over seventy days, in files of ten minutes: a million rows.
    #[test]
    #[ignore = "long: `cargo xtask soak` writes a million rows"]
    fn a_second_of_a_million_files_is_found_at_once() {
        let scene = Scene::new();
        let begun = Instant::now();
        scene.index.fill(100, 10_000, NOON).expect("rows");
        println!("a million rows in {:?}", begun.elapsed());
        let stream = name("cam57");
        let mut longest = Duration::ZERO;
        for step in 0..200 {
            let second = step * 29_989;
            let begun = Instant::now();
            let files = scene.catalogue.files(&stream, range(second, second + 1));
            longest = longest.max(begun.elapsed());
            let files = files.expect("an index");
            assert_eq!(files.len(), 1);
            assert!(files[0].start <= at(second) && files[0].end() > at(second));
        }
        println!("a second is found within {longest:?}");
        let begun = Instant::now();
        let spans = scene.catalogue.spans(&stream, range(0, 10_000 * 600));
        println!("all spans of a stream: {:?}", begun.elapsed());
        assert_eq!(spans.expect("an index").len(), 1);
        let begun = Instant::now();
        assert_eq!(scene.catalogue.streams().expect("an index").len(), 100);
        println!("all streams: {:?}", begun.elapsed());
        let plan = Plan {
            folders: vec![FolderPlan {
                path: scene.index.folder().to_owned(),
                sync: Duration::from_secs(10),
                bytes_max: None,
                free_min: 0,
            }],
            ..Plan::nothing()
        };
        let retention = Retention::new(scene.catalogue.clone());
        let begun = Instant::now();
        let deleted = retention.round(&plan, at(20_000 * 600)).expect("an index");
        println!("a round of retention: {:?}", begun.elapsed());
        assert!(
            deleted.is_empty() && longest < Duration::from_secs(1),
            "{longest:?}"
        );
    }
}

/// The storage of a test: what it has.
#[derive(Debug)]
struct Stored(Vec<u8>);

impl Copies for Stored {
    fn read_at(&self, key: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(key.starts_with("cam/2026-11-30/"), "{key}");
        let rest = &self.0[offset as usize..];
        // A storage may give less than is asked for.
        let length = rest.len().min(buffer.len()).min(7);
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

#[test]
fn files_are_copied_oldest_first_and_read_from_the_copy_when_they_are_gone() {
    let scene = Scene::new();
    for start in [600, 0, 1200] {
        scene.closed(&Scene::header("cam", 1, 0, start, Beginning::Start), 600);
    }
    scene.closed(&Scene::header("other", 1, 0, 0, Beginning::Start), 600);
    scene.begin(&Scene::header("cam", 1, 3, 1800, Beginning::Length));
    let wanted = |name: &StreamName| name.as_str() == "cam";
    let waiting = || scene.catalogue.copies_waiting(&wanted).expect("an index");
    let expected = CopiesWaiting {
        files: 3,
        bytes: 3000,
        oldest: Some(at(0)),
        refused: 0,
    };
    assert_eq!(waiting(), expected, "what grows does not wait");
    let next = || scene.catalogue.next_to_copy(&wanted).expect("an index");
    let first = next().expect("a file");
    assert_eq!(first.start, at(0));
    // It cannot be read, so that others go first, and after five times it is left.
    for expected in [600, 600] {
        scene
            .catalogue
            .note_not_copied(&first.path)
            .expect("an index");
        assert_eq!(next().expect("a file").start, at(expected));
    }
    for start in [600, 1200] {
        let file = next().expect("a file");
        assert_eq!(file.start, at(start));
        scene.catalogue.note_copied(&file.path).expect("an index");
    }
    for _ in 0..3 {
        let file = next().expect("it is tried again");
        scene
            .catalogue
            .note_not_copied(&file.path)
            .expect("an index");
    }
    assert_eq!(next(), None);
    assert_eq!((waiting().files, waiting().refused), (0, 1));
    let files = scene.catalogue.files(&name("cam"), range(0, 5000));
    let copies: Vec<_> = files.expect("files").iter().map(|it| it.copy).collect();
    let (refused, confirmed) = (CopyState::Refused, CopyState::Confirmed);
    assert_eq!(copies, [refused, confirmed, confirmed, CopyState::None]);
    let is_alone = |it: &RecordedFile| it.copy == CopyState::Alone;
    let files = scene.catalogue.files(&name("cam"), range(0, 5000));
    let files = files.expect("files");
    let below = files[1]
        .path
        .strip_prefix(scene.index.folder())
        .expect("below");
    assert!(scene.index.leave_copy(below).expect("an index"));
    let files = scene
        .catalogue
        .files(&name("cam"), range(0, 5000))
        .expect("files");
    assert!(is_alone(&files[1]));
    assert!(scene.catalogue.hold(&files[1]).is_none(), "no storage");
    let content: Vec<u8> = (0..1000).map(|it| it as u8).collect();
    scene
        .catalogue
        .set_copies(Some(Arc::new(Stored(content.clone()))));
    let held = scene.catalogue.hold(&files[1]).expect("a copy");
    let open = held.open().expect("a copy");
    let mut read = [0; 100];
    open.read_exact_at(&mut read, 850).expect("within the copy");
    assert!(held.is_copy() && read == content[850..950]);
    let beyond = open.read_exact_at(&mut read, 950).expect_err("its end");
    assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(
        scene.index.bytes().expect("an index"),
        3000,
        "without the copy alone"
    );
}

#[test]
fn a_new_index_knows_the_copies_of_the_old_one() {
    let scene = Scene::new();
    scene.closed(&Scene::header("cam", 1, 0, 0, Beginning::Start), 600);
    scene.closed(&Scene::header("cam", 1, 1, 600, Beginning::Length), 600);
    let first = scene.catalogue.next_to_copy(&|_| true).expect("an index");
    let first = first.expect("a file");
    scene.catalogue.note_copied(&first.path).expect("an index");
    let findings = Catalogue::repair(&scene._folder).expect("a folder");
    assert_eq!((findings.files, findings.remote), (0, 1));
    let catalogue = Catalogue::default();
    catalogue.add(&scene._folder).expect("an index");
    let files = catalogue
        .files(&name("cam"), range(0, 5000))
        .expect("files");
    let alone = RecordedFile {
        copy: CopyState::Alone,
        ..first
    };
    assert_eq!(
        files,
        [alone],
        "the one that was lost before it had a copy is not there"
    );
    let findings = check(scene.index.folder()).expect("an index");
    assert_eq!((findings.problems.len(), findings.remote), (0, 1));
}
