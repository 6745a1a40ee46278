//! Random commands to one reading in virtual time: whatever a client asks for, in any order, its
//! stream remains one valid stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, StreamName, Wake};
use glassline_media::{Kind, MediaTime, MediaUnit, TrackIndex};
use proptest::prelude::*;

use super::control::{Control, PlayCommand};
use super::indexed_file::IndexedFile;
use super::play::Play;
use super::reading::{Audience, Next, Reading};

static VIDEO: &[u8] = include_bytes!("../../../../assets/demo.h264");
static AUDIO: &[u8] = include_bytes!("../../../../assets/demo.ogg");

#[derive(Clone, Debug)]
enum Step {
    /// Lets time pass, in ms.
    Pass(u64),
    Play(Play),
    Pause,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scale = prop::sample::select(vec![1.0, 1.0, 1.0, 0.5, 4.0, -4.0, 1e9, f64::NAN]);
    let place = || prop::option::of((0u64..11_000).prop_map(Duration::from_millis));
    let speed = prop::sample::select(vec![1.0, 1.0, 2.0, 0.5, 0.0]);
    let play = (place(), place(), scale, speed, any::<bool>());
    let play = play.prop_map(|(from, until, scale, speed, once)| Play {
        from,
        until,
        scale,
        speed,
        keyframes: None,
        once,
    });
    let step = prop_oneof![
        4 => (1u64..2_000).prop_map(Step::Pass),
        2 => play.prop_map(Step::Play),
        1 => Just(Step::Pause),
    ];
    prop::collection::vec(step, 1..25)
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

struct Scene {
    control: Arc<Control>,
    reading: Reading,
    stream: Arc<Stream>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let source = glassline_demux::from_bytes(VIDEO, AUDIO).expect("the clip is whole");
        let file = Arc::new(IndexedFile::new("clip".to_owned(), source));
        let name = StreamName::parse("clip").expect("a good name");
        let stream = Stream::unlisted(name, glassline_hub::Limits::default());
        let control = Arc::new(Control::new());
        let (for_reading, of_reading) = (Arc::clone(&stream), Arc::clone(&control));
        Self {
            reading: Reading::new(file, for_reading, of_reading, Audience::One),
            control,
            stream,
            now: Instant::now(),
        }
    }

    /// Advances the reading whenever it asks for that, until `time` has passed.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.reading.advance(self.now);
            self.reading.read_ahead();
            match next {
                Next::At(at) if at <= end => self.now = self.now.max(at),
                Next::At(_) | Next::Idle | Next::Gone => break,
            }
        }
        self.now = end;
    }
}

