use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use glassline_hub::{Publisher, SourceNote, State, Wake};
use glassline_media::{
    Codec, Layer, LayerIndex, MediaTime, Stamps, Track, TrackIndex, UnitBuilder,
};

use super::*;
use crate::catalogue::{RecordedFile, TimeRange};
use crate::scratch::Scratch;

/// Long, for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A hub with a stream of two layers, and its recorders.
struct Scene {
    scratch: Scratch,
    hub: Arc<Hub>,
    recorders: Recorders,
    events: glassline_hub::StreamEvents,
    name: StreamName,
    told: Vec<RecorderEvent>,
}

impl Scene {
    fn new(layers: Layers) -> Self {
        let scratch = Scratch::new();
        let hub = Arc::<Hub>::default();
        let recorders = Recorders::start(RecorderParts {
            hub: Arc::clone(&hub),
            clock: Clock::start(),
            supervisor: Supervisor::start().expect("a thread"),
            known_file: None,
        });
        let events = hub.events(Arc::new(NoWake));
        let scene = Self {
            recorders: recorders.expect("threads"),
            events,
            hub,
            name: StreamName::parse("site/cam").expect("a name"),
            told: Vec::new(),
            scratch,
        };
        scene.plan(layers);
        scene
    }

    fn plan(&self, layers: Layers) {
        let path = self.scratch.path().to_owned();
        let of_stream = StreamPlan {
            folder: path.clone(),
            is_automatic: true,
            is_demanded: false,
            file: Duration::from_secs(600),
            layers,
            keep: Keep::default(),
        };
        let plan = Plan {
            folders: vec![FolderPlan {
                path,
                sync: Duration::from_secs(1),
                bytes_max: None,
                free_min: 0,
            }],
            of_stream: Arc::new(move |_| Some(of_stream.clone())),
        };
        self.recorders.set_plan(plan).expect("threads");
    }

    fn publish(&mut self) -> Publisher {
        self.publish_by("whip")
    }

    fn publish_by(&mut self, protocol: &'static str) -> Publisher {
        let publisher = self.publish_unseen(protocol);
        self.observe();
        publisher
    }

    /// Publishes without the recorders' knowing yet.
    fn publish_unseen(&self, protocol: &'static str) -> Publisher {
        let note = SourceNote {
            protocol,
            left_out: Vec::new(),
        };
        let layers = ["h", "l"].map(|rid| Layer {
            rid: rid.to_owned(),
            ..Layer::default()
        });
        let track = Track::new(Codec::Vp8).with_layers(layers.to_vec());
        self.publish_track(note, track)
    }

    fn publish_track(&self, note: SourceNote, track: Track) -> Publisher {
        let stream = self.hub.create(self.name.clone()).expect("room");
        let publisher = stream.publish_as(note, vec![track], Instant::now());
        publisher.expect("free")
    }

    fn observe(&mut self) {
        let mut happened = Vec::new();
        self.events.poll(&mut happened);
        self.recorders.observe(&happened);
        self.told.extend(self.recorders.tick());
    }

    /// Publishes a second of all layers.
    fn second(publisher: &mut Publisher, second: i64) {
        Self::second_of(publisher, second, &[0, 1, 2]);
    }

    fn second_of(publisher: &mut Publisher, second: i64, layers: &[u8]) {
        for frame in 0..10 {
            for &layer in layers {
                let keyframe = frame == 0;
                let head: &[u8] = match keyframe {
                    true => &[0x10, 0, 0, 0x9d, 1, 0x2a, 64, 0, 48, 0],
                    false => &[1],
                };
                let mut builder = UnitBuilder::default();
                builder.push(&[head, &[7; 100]].concat());
                let time = MediaTime::from_nanos((second * 10 + frame) * 100_000_000);
                let now = Instant::now();
                let unit = builder.build(TrackIndex(0), time, keyframe, Stamps::arrived(now));
                let mut unit = unit.expect("a packet");
                unit.layer = LayerIndex(layer);
                publisher.push(unit, now).expect("announced");
            }
        }
    }

