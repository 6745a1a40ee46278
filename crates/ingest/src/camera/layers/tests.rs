use glassline_hub::{Limits, Stream, StreamName, Subscription, Wake};
use glassline_media::{
    Codec, Layer, LayerAbsence, LayerIndex, MediaTime, Stamps, TrackLayer, UnitBuilder,
};

use super::*;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

const MAIN: usize = 0;
const SUB: usize = 1;

/// A camera with a main stream and a sub stream, whose connections a test makes.
struct Camera {
    start: Instant,
    stream: Arc<Stream>,
    publication: Publication,
}

impl Camera {
    fn new() -> Self {
        let (start, name) = (Instant::now(), StreamName::parse("cam").expect("a name"));
        let stream = Stream::unlisted(name, Limits::default());
        let rids = ["main", "sub"].map(str::to_owned).to_vec();
        let publication = Publication::new(Arc::clone(&stream), rids, start);
        Self {
            start,
            stream,
            publication,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn describe(&mut self, layer: usize, codec: Codec, audio: Option<Codec>) {
        let audio = audio.map(|codec| Track::audio(codec, 1));
        let tracks: Vec<_> = std::iter::once(Track::new(codec)).chain(audio).collect();
        self.publication.describe_session(layer, &tracks, &[]);
    }

    fn unit(&mut self, layer: usize, track: usize, ms: u64, keyframe: bool) -> Option<bool> {
        let mut builder = UnitBuilder::default();
        builder.push(&[7; 100]);
        let (time, now) = (
            MediaTime::from_nanos(ms.cast_signed() * 1_000_000),
            self.at(ms),
        );
        let unit = builder.build(TrackIndex(track), time, keyframe, Stamps::arrived(now));
        let unit = unit.expect("a packet");
        self.publication.publish(layer, unit, now).expect("taken")
    }

    fn fail(&mut self, layer: usize, ms: u64) {
        let (state, now) = (
            State::Down {
                detail: "gone".to_owned(),
            },
            self.at(ms),
        );
        self.publication.end_session(layer, now);
        self.publication.set_state(layer, state, now);
    }

    fn layers(&self) -> Vec<Layer> {
        self.stream.tracks()[0].layers.clone()
    }

    fn reader(&self, layer: u8) -> Subscription {
        let mut reader = self.stream.subscribe(Arc::new(NoWake));
        reader.read(&[TrackLayer {
            track: TrackIndex(0),
            layer: LayerIndex(layer),
        }]);
        reader
    }

    fn needs(&self, layer: usize, is_demanded: bool) -> bool {
        let read = self.stream.layers_read(TrackIndex(0));
        self.publication.needs(layer, Demands { is_demanded, read })
    }
}

fn read(reader: &mut Subscription) -> Vec<(usize, u8)> {
    let mut units = Vec::new();
    reader.poll(&mut units);
    units
        .iter()
        .map(|it| (it.track.get(), it.layer.0))
        .collect()
}

#[test]
fn a_sub_stream_in_another_codec_stands_beside_the_main_stream() {
    let mut camera = Camera::new();
    camera.describe(SUB, Codec::Vp8, None);
    assert_eq!(
        camera.unit(SUB, 0, 0, true),
        None,
        "the codec of the main stream is unknown"
    );
    camera.describe(MAIN, Codec::H265, None);
    assert_eq!(camera.unit(SUB, 0, 40, true), Some(true));
    assert_eq!(camera.stream.tracks()[0].codec, Codec::H265);
    let (mut base, mut sub) = (camera.reader(0), camera.reader(2));
    assert_eq!(camera.unit(MAIN, 0, 80, true), Some(true));
    assert_eq!(camera.unit(SUB, 0, 80, false), Some(false));
    assert_eq!(read(&mut base), [(0, 0)], "the main stream alone");
    assert_eq!(read(&mut sub), [(0, 2)]);
    let layers = camera.layers();
    assert!(layers[0].other_codec.is_none());
    let other = layers[1].other_codec.as_deref().expect("another codec");
    assert_eq!(other.codec, Codec::Vp8);
    let layout = camera.stream.layout();
    camera.fail(MAIN, 100);
    camera.unit(SUB, 0, 9_000, true);
    assert_eq!(camera.stream.layout(), layout, "it may come back");
    camera.unit(SUB, 0, 10_200, true);
    assert_eq!(camera.stream.tracks()[0].codec, Codec::Vp8);
    assert!(camera.stream.layout() > layout);
    assert_eq!(read(&mut base), [(0, 0)], "from the sub stream");
    camera.describe(MAIN, Codec::H265, None);
    assert_eq!(
        camera.stream.tracks()[0].codec,
        Codec::Vp8,
        "until its keyframe"
    );
    assert_eq!(camera.unit(MAIN, 0, 11_000, true), Some(true));
    assert_eq!(camera.stream.tracks()[0].codec, Codec::H265);
    assert_eq!(
        camera.unit(SUB, 0, 11_040, false),
        None,
        "from its keyframe on"
    );
    assert_eq!(camera.unit(SUB, 0, 11_080, true), Some(true));
}

#[test]
fn a_sub_stream_waits_three_seconds_for_a_main_stream_that_says_nothing() {
    let mut camera = Camera::new();
    camera.describe(SUB, Codec::Vp8, None);
    assert_eq!(camera.unit(SUB, 0, 0, true), None);
    assert_eq!(camera.unit(SUB, 0, 2_960, true), None);
    assert_eq!(camera.unit(SUB, 0, 3_000, true), Some(true));
    let mut camera = Camera::new();
    camera.describe(SUB, Codec::Vp8, None);
    camera.fail(MAIN, 0);
    assert_eq!(camera.unit(SUB, 0, 10, true), Some(true), "it has failed");
    assert_eq!(
        camera.layers()[0].absence,
        Some(LayerAbsence::Failed("gone".to_owned()))
    );
}

#[test]
fn audio_is_taken_once_and_from_the_sub_stream_while_the_main_one_is_away() {
    let mut camera = Camera::new();
    for layer in [MAIN, SUB] {
        camera.describe(layer, Codec::Vp8, Some(Codec::Pcma));
        camera.unit(layer, 0, 0, true);
    }
    assert_eq!(camera.stream.tracks().len(), 2);
    let taken =
        |camera: &mut Camera, ms| [MAIN, SUB].map(|it| camera.unit(it, 1, ms, true).is_some());
    assert_eq!(taken(&mut camera, 20), [true, false]);
    camera.fail(MAIN, 40);
    assert_eq!(taken(&mut camera, 60), [false, true]);
    camera.describe(MAIN, Codec::Vp8, Some(Codec::Opus));
    camera.unit(MAIN, 0, 80, true);
    assert_eq!(taken(&mut camera, 100), [false, true], "another codec");
}

#[test]
fn connections_are_needed_for_what_is_read_and_for_what_is_not_known() {
    let mut camera = Camera::new();
    for layer in [MAIN, SUB] {
        camera.describe(layer, Codec::Vp8, None);
    }
    assert!(
        camera.needs(MAIN, true) && camera.needs(SUB, true),
        "unknown"
    );
    assert!(!camera.needs(MAIN, false) && !camera.needs(SUB, false));
    for ms in [0, 40, 80, 120] {
        camera.unit(MAIN, 0, ms, ms == 0);
        camera.unit(SUB, 0, ms, ms == 0);
    }
    assert!(camera.needs(MAIN, true));
    camera.fail(SUB, 160);
    assert!(camera.needs(SUB, true), "until it works");
    let idle = camera.at(170);
    camera.publication.set_state(SUB, State::Idle, idle);
    assert!(!camera.needs(SUB, true), "it is known, and unread");
    let sub = camera.reader(2);
    assert!(camera.needs(SUB, true) && camera.needs(MAIN, true));
    camera.unit(SUB, 0, 200, true);
    assert!(!camera.needs(MAIN, true), "the small one is enough");
    let base = camera.reader(0);
    assert!(camera.needs(MAIN, true), "recordings read the best");
    drop(base);
    camera.fail(SUB, 240);
    assert!(camera.needs(MAIN, true));
    drop(sub);
}

/// Layers that lie about their size, come late, vanish and come back change nothing but themselves.
#[test]
fn the_size_of_a_layer_follows_its_frames_and_a_late_layer_is_added() {
    let mut camera = Camera::new();
    camera.describe(MAIN, Codec::Vp8, None);
    camera.unit(MAIN, 0, 0, true);
    assert_eq!(camera.layers()[1].absence, Some(LayerAbsence::Paused));
    let mut huge = Track::new(Codec::Vp8);
    (huge.video.width, huge.video.height) = (70_000, 1);
    camera.publication.describe_session(SUB, &[huge], &[]);
    camera.unit(SUB, 0, 5_000, true);
    assert_eq!(camera.layers()[1].size, None, "no such size");
    assert_eq!(camera.layers()[1].absence, None);
    camera.fail(SUB, 5_040);
    assert_eq!(camera.unit(MAIN, 0, 5_080, false), Some(false));
    camera.describe(SUB, Codec::Vp8, None);
    assert_eq!(
        camera.unit(SUB, 0, 5_120, false),
        None,
        "from its keyframe on"
    );
    assert_eq!(camera.unit(SUB, 0, 5_160, true), Some(true));
}
