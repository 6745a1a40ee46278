use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::catalogue::{Growth, NewMark};
use crate::file_header::{Beginning, FileHeader};
use crate::folder::{FilePlace, Folder};
use crate::recorders::{Layers, StreamPlan};
use crate::scratch::Scratch;

const HOUR: u64 = 3600;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_000_000 + second)
}

fn name(text: &str) -> StreamName {
    StreamName::parse(text).expect("a name")
}

/// A folder with files of an hour, each of a thousand bytes.
struct Scene {
    scratch: Scratch,
    _folder: Folder,
    catalogue: Catalogue,
    retention: Retention,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path(), None).expect("a folder");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        let mut retention = Retention::new(catalogue.clone());
        retention.free_bytes = |_| Ok(u64::MAX);
        Self {
            scratch,
            _folder: folder,
            catalogue,
            retention,
        }
    }

    /// Adds files of the stream that begin at each hour up to `hours`.
    fn fill(&self, stream: &str, hours: u64) {
        let index = self.catalogue.folder(self.scratch.path()).expect("added");
        for hour in 0..hours {
            let header = FileHeader {
                stream: name(stream),
                layer: String::new(),
                run: 1,
                number: u32::try_from(hour).expect("small"),
                start: at(hour * HOUR),
                beginning: Beginning::Length,
            };
            let place = FilePlace {
                stream: name(stream),
                layer: String::new(),
                start: header.start,
            };
            let path = place.path();
            let whole = self.scratch.path().join(&path);
            std::fs::create_dir_all(whole.parent().expect("a day")).expect("a folder");
            std::fs::write(whole, vec![0; 1000]).expect("a file");
            index.begin(&path, &header, &[]).expect("a row");
            let growth = Growth {
                duration: Duration::from_secs(HOUR),
                bytes: 1000,
            };
            index.end(&path, growth).expect("a row");
        }
    }

    fn plan(&self, age_h: Option<u64>, marked_h: Option<u64>, bytes_max: Option<u64>) -> Plan {
        let hours = |it: u64| Duration::from_secs(it * HOUR);
        let keep = Keep {
            age: age_h.map(hours),
            marked_age: marked_h.map(hours),
            ..Keep::default()
        };
        self.plan_of(keep, bytes_max)
    }

    fn plan_of(&self, keep: Keep, bytes_max: Option<u64>) -> Plan {
        let path = self.scratch.path().to_owned();
        let of_stream = StreamPlan {
            folder: path.clone(),
            is_automatic: true,
            is_demanded: false,
            file: Duration::from_secs(HOUR),
            layers: Layers::Best,
            keep,
        };
        Plan {
            folders: vec![FolderPlan {
                path,
                sync: Duration::from_secs(10),
                bytes_max,
                free_min: 0,
            }],
            of_stream: Arc::new(move |_| Some(of_stream.clone())),
        }
    }

    /// Returns the hours at which the files of the stream begin.
    fn left(&self, stream: &str) -> Vec<u64> {
        let all = TimeRange {
            from: at(0),
            to: at(1000 * HOUR),
        };
        let files = self.catalogue.files(&name(stream), all).expect("an index");
        let is_remote = |it: &RecordedFile| it.copy == CopyState::Alone;
        assert!(files.iter().all(|it| it.path.exists() != is_remote(it)));
        let files = files.into_iter().filter(|it| !is_remote(it));
        let hour =
            |it: &RecordedFile| it.start.duration_since(at(0)).expect("later").as_secs() / HOUR;
        files.map(|it| hour(&it)).collect()
    }

    /// Notes that the files of the stream up to an hour have copies.
    fn copy(&self, stream: &str, hours: u64) {
        for _ in 0..hours {
            let of_stream = |it: &StreamName| it.as_str() == stream;
            let next = self.catalogue.next_to_copy(&of_stream);
            let next = next.expect("an index").expect("a file");
            self.catalogue.note_copied(&next.path).expect("an index");
        }
    }

    fn mark(&self, stream: &str, hour: u64, is_for_ever: bool) {
        let mark = NewMark {
            stream: name(stream),
            label: "door".to_owned(),
            from: at(hour * HOUR + 10),
            to: at(hour * HOUR + 20),
            is_for_ever,
        };
        self.catalogue.mark(mark).expect("a mark");
    }

    fn round(&self, plan: &Plan, hour: u64) -> Vec<Deleted> {
        self.retention
            .round(plan, at(hour * HOUR))
            .expect("an index")
    }
}

#[test]
fn files_go_by_age_and_marked_ones_later() {
    let scene = Scene::new();
    scene.fill("cam", 10);
    scene.mark("cam", 1, false);
    scene.mark("cam", 2, true);
    let plan = scene.plan(Some(5), Some(8), None);
    let deleted = scene.round(&plan, 10);
    assert!(
        deleted
            .iter()
            .all(|it| it.reason == "age" && it.bytes == 1000)
    );
    assert_eq!(scene.left("cam"), [1, 2, 4, 5, 6, 7, 8, 9]);
    scene.round(&plan, 12);
    assert_eq!(scene.left("cam"), [2, 6, 7, 8, 9]);
    scene.round(&plan, 1000);
    assert_eq!(scene.left("cam"), [2], "for ever");
}

