//! Ladders of a film with B-frames, on real threads.

use glassline_demux as demux;
use glassline_hub::{Ladder, LayersRead, Publisher, Subscription};
use glassline_media::{LayerAbsence, LayerIndex, Stamps, TrackIndex, TrackLayer, UnitBuilder};
use glassline_rtp::payload::Packetizer;
use glassline_runtime::Supervisor;
use glassline_transcode::Settings;

use super::*;
use crate::{Limits, TranscodingThreads};

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Time that a busy machine may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

const fn rung(layer: u8) -> TrackLayer {
    TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(layer),
    }
}

/// A film that is published without end.
struct Film {
    stream: Arc<Stream>,
    publisher: Publisher,
    source: demux::Demuxer,
    packetizer: Packetizer,
    start: Instant,
}

impl Film {
    fn open(hub: &Hub, name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples");
        let path = format!("{folder}/b-frames.h264");
        let source = demux::open(&[path.into()], &demux::Options::default()).expect("a sample");
        let stream = hub
            .create(StreamName::parse(name).expect("good"))
            .expect("room");
        let tracks = source.tracks().to_vec();
        let packetizer = Packetizer::new(&tracks[0]);
        let start = Instant::now();
        Self {
            publisher: stream.publish(tracks, start).expect("free"),
            stream,
            source,
            packetizer,
            start,
        }
    }

    /// Publishes the frames that are due.
    fn play(&mut self, next: &mut Option<demux::Frame>) {
        loop {
            let frame = match next.take() {
                Some(frame) => frame,
                None => self.source.next_frame().expect("good").expect("no end"),
            };
            let due =
                self.start + Duration::from_nanos(frame.decode_time.nanos().max(0).unsigned_abs());
            if due > Instant::now() {
                *next = Some(frame);
                return;
            }
            let mut builder = UnitBuilder::default();
            self.packetizer
                .packetize(&frame.data, &mut builder)
                .expect("packets");
            let stamps = Stamps::arrived(Instant::now());
            let unit = builder.build(TrackIndex(0), frame.time, frame.keyframe, stamps);
            let unit = unit.expect("has a packet");
            self.publisher
                .push(unit, Instant::now())
                .expect("announced");
        }
    }

    fn rungs(&self) -> Vec<Option<LayerAbsence>> {
        let tracks = self.stream.tracks();
        let rungs = tracks[0].layers.iter().skip(1);
        rungs.map(|it| it.absence.clone()).collect()
    }

    fn read(&self, layers: &[TrackLayer]) -> Subscription {
        let mut subscription = self.stream.subscribe(Arc::new(NoWake));
        subscription.read(layers);
        subscription
    }
}

/// A hub whose ladders are kept, and films that play until `done` says so.
struct Scene {
    hub: Arc<Hub>,
    transcoders: Arc<Transcoders>,
    threads: TranscodingThreads,
    _supervisor: Arc<Supervisor>,
    _stop: watch::Sender<bool>,
}

impl Scene {
    fn start(video: usize) -> Self {
        let supervisor = Supervisor::start().expect("a thread");
        let limits = Limits { audio: 0, video };
        let started = TranscodingThreads::start(limits, Settings::default(), &supervisor);
        let (transcoders, threads) = started.expect("threads");
        let hub = Arc::new(Hub::default());
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(keep_ladders(
            Arc::clone(&hub),
            Arc::clone(&transcoders),
            stopped,
        ));
        Self {
            hub,
            transcoders,
            threads,
            _supervisor: supervisor,
            _stop: stop,
        }
    }