    /// Waits until `holds`.
    fn wait(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            self.observe();
            let status = self.recorders.status(&self.name);
            assert!(Instant::now() < deadline, "{what}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.observe();
    }

    /// Publishes seconds, each when the one before the last is written.
    fn run(
        &mut self,
        publisher: &mut Publisher,
        seconds: std::ops::Range<i64>,
        layer_recordings: u64,
    ) {
        // From then on the layers are read.
        self.recorders.lock().reading.settle();
        let before = self.fragments();
        for (number, second) in (0..).zip(seconds) {
            Self::second(publisher, second);
            let written = before + layer_recordings * u64::from(u32::max(number, 1) - 1);
            self.wait("a fragment", |it| it.fragments() >= written);
        }
    }

    fn fragments(&self) -> u64 {
        let status = self.recorders.status(&self.name);
        status.map_or(0, |it| it.fragments)
    }

    fn files(&self) -> Vec<RecordedFile> {
        let all = TimeRange {
            from: UNIX_EPOCH,
            to: UNIX_EPOCH + Duration::from_secs(1 << 32),
        };
        let files = self.recorders.catalogue().files(&self.name, all);
        files.expect("an index")
    }

    fn are_closed(&self) -> bool {
        self.files().iter().all(|it| it.is_closed)
    }

    /// Returns what was told, without the load of this machine's disk.
    fn kinds(&self) -> Vec<RecorderEventKind> {
        let load = [RecorderEventKind::DiskBusy, RecorderEventKind::DiskCalm];
        let told = self.told.iter().map(|it| it.kind);
        told.filter(|it| !load.contains(it)).collect()
    }
}

#[test]
fn what_a_source_published_before_its_recording_began_is_recorded_once() {
    let mut scene = Scene::new(Layers::Best);
    let mut publisher = scene.publish_unseen("whip");
    Scene::second(&mut publisher, 0);
    scene.observe();
    scene.recorders.lock().reading.settle();
    Scene::second(&mut publisher, 1);
    scene.wait("the first second", |it| it.fragments() >= 1);
    let sum = |scene: &Scene| scene.files().iter().map(|it| it.duration).sum::<Duration>();
    // The recording ends, and begins again behind the newest keyframe, which it has.
    for wish in [false, true] {
        let wished = scene.recorders.wish(&scene.name, Some(wish));
        wished.expect("recorded here");
    }
    scene.recorders.lock().reading.settle();
    scene.wait("a closed file", Scene::are_closed);
    assert_eq!(sum(&scene), Duration::from_secs(2), "{:?}", scene.files());
    Scene::second(&mut publisher, 2);
    publisher.finish(State::Idle);
    scene.observe();
    scene.wait("both files", |it| it.files().len() == 2 && it.are_closed());
    assert_eq!(sum(&scene), Duration::from_secs(3), "{:?}", scene.files());
}

#[test]
fn a_layer_is_recorded_in_its_own_codec_which_may_be_known_late() {
    for is_late in [false, true] {
        let mut scene = Scene::new(Layers::Named("l".to_owned()));
        let layer = |codec: Option<Codec>| Layer {
            rid: "l".to_owned(),
            other_codec: codec.map(|it| Box::new(Track::new(it))),
            ..Layer::default()
        };
        let main = |codec| Track::new(Codec::Vp9).with_layers(vec![layer(codec)]);
        let note = SourceNote {
            protocol: "rtsp",
            left_out: Vec::new(),
        };
        let known = Some(Codec::Vp8).filter(|_| !is_late);
        let mut publisher = scene.publish_track(note, main(known));
        scene.observe();
        scene.recorders.lock().reading.settle();
        publisher
            .describe(&[main(Some(Codec::Vp8))])
            .expect("the same track");
        scene.observe();
        for second in 0..3 {
            scene.recorders.lock().reading.settle();
            Scene::second_of(&mut publisher, second, &[1]);
        }
        scene.recorders.lock().reading.settle();
        publisher.finish(State::Idle);
        scene.observe();
        scene.wait("a closed file", |it| {
            it.files().len() == 1 && it.are_closed()
        });
        let files = scene.files();
        assert_eq!(files[0].tracks[0].codec, "VP8", "{files:?}");
        assert_eq!(files[0].duration, Duration::from_secs(3));
    }
}

#[test]
fn what_stands_in_for_a_silent_source_is_no_footage() {
    let mut scene = Scene::new(Layers::Best);
    let mut publisher = scene.publish();
    scene.run(&mut publisher, 0..3, 1);
    let stream = scene.hub.stream(scene.name.as_str()).expect("published");
    let tracks = stream.tracks().to_vec();
    let stand_in = stream.stand_in(
        tracks,
        "a picture".to_owned(),
        Duration::ZERO,
        Instant::now(),
    );
    let mut stand_in = stand_in.expect("the source is silent");
    for second in 10..14 {
        Scene::second(&mut stand_in, second);
        scene.recorders.lock().reading.settle();
    }
    scene.wait("the end of the file", |it| {
        it.files().len() == 1 && it.are_closed()
    });
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Losing);
    assert!(status.reason.is_some_and(|it| it.contains("stands in")));
    // The source goes on with a keyframe, at once followed by all that it held back.
    drop(stand_in);
    let before = scene.fragments();
    for second in 20..23 {
        Scene::second(&mut publisher, second);
    }
    scene.wait("what was held back", |it| it.fragments() >= before + 2);
    publisher.finish(State::Idle);
    scene.observe();
    scene.wait("both files", |it| it.files().len() == 2 && it.are_closed());
    let lengths: Vec<_> = scene.files().iter().map(|it| it.duration).collect();
    assert_eq!(lengths, [Duration::from_secs(3); 2], "{:?}", scene.files());
}