#[test]
fn the_oldest_files_of_all_streams_go_when_there_is_too_much() {
    let scene = Scene::new();
    scene.fill("cam", 5);
    scene.fill("site/yard", 5);
    scene.mark("cam", 0, false);
    let plan = scene.plan(None, None, Some(7000));
    let deleted = scene.round(&plan, 5);
    assert!(deleted.iter().all(|it| it.reason == "size"));
    assert_eq!(scene.left("cam"), [0, 2, 3, 4], "a marked file goes last");
    assert_eq!(scene.left("site/yard"), [2, 3, 4]);
    assert!(scene.round(&plan, 5).is_empty());
    scene.round(&scene.plan(None, None, Some(0)), 5);
    assert_eq!(
        scene.left("cam"),
        [0u64; 0],
        "a full disk would record nothing"
    );
    assert!(
        !scene.scratch.path().join("site").exists(),
        "empty folders go, too"
    );
}

#[test]
fn a_file_that_is_read_is_left_for_the_next_round() {
    let scene = Scene::new();
    scene.fill("cam", 3);
    let all = TimeRange {
        from: at(0),
        to: at(10),
    };
    let file = scene
        .catalogue
        .files(&name("cam"), all)
        .expect("files")
        .remove(0);
    let held = scene.catalogue.hold(&file).expect("it exists");
    let plan = scene.plan(Some(1), None, None);
    scene.round(&plan, 100);
    assert_eq!(scene.left("cam"), [0]);
    drop(held);
    scene.round(&plan, 100);
    assert_eq!(scene.left("cam"), [0u64; 0]);
}

static FREE: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_disk_with_too_little_space_loses_its_oldest_files() {
    let mut scene = Scene::new();
    scene.fill("cam", 5);
    scene.retention.free_bytes = |_| Ok(FREE.load(Ordering::Relaxed));
    FREE.store(7_500, Ordering::Relaxed);
    let mut plan = scene.plan(None, None, None);
    plan.folders[0].free_min = 9_000;
    let deleted = scene.round(&plan, 5);
    assert!(deleted.iter().all(|it| it.reason == "free_space"));
    assert_eq!(scene.left("cam"), [2, 3, 4]);
    FREE.store(9_000, Ordering::Relaxed);
    assert!(scene.round(&plan, 5).is_empty());
}

/// Returns how long a stream is kept that is copied.
fn copied(age_h: Option<u64>, copy_h: Option<u64>) -> Keep {
    let hours = |it: u64| Duration::from_secs(it * HOUR);
    Keep {
        age: age_h.map(hours),
        is_copied: true,
        copy_age: copy_h.map(hours),
        ..Keep::default()
    }
}

#[test]
fn a_file_stays_however_old_until_it_has_its_copy() {
    let scene = Scene::new();
    scene.fill("cam", 5);
    scene.copy("cam", 2);
    let plan = scene.plan_of(copied(Some(1), None), None);
    let deleted = scene.round(&plan, 1000);
    assert!(
        deleted
            .iter()
            .all(|it| it.reason == "age" && !it.is_uncopied)
    );
    assert_eq!(scene.left("cam"), [2, 3, 4]);
    assert!(scene.round(&plan, 1000).is_empty());
    scene.copy("cam", 1);
    scene.round(&plan, 1000);
    assert_eq!(scene.left("cam"), [3, 4]);
    let all = TimeRange {
        from: at(0),
        to: at(1000 * HOUR),
    };
    let files = scene.catalogue.files(&name("cam"), all).expect("an index");
    assert_eq!(files.len(), 5, "copies are found");
    assert!(scene.catalogue.hold(&files[0]).is_none(), "no storage");
}

#[test]
fn a_full_disk_loses_its_oldest_files_without_copy_when_no_others_are_left() {
    let scene = Scene::new();
    scene.fill("cam", 4);
    scene.fill("yard", 4);
    scene.copy("yard", 4);
    scene.mark("yard", 3, false);
    let plan = |most| scene.plan_of(copied(None, None), Some(most));
    assert!(
        scene
            .round(&plan(5_000), 5)
            .iter()
            .all(|it| !it.is_uncopied)
    );
    assert_eq!(scene.left("yard"), [3]);
    assert_eq!(
        scene.left("cam"),
        [0, 1, 2, 3],
        "what has a copy goes first"
    );
    assert!(
        scene
            .round(&plan(4_000), 5)
            .iter()
            .all(|it| !it.is_uncopied)
    );
    assert_eq!(scene.left("yard"), [0u64; 0], "a mark is kept in the copy");
    let deleted = scene.round(&plan(3_000), 5);
    assert!(deleted.len() == 1 && deleted[0].is_uncopied, "{deleted:?}");
    assert_eq!(scene.left("cam"), [1, 2, 3], "recording goes on");
}

#[test]
fn copies_go_by_their_own_age_and_marked_ones_stay() {
    let scene = Scene::new();
    scene.fill("cam", 6);
    scene.copy("cam", 5);
    scene.mark("cam", 1, true);
    let plan = scene.plan_of(copied(Some(1), Some(100)), None);
    scene.round(&plan, 50);
    let expired = |hour| {
        let expired = scene.retention.expired_copies(&plan, at(hour * HOUR));
        expired
            .expect("an index")
            .into_iter()
            .map(|it| it.path)
            .collect::<Vec<_>>()
    };
    assert!(expired(50).is_empty());
    assert_eq!(expired(103).len(), 1);
    scene.mark("cam", 2, true);
    let all = expired(1000);
    assert_eq!(all.len(), 3, "two are marked, and one has no copy");
    for path in &all {
        scene.catalogue.forget_copy(path).expect("an index");
    }
    assert!(expired(1000).is_empty());
}