    async fn until(&self, films: &mut [Film], what: &str, mut done: impl FnMut(&[Film]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut next: Vec<_> = films.iter().map(|_| None).collect();
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !done(films) {
            assert!(Instant::now() < deadline, "{what}");
            for (film, next) in films.iter_mut().zip(&mut next) {
                film.play(next);
            }
            tick.tick().await;
        }
    }

    fn encoded(&self) -> Vec<(String, Vec<String>)> {
        let views = self.transcoders.views(Instant::now());
        let encoded = views.into_iter().map(|it| (it.stream, it.layers));
        encoded.collect()
    }
}

fn ladder(text: &str) -> Ladder {
    Ladder::parse(text).expect("a ladder")
}

#[tokio::test]
async fn a_rung_is_encoded_from_the_first_who_reads_it_until_some_time_after_the_last() {
    let scene = Scene::start(1);
    scene.hub.set_ladder(ladder("80p,48p"));
    let mut films = [Film::open(&scene.hub, "film")];
    let paused = Some(LayerAbsence::Paused);
    assert_eq!(films[0].rungs(), [paused.clone(), paused.clone()]);
    let top = films[0].read(&[rung(1)]);
    let mut played = 0;
    scene
        .until(&mut films, "a second is played", |films| {
            played = films[0].stream.totals().units;
            played > 25
        })
        .await;
    assert!(scene.encoded().is_empty(), "nobody needs a lower layer");
    assert_eq!(scene.transcoders.counters.started.get(), 0);
    drop(top);
    let mut low = films[0].read(&[rung(3)]);
    let mut units = Vec::new();
    scene
        .until(&mut films, "the rung is read", |_| {
            low.poll(&mut units);
            units.len() >= 10
        })
        .await;
    assert!(units[0].keyframe);
    assert!(
        units.windows(2).all(|pair| pair[0].time < pair[1].time),
        "no B-frames"
    );
    assert_eq!(
        scene.encoded(),
        [("film".to_owned(), vec!["48p".to_owned()])]
    );
    assert_eq!(films[0].rungs(), [paused.clone(), None]);
    let view = &scene.transcoders.views(Instant::now())[0];
    assert!(view.cpu_s > 0.0 && view.frames_out >= 10);
    let left = Instant::now();
    drop(low);
    scene
        .until(&mut films, "the work ends", |_| scene.encoded().is_empty())
        .await;
    // The last look that saw it read was up to a tick before.
    assert!(left.elapsed() + TICK >= UNREAD);
    scene
        .until(&mut films, "the rung is paused", |films| {
            films[0].rungs() == [paused.clone(), paused.clone()]
        })
        .await;
    scene.threads.stop();
}

#[tokio::test]
async fn ladders_beyond_the_bound_say_why_they_do_not_come_until_there_is_room() {
    let scene = Scene::start(1);
    scene.hub.set_ladder(ladder("48p"));
    let mut films = ["one", "two"].map(|it| Film::open(&scene.hub, it));
    let first = films[0].read(&[rung(2)]);
    scene
        .until(&mut films, "the first is encoded", |films| {
            films[0].rungs() == [None]
        })
        .await;
    let _second = films[1].read(&[rung(2)]);
    let why = |films: &[Film]| match &films[1].rungs()[..] {
        [Some(LayerAbsence::Failed(why))] => Some(why.clone()),
        _ => None,
    };
    scene
        .until(&mut films, "the second is refused", |films| {
            why(films).is_some()
        })
        .await;
    let refused = why(&films).expect("refused");
    assert!(
        refused.contains("transcoding.video_streams allows (1)"),
        "{refused}"
    );
    drop(first);
    scene
        .until(&mut films, "there is room", |films| {
            films[1].rungs() == [None]
        })
        .await;
    scene.threads.stop();
}

#[tokio::test]
async fn another_ladder_takes_effect_while_it_is_read() {
    let scene = Scene::start(1);
    scene.hub.set_ladder(ladder("80p,48p"));
    let mut films = [Film::open(&scene.hub, "film")];
    let _low = films[0].read(&[rung(2)]);
    let encoded = |scene: &Scene, names: &[&str]| {
        let encoded = scene.encoded();
        encoded.len() == 1 && encoded[0].1 == names
    };
    scene
        .until(&mut films, "the old one", |_| encoded(&scene, &["80p"]))
        .await;
    scene.hub.set_ladder(ladder("48p"));
    scene
        .until(&mut films, "the new one", |films| {
            encoded(&scene, &["48p"]) && films[0].rungs() == [None]
        })
        .await;
    scene.hub.set_ladder(Ladder::OFF);
    scene
        .until(&mut films, "none", |films| {
            films[0].rungs().is_empty() && scene.encoded().is_empty()
        })
        .await;
    let read = films[0].stream.layers_read(TrackIndex(0));
    assert_ne!(read, LayersRead::default(), "somebody still reads");
    scene.threads.stop();
}

#[tokio::test]
async fn video_that_nothing_decodes_says_so() {
    let scene = Scene::start(1);
    scene.hub.set_ladder(ladder("360p"));
    let stream = scene
        .hub
        .create(StreamName::parse("vp9").expect("good"))
        .expect("room");
    let mut track = glassline_media::Track::new(glassline_media::Codec::Vp9);
    (track.video.width, track.video.height) = (1280, 720);
    let _publisher = stream.publish(vec![track], Instant::now()).expect("free");
    let deadline = Instant::now() + PATIENCE;
    let why = loop {
        if let Some(LayerAbsence::Failed(why)) = &stream.tracks()[0].layers[1].absence {
            break why.clone();
        }
        assert!(Instant::now() < deadline, "it is told");
        tokio::task::yield_now().await;
    };
    assert!(why.contains("no decoder for VP9"), "{why}");
    scene.threads.stop();
}
