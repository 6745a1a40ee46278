use glassline_hub::{Limits, Publisher, StreamName, Subscription};
use glassline_media::{Codec, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder};
use glassline_runtime::{BlockingPool, TaskWaker};

use super::*;
use crate::PlaceholderKind;

/// A keyframe of VP8: header, 64 by 64.
const KEYFRAME: [u8; 10] = [0x10, 2, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0];

/// Silence after which something stands in for a source that is there.
const SILENCE: Duration = Duration::from_millis(100);

struct Scene {
    hub: Arc<Hub>,
    stop: watch::Sender<bool>,
    stream: Arc<Stream>,
    task: tokio::task::JoinHandle<()>,
}

impl Scene {
    /// Runs what stands in for the stream `cam` as soon as its source is away.
    fn start(fallback: Option<&str>) -> Self {
        let name = |name: &str| StreamName::parse(name).expect("a name");
        let hub = Arc::new(Hub::new(Limits::default()));
        let stream = hub.create(name("cam")).expect("room");
        let away = Away {
            fallback: fallback.map(name),
            placeholder: Some(PlaceholderKind::LastKeyframe),
            after: Duration::from_millis(1),
            silence: SILENCE,
        };
        let away = AwayContent::load(away).expect("no image");
        let services = Services {
            hub: Arc::clone(&hub),
            supervisor: Supervisor::start().expect("a thread"),
            encoders: BlockingPool::new(1),
        };
        let (stop, stopped) = watch::channel(false);
        let running = run(Arc::clone(&stream), away, services, stopped);
        let task = tokio::spawn(running);
        Self {
            hub,
            stop,
            stream,
            task,
        }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.expect("no panic");
    }
}

fn publish(stream: &Arc<Stream>, codec: Codec) -> Publisher {
    let now = Instant::now();
    let mut publisher = stream.publish(vec![Track::new(codec)], now).expect("free");
    push(&mut publisher, now);
    publisher
}

/// Publishes a keyframe.
fn push(publisher: &mut Publisher, now: Instant) {
    let mut builder = UnitBuilder::default();
    builder.push(&KEYFRAME);
    let stamps = Stamps::arrived(now);
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
    publisher
        .push(unit.expect("a packet"), now)
        .expect("track 0");
}

/// Reads units until `count` have come.
async fn units(
    subscription: &mut Subscription,
    arrival: &TaskWaker,
    count: usize,
) -> Vec<Arc<MediaUnit>> {
    let mut units = Vec::new();
    let reading = async {
        while units.len() < count {
            arrival.woken().await;
            subscription.poll(&mut units);
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    read.expect("units come");
    units
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_keyframe_that_cannot_be_encoded_is_repeated_while_somebody_watches() {
    let scene = Scene::start(None);
    drop(publish(&scene.stream, Codec::Vp8));
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!scene.stream.is_published(), "nobody watches");
    }
    let arrival = Arc::new(TaskWaker::default());
    let mut subscription = scene.stream.subscribe(Arc::clone(&arrival) as _);
    let shown = units(&mut subscription, &arrival, 2).await;
    for unit in &shown {
        let frame = unit.coded_frame().expect("a frame").to_vec();
        assert_eq!((frame.as_slice(), unit.keyframe), (&KEYFRAME[..], true));
    }
    assert!(shown[0].time < shown[1].time);
    assert_eq!(scene.stream.standing_in().as_deref(), Some("placeholder"));
    drop(subscription);
    until("nobody watches", || !scene.stream.is_published()).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_fallback_of_another_codec_begins_a_layout_and_so_does_the_source() {
    let scene = Scene::start(Some("spare"));
    drop(publish(&scene.stream, Codec::Vp8));
    let spare = StreamName::parse("spare").expect("a name");
    let spare = scene.hub.admit(spare).expect("room");
    let mut other = publish(&spare, Codec::Jpeg);
    let before = scene.stream.layout();
    let arrival = Arc::new(TaskWaker::default());
    let mut subscription = scene.stream.subscribe(Arc::clone(&arrival) as _);
    let codec = || scene.stream.tracks()[0].codec;
    until("the fallback", || codec() == Codec::Jpeg).await;
    push(&mut other, Instant::now());
    units(&mut subscription, &arrival, 1).await;
    assert!(scene.stream.layout() > before);
    assert!(spare.is_demanded());
    // Without its fallback, the stream shows what was there last.
    other.finish(State::Idle);
    until("the placeholder", || {
        scene.stream.standing_in().as_deref() == Some("placeholder")
    })
    .await;
    assert_eq!(codec(), Codec::Vp8);
    let source = publish(&scene.stream, Codec::Vp8);
    assert_eq!((codec(), scene.stream.standing_in()), (Codec::Vp8, None));
    until("the fallback is left", || !spare.is_demanded()).await;
    drop((source, subscription));
    scene.stop().await;
}

#[tokio::test]
async fn a_source_that_hangs_is_replaced_for_viewers_until_its_next_keyframe() {
    let scene = Scene::start(None);
    let mut source = publish(&scene.stream, Codec::Vp8);
    tokio::time::sleep(SILENCE * 2).await;
    assert_eq!(scene.stream.standing_in(), None, "nobody watches");
    let arrival = Arc::new(TaskWaker::default());
    let mut subscription = scene.stream.subscribe(Arc::clone(&arrival) as _);
    units(&mut subscription, &arrival, 1).await;
    assert_eq!(scene.stream.standing_in().as_deref(), Some("placeholder"));
    assert!(matches!(scene.stream.state(), State::Live { .. }));
    let layout = scene.stream.layout();
    push(&mut source, Instant::now());
    assert_eq!(scene.stream.standing_in(), None, "its keyframe");
    // The source hangs once more, and leaves meanwhile.
    until("it is away again", || scene.stream.standing_in().is_some()).await;
    source.finish(State::Idle);
    assert!(scene.stream.is_published(), "the placeholder goes on");
    assert_eq!(scene.stream.layout(), layout);
    drop(subscription);
    until("nobody watches", || !scene.stream.is_published()).await;
    scene.stop().await;
}