#[test]
fn each_layer_has_files_of_its_own_and_they_end_with_the_source() {
    let mut scene = Scene::new(Layers::All);
    let mut publisher = scene.publish();
    scene.run(&mut publisher, 0..5, 2);
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Recording, "{status:?}");
    // Nobody has read the last second when the source leaves.
    Scene::second(&mut publisher, 5);
    publisher.finish(State::Idle);
    scene.observe();
    scene.wait("closed files", |it| {
        it.files().len() == 2 && it.are_closed()
    });
    let is_whole = |it: &RecordedFile| it.duration >= Duration::from_millis(5_900);
    assert!(scene.files().iter().all(is_whole), "{:?}", scene.files());
    let layers: BTreeSet<String> = scene.files().into_iter().map(|it| it.layer).collect();
    assert_eq!(layers, BTreeSet::from(["h".to_owned(), "l".to_owned()]));
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Waiting);
    assert!(
        status.fragments >= 8 && status.losses.is_empty(),
        "{status:?}"
    );
    use RecorderEventKind::{Started, Stopped};
    assert_eq!(scene.kinds(), [Started, Stopped]);
    scene.recorders.stop(PATIENCE);
}

#[test]
fn a_wish_goes_before_the_plan_and_a_new_plan_begins_new_files() {
    let mut scene = Scene::new(Layers::Best);
    let mut publisher = scene.publish();
    scene.run(&mut publisher, 0..3, 1);
    scene
        .recorders
        .wish(&scene.name, Some(false))
        .expect("a folder");
    scene.wait("a closed file", |it| {
        it.files().len() == 1 && it.are_closed()
    });
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Off);
    Scene::second(&mut publisher, 3);
    scene.recorders.wish(&scene.name, None).expect("a folder");
    scene.run(&mut publisher, 4..7, 1);
    scene.plan(Layers::Named("l".to_owned()));
    scene.run(&mut publisher, 7..10, 1);
    scene.recorders.stop(PATIENCE);
    let files = scene.files();
    let layers: Vec<&str> = files.iter().map(|it| it.layer.as_str()).collect();
    assert_eq!(layers, ["", "", "l"], "{files:?}");
    assert!(scene.are_closed());
}

#[test]
fn a_folder_that_cannot_be_made_is_told_and_taken_when_it_can() {
    let mut scene = Scene::new(Layers::Best);
    let blocked = scene.scratch.path().join("blocked");
    std::fs::write(&blocked, "no folder").expect("a file");
    let plan = |path: PathBuf| Plan {
        folders: vec![FolderPlan {
            path,
            sync: Duration::from_secs(1),
            bytes_max: None,
            free_min: 0,
        }],
        ..Plan::nothing()
    };
    scene
        .recorders
        .set_plan(plan(blocked.clone()))
        .expect("threads");
    let failed = |it: &Scene| it.kinds().contains(&RecorderEventKind::FolderFailed);
    scene.wait("a failure", failed);
    let problem = scene.recorders.folders()[0].problem.clone();
    assert!(problem.expect("no folder").contains("blocked"));
    std::fs::remove_file(&blocked).expect("a file");
    let back = |it: &Scene| it.kinds().contains(&RecorderEventKind::FolderBack);
    scene.wait("the folder", back);
    assert_eq!(scene.recorders.folders()[0].problem, None);
    scene.recorders.stop(PATIENCE);
}

/// Of the servers of a cluster, the one that has the source records, and after a takeover the next one.
#[test]
fn a_stream_that_is_pulled_is_recorded_once_its_source_is_here() {
    let mut scene = Scene::new(Layers::Best);
    let mut pulled = scene.publish_by(PULLED);
    for second in 0..3 {
        Scene::second(&mut pulled, second);
    }
    scene.observe();
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Waiting);
    let refused = scene.recorders.wish(&scene.name, Some(true));
    assert_eq!(refused, Err(NotRecorded::Elsewhere(scene.name.clone())));
    drop(pulled);
    let mut publisher = scene.publish_by("whip");
    scene.run(&mut publisher, 3..6, 1);
    drop(publisher);
    // The first server is back, and has the source again.
    let mut pulled = scene.publish_by(PULLED);
    for second in 6..9 {
        Scene::second(&mut pulled, second);
    }
    scene.observe();
    let status = scene.recorders.status(&scene.name).expect("a folder");
    assert_eq!(status.state, RecordingState::Waiting);
    scene.recorders.stop(PATIENCE);
    assert_eq!(scene.files().len(), 1);
    let kinds = [RecorderEventKind::Started, RecorderEventKind::Stopped];
    assert_eq!(scene.kinds(), kinds);
}
