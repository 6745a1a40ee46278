//! Layers that nobody reads, and publishers that are told so.

use futures_util::FutureExt as _;
use glassline_media::LayerAbsence;

use super::*;

impl Scene {
    /// Returns a scene whose three layers have come for two seconds.
    fn begun() -> Self {
        let mut scene = Self::new();
        scene.send(&[key(LOW), key(MIDDLE), key(HIGH)]);
        scene.go_on(&[LOW, MIDDLE, HIGH], 60);
        scene
    }

    fn listen(&self) -> LayerOrdersListener {
        let listener = self.contribution.reservation.orders().listen();
        listener.expect("nobody else listens")
    }

    /// Returns for each layer whether it is paused.
    fn paused(&self) -> [bool; 3] {
        let tracks = self.stream().tracks();
        let layers = &tracks[0].layers;
        [0, 1, 2].map(|place| layers[place].absence == Some(LayerAbsence::Paused))
    }

    fn reader(&self, number: u8) -> Subscription {
        let mut reader = self.stream().subscribe(Arc::new(NoWake));
        reader.read(&[layer(number)]);
        reader
    }
}

/// Returns the latest order, if one came since the last call: for each layer whether it is to be sent.
fn order(listener: &mut LayerOrdersListener) -> Option<Vec<bool>> {
    let orders = listener.next().now_or_never().flatten()?;
    Some(orders.iter().map(|it| it.active).collect())
}

fn count(reader: &mut Subscription) -> usize {
    let mut units = Vec::new();
    reader.poll(&mut units);
    units.len()
}

/// Frames in five seconds, after which a layer without readers is paused.
const FRAMES: u32 = 152;

/// Frames in which a gap of sequence numbers, which the scene has behind a pause, counts as lost.
const GAP: u32 = 15;

#[test]
fn unread_layers_are_paused_except_the_lowest_and_come_back_for_a_reader() {
    let mut scene = Scene::begun();
    let mut listener = scene.listen();
    assert_eq!(order(&mut listener), Some(vec![true; 3]));
    scene.go_on(&[LOW, MIDDLE, HIGH], FRAMES - 10);
    assert_eq!(order(&mut listener), None, "within five seconds");
    scene.go_on(&[LOW, MIDDLE, HIGH], 12);
    assert_eq!(order(&mut listener), Some(vec![true, false, false]));
    assert_eq!(scene.paused(), [false, true, true]);
    let stream = scene.stream();
    scene.send(&[key(LOW)]);
    // Viewers may still choose them, and begin with the one that comes.
    assert_eq!(scene.preferred(), 3);
    assert_eq!(stream.beginning(TrackIndex(0)), layer(1));
    let rate = stream.tracks()[0].layers[2].bitrate.expect("it is known");
    assert!((150_000..300_000).contains(&rate.bps()), "{rate:?}");
    assert!(stream.latest_keyframe(layer(3)).is_none(), "too old");
    // Frames that were on their way are nobody's, also a keyframe.
    scene.send(&[delta(LOW), delta(MIDDLE), key(HIGH)]);
    assert!(stream.latest_keyframe(layer(3)).is_none());
    scene.send(&[key(LOW)]);
    scene.go_on(&[LOW], 300);
    assert_eq!(order(&mut listener), None);

    let mut viewer = scene.reader(3);
    scene.go_on(&[LOW], 3);
    assert_eq!(order(&mut listener), Some(vec![true, false, true]));
    assert_eq!(scene.paused(), [false, true, true], "until its keyframe");
    scene.send(&[delta(LOW), key(HIGH)]);
    scene.go_on(&[LOW, HIGH], GAP);
    assert_eq!(scene.paused(), [false, true, false]);
    assert_eq!(scene.preferred(), 3);
    assert!(count(&mut viewer) > 10, "from its keyframe on");
}

#[test]
fn readers_of_the_base_layer_get_the_best_one() {
    let mut scene = Scene::begun();
    let mut recording = BaseReader::new(&scene.stream());
    let mut listener = scene.listen();
    scene.go_on(&[LOW, MIDDLE, HIGH], FRAMES + 5);
    scene.send(&[key(LOW), key(HIGH)]);
    assert_eq!(scene.paused(), [false, true, false]);
    order(&mut listener);
    recording.read();
    drop(recording);
    scene.go_on(&[LOW, HIGH], FRAMES + 5);
    assert_eq!(order(&mut listener), Some(vec![true, false, false]));
    // What is kept of the base layer is the lowest one, from its keyframe on.
    scene.send(&[key(LOW)]);
    scene.go_on(&[LOW], 30);
    let mut player = BaseReader::new(&scene.stream());
    scene.go_on(&[LOW], 3);
    assert_eq!(order(&mut listener), Some(vec![true, false, true]));
    scene.send(&[delta(LOW), key(HIGH)]);
    scene.go_on(&[LOW, HIGH], GAP);
    assert_eq!(player.read(), [0, 2], "at once, and then the best one");
}

#[test]
fn a_publisher_that_does_not_listen_sends_all_layers() {
    let mut scene = Scene::begun();
    scene.go_on(&[LOW, MIDDLE, HIGH], 2 * FRAMES);
    assert_eq!(scene.paused(), [false; 3]);
    let listener = scene.listen();
    scene.go_on(&[LOW, MIDDLE, HIGH], FRAMES + 5);
    assert_eq!(scene.paused(), [false, true, true]);
    // Its connection breaks, and whoever sends nothing then has reasons of its own.
    drop(listener);
    scene.send(&[key(LOW)]);
    scene.go_on(&[LOW], 2);
    let mut listener = scene.listen();
    assert_eq!(order(&mut listener), Some(vec![true; 3]));
    scene.go_on(&[LOW], 100);
    assert_eq!(scene.paused(), [false; 3]);
    assert_eq!(scene.preferred(), 1, "viewers wait for nothing");
}

#[test]
fn a_keyframe_that_somebody_asks_for_resumes_its_layer() {
    let mut scene = Scene::begun();
    let mut listener = scene.listen();
    scene.go_on(&[LOW, MIDDLE, HIGH], FRAMES + 5);
    assert_eq!(order(&mut listener), Some(vec![true, false, false]));
    scene.stream().request_keyframe_of(layer(2));
    scene.go_on(&[LOW], 3);
    assert_eq!(order(&mut listener), Some(vec![true, true, false]));
}
