//! Cameras with a main stream and a sub stream.

use std::sync::atomic::Ordering;

use glassline_hub::Subscription;
use glassline_media::{Layer, LayerAbsence, LayerIndex, TrackLayer};

use super::scripted_camera::{Script, ScriptedCamera};
use super::*;

const MAIN: TrackLayer = TrackLayer {
    track: TrackIndex(0),
    layer: LayerIndex(1),
};
const SUB: TrackLayer = TrackLayer {
    track: TrackIndex(0),
    layer: LayerIndex(2),
};

struct Pair {
    main: ScriptedCamera,
    sub: ScriptedCamera,
    running: Running,
}

impl Pair {
    async fn start(options: &str) -> Self {
        let camera = |side| {
            ScriptedCamera::start(Script {
                side: Some(side),
                ..Script::default()
            })
        };
        let (main, sub) = (camera(64), camera(32));
        let source = main.source("rtsp", "/main");
        let source = format!("{source},rtsp://{}/sub{options}", sub.address);
        let running = Running::start(&[&source]).await.expect("starts");
        Self { main, sub, running }
    }

    fn stream(&self) -> Arc<Stream> {
        self.running.stream("cam")
    }

    fn layers(&self) -> Vec<Layer> {
        let tracks = self.stream().tracks();
        tracks.first().map_or(Vec::new(), |it| it.layers.clone())
    }

    fn absence(&self, place: usize) -> Option<LayerAbsence> {
        self.layers().get(place)?.absence.clone()
    }

    /// Returns the side of the picture in the base layer.
    fn base_side(&self) -> u32 {
        self.stream()
            .tracks()
            .first()
            .map_or(0, |it| it.video.width)
    }

    async fn until_both_come(&self) {
        until("both layers", || {
            let layers = self.layers();
            layers.len() == 2 && layers.iter().all(|it| it.absence.is_none())
        })
        .await;
    }
}

fn reader(stream: &Arc<Stream>, layer: TrackLayer) -> Subscription {
    let mut reader = stream.subscribe(Arc::new(NoWake));
    reader.read(&[layer]);
    reader
}

fn has_units(reader: &mut Subscription) -> bool {
    let mut units = Vec::new();
    reader.poll(&mut units);
    !units.is_empty()
}

#[tokio::test]
async fn a_sub_stream_is_a_layer_that_is_left_unread_and_comes_back_for_a_reader() {
    let pair = Pair::start("").await;
    pair.until_both_come().await;
    let layers = pair.layers();
    assert_eq!([&*layers[0].rid, &*layers[1].rid], ["main", "sub"]);
    assert_eq!(
        [layers[0].size, layers[1].size],
        [Some((64, 64)), Some((32, 32))]
    );
    assert_eq!(pair.base_side(), 64, "the base layer is the best one");
    let stream = pair.stream();
    assert_eq!(stream.preferred(TrackIndex(0)), MAIN);
    let since = Instant::now();
    until("the sub stream left", || {
        pair.absence(1) == Some(LayerAbsence::Paused)
    })
    .await;
    assert!(since.elapsed() > Duration::from_secs(4), "{since:?}");
    until("its session ended", || pair.sub.seen.sessions() == 0).await;
    assert!(
        stream.latest_keyframe(SUB).is_none(),
        "nobody begins with it"
    );
    let rate = pair.layers()[1].bitrate.expect("it is known");
    assert!(rate.bps() > 1_000, "{rate:?}");
    let mut viewer = reader(&stream, SUB);
    until("its frames", || has_units(&mut viewer)).await;
    assert_eq!(pair.sub.seen.requests("PLAY"), 2);
    assert_eq!(pair.main.seen.requests("PLAY"), 1, "it stays");
    assert_eq!(pair.absence(1), None);
    pair.running.stop().await;
    assert_eq!(
        (pair.main.seen.sessions(), pair.sub.seen.sessions()),
        (0, 0)
    );
}

#[tokio::test]
async fn one_stream_of_a_camera_fails_and_the_other_goes_on() {
    let pair = Pair::start("").await;
    pair.until_both_come().await;
    let stream = pair.stream();
    pair.sub.seen.is_out.store(true, Ordering::SeqCst);
    until("a reason", || {
        matches!(pair.absence(1), Some(LayerAbsence::Failed(_)))
    })
    .await;
    assert!(matches!(stream.state(), State::Live { .. }));
    assert_eq!(pair.base_side(), 64);
    pair.sub.seen.is_out.store(false, Ordering::SeqCst);
    until("the sub stream", || pair.absence(1).is_none()).await;
    let layout = stream.layout();
    let mut viewer = stream.subscribe(Arc::new(NoWake));
    pair.main.seen.is_out.store(true, Ordering::SeqCst);
    until("the sub stream in its place", || {
        pair.base_side() == 32
            && matches!(pair.absence(0), Some(LayerAbsence::Failed(_)))
            && stream.preferred(TrackIndex(0)) == SUB
    })
    .await;
    has_units(&mut viewer);
    until("frames", || has_units(&mut viewer)).await;
    pair.main.seen.is_out.store(false, Ordering::SeqCst);
    until("the main stream", || pair.base_side() == 64).await;
    assert_eq!(stream.preferred(TrackIndex(0)), MAIN);
    assert_eq!(stream.layout(), layout, "viewers stay");
    for seen in [&pair.main.seen, &pair.sub.seen] {
        seen.is_out.store(true, Ordering::SeqCst);
    }
    until("both reasons", || {
        let state = stream.state();
        let detail = state.detail().unwrap_or_default();
        detail.contains("main: ") && detail.contains("; sub: ")
    })
    .await;
    pair.running.stop().await;
}

#[tokio::test]
async fn a_camera_on_demand_leaves_the_main_stream_while_the_small_one_is_enough() {
    let pair = Pair::start("?idle_s=0.3").await;
    let stream = pair.stream();
    assert_eq!(stream.state(), State::Idle);
    let demand = stream.demand();
    pair.until_both_come().await;
    let mut small = reader(&stream, SUB);
    drop(demand);
    until("the main stream left", || {
        pair.absence(0) == Some(LayerAbsence::Paused)
    })
    .await;
    until("the small picture in the base layer", || {
        pair.base_side() == 32
    })
    .await;
    has_units(&mut small);
    until("its frames", || has_units(&mut small)).await;
    assert_eq!(stream.preferred(TrackIndex(0)), MAIN, "it would come");
    assert_eq!(
        stream.beginning(TrackIndex(0)),
        SUB,
        "a viewer begins at once"
    );
    let mut plain = stream.subscribe(Arc::new(NoWake));
    until("the main stream again", || pair.base_side() == 64).await;
    until("its frames", || has_units(&mut plain)).await;
    drop((small, plain));
    until("nobody", || stream.state() == State::Idle).await;
    let sessions = [&pair.main, &pair.sub].map(|it| it.seen.sessions());
    assert_eq!(sessions, [0, 0]);
    pair.running.stop().await;
}