/// Checks each track: numbers rise by one, packets have no gaps, times of audio never go back, and
/// nothing is sent before it is due unless that was asked for.
fn is_one_stream(media_units: &[Arc<MediaUnit>], stream: &Stream) -> Result<(), TestCaseError> {
    for (track, of_track) in TrackIndex::enumerate(stream.tracks().iter()) {
        let of = media_units
            .iter()
            .filter(|media_unit| media_unit.track == track);
        let (mut index, mut packet, mut time) = (0, 0, MediaTime::from_nanos(i64::MIN));
        for media_unit in of {
            prop_assert_eq!((media_unit.index, media_unit.first_packet), (index, packet));
            prop_assert!(media_unit.time >= time, "{:?} goes back", of_track.codec);
            index += 1;
            packet += media_unit.packet_count() as u64;
            time = media_unit.time;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_for_the_stream_stays_one(steps in steps()) {
        let mut scene = Scene::new();
        let mut subscription = scene.stream.subscribe(Arc::new(NoWake));
        let mut media_units = Vec::new();
        for step in steps {
            let before = media_units.len();
            match step {
                Step::Pass(ms) => {
                    // The client reads often enough that the ring keeps everything.
                    for _ in 0..ms.div_ceil(100) {
                        scene.pass(Duration::from_millis(100));
                        subscription.poll(&mut media_units);
                    }
                    continue;
                }
                Step::Pause => {
                    scene.control.command(PlayCommand::Pause);
                    scene.pass(Duration::from_secs(1));
                    subscription.poll(&mut media_units);
                    prop_assert_eq!(media_units.len(), before, "it holds");
                }
                Step::Play(play) => {
                    let numbers: Vec<u64> = TrackIndex::first(scene.stream.tracks().len()).map(|track| {
                        let of = media_units.iter().rfind(|media_unit: &&Arc<MediaUnit>| media_unit.track == track);
                        of.map_or(0, |media_unit| media_unit.first_packet + media_unit.packet_count() as u64)
                    }).collect();
                    scene.control.command(PlayCommand::Play(play));
                    scene.pass(Duration::ZERO);
                    subscription.poll(&mut media_units);
                    let started = scene.control.started();
                    let started = started.expect("it begins at once").expect("the clip is whole");
                    prop_assert_eq!(&started.first_packets, &numbers);
                    prop_assert!(started.from <= Duration::from_secs(11));
                    let only_video = (started.scale - 1.0).abs() > 1e-9;
                    let new = &media_units[before..];
                    let tracks = scene.stream.tracks();
                    prop_assert!(!only_video || new.iter().all(|it| tracks[it.track].kind() == Kind::Video));
                }
            }
        }
        prop_assert_eq!(subscription.missed(), 0);
        is_one_stream(&media_units, &scene.stream)?;
    }
}

#[test]
fn a_looped_walk_over_keyframes_goes_around_both_ends() {
    for scale in [16.0, -16.0] {
        let mut scene = Scene::new();
        let mut subscription = scene.stream.subscribe(Arc::new(NoWake));
        scene.control.command(PlayCommand::Play(Play {
            from: Some(Duration::from_secs(5)),
            scale,
            once: false,
            ..Play::default()
        }));
        let mut media_units = Vec::new();
        for _ in 0..30 {
            scene.pass(Duration::from_millis(100));
            subscription.poll(&mut media_units);
        }
        // Three seconds at scale 16 are 48 s of the file, with a keyframe each 0.1 s at most.
        assert!(
            (15..=31).contains(&media_units.len()),
            "{} at {scale}",
            media_units.len()
        );
        assert!(media_units.iter().all(|media_unit| media_unit.keyframe));
        let span = media_units
            .last()
            .map(|media_unit| media_unit.time.saturating_since(media_units[0].time));
        assert!(
            span.is_some_and(|span| span > Duration::from_millis(2_700)),
            "{span:?}"
        );
    }
}

#[test]
fn going_on_behind_the_last_frame_is_answered_at_once() {
    let mut scene = Scene::new();
    // From the beginning, backwards: one picture, which stands for a while.
    for _ in 0..2 {
        scene.control.command(PlayCommand::Play(Play {
            scale: -4.0,
            once: true,
            ..Play::default()
        }));
        scene.pass(Duration::ZERO);
        assert!(matches!(scene.control.started(), Some(Ok(_))));
    }
}

#[test]
fn an_end_that_was_asked_for_is_kept() {
    let mut scene = Scene::new();
    let mut subscription = scene.stream.subscribe(Arc::new(NoWake));
    scene.control.command(PlayCommand::Play(Play {
        from: Some(Duration::ZERO),
        until: Some(Duration::from_secs(1)),
        ..Play::default()
    }));
    let mut media_units = Vec::new();
    for _ in 0..12 {
        scene.pass(Duration::from_millis(100));
        subscription.poll(&mut media_units);
    }
    assert_eq!(
        media_units
            .iter()
            .filter(|media_unit| media_unit.track == TrackIndex(0))
            .count(),
        30
    );
    assert_eq!(scene.stream.state().as_str(), "ended");
}

#[test]
fn a_reading_that_was_not_asked_for_a_while_goes_on_from_there() {
    let mut scene = Scene::new();
    scene.control.command(PlayCommand::Play(Play::default()));
    scene.pass(Duration::from_secs(1));
    let before = scene.stream.totals().units;
    // The machine is suspended for a minute.
    scene.now += Duration::from_secs(60);
    scene.pass(Duration::from_millis(100));
    let came = scene.stream.totals().units - before;
    assert!(came < 30, "{came} units at once");
}
