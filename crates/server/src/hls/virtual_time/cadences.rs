//! Frames at every distance, in bursts, late, and at changing rates.

use glassline_sim::Rng;

use super::*;

/// Length of each case.
const SPAN: Duration = Duration::from_secs(16);

/// When the first request comes.
const ASKED: Duration = Duration::from_millis(3300);

/// Returns the distance of frames of so many a second.
fn of_rate(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate)
}

/// Has the frames written from the time of the first request on. Returns the scene at the end.
fn written(tracks: Vec<Track>, frames: &[Sent], asked: Duration) -> Scene {
    let mut scene = Scene::new();
    let mut publisher = scene.publish(tracks);
    let (before, behind): (Vec<_>, Vec<_>) =
        frames.iter().cloned().partition(|it| it.arrives <= asked);
    scene.play(&mut publisher, &before);
    scene.pass_until(asked);
    scene.watch();
    scene.play(&mut publisher, &behind);
    scene
}

#[tokio::test]
async fn frames_at_any_distance_make_parts_that_are_long_enough() {
    for rate in [
        5.0, 7.0, 10.0, 12.5, 15.0, 23.976, 25.0, 29.97, 50.0, 60.0, 120.0,
    ] {
        let frames = camera(steady(of_rate(rate), ms(0), SPAN), ms(2000));
        let mut scene = written(camera_tracks(), &frames, ASKED);
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{rate} a second: {errors:#?}");
        let video = scene.playlist("video0");
        let target = video.part_target.expect("it has parts");
        let is_near = target >= ms(200) && target <= ms(330);
        assert!(is_near, "{rate} a second: {target:?}");
        // Behind those of the beginning, only keyframes begin segments.
        let segments = video.segments.iter().skip(2);
        let mut short = segments.filter(|it| it.duration < ms(1500));
        assert!(short.next().is_none(), "{rate} a second: {video:#?}");
    }
}

#[tokio::test]
async fn packets_of_audio_of_any_length_make_parts_that_are_long_enough() {
    // Opus says in its first byte how long a packet is (RFC 6716 §3.1).
    for (packet, toc) in [
        (ms(10), 0x90),
        (ms(20), 0x98),
        (ms(40), 0x10),
        (ms(60), 0x18),
    ] {
        let times = steady(packet, ms(0), SPAN);
        let frames = times.map(|time| Sent {
            track: 0,
            data: vec![toc; 10],
            ..Sent::audio(time)
        });
        let frames: Vec<_> = frames.collect();
        let tracks = vec![Track::audio(Codec::Opus, 2)];
        let mut scene = written(tracks, &frames, ASKED);
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{packet:?}: {errors:#?}");
    }
}

/// Returns the arrival of a frame that is due at `time`.
type Delay = Box<dyn FnMut(Duration) -> Duration>;

/// Returns ways to arrive, each with what it is.
fn delays(seed: u64) -> Vec<(&'static str, Delay)> {
    let mut rng = Rng::new(seed);
    let late = ms(rng.below(4000));
    let burst = ms(100 + rng.below(1400));
    let (mut next, mut random) = (Duration::ZERO, rng.fork(1));
    let all: [(&str, Delay); 5] = [
        ("all frames are late", Box::new(move |time| time + late)),
        (
            "frames come in bursts of one length",
            Box::new(move |time| burst * (time.div_duration_f64(burst) as u32 + 1)),
        ),
        (
            "frames come in bursts of any length",
            Box::new(move |time| {
                if time > next {
                    next = time + ms(random.below(1200));
                }
                next.max(time)
            }),
        ),
        (
            "frames come slowly at first",
            Box::new(|time| time + (ms(8000).saturating_sub(time)) / 2),
        ),
        (
            "frames come ever later, and catch up",
            Box::new(|time| match time {
                it if it < ms(8000) => it + it / 2,
                it => it.max(ms(12_000)),
            }),
        ),
    ];
    all.into()
}

#[tokio::test]
async fn the_promises_follow_the_times_of_frames_and_not_their_arrival() {
    for seed in 0..3 {
        for rate in [5.0, 10.0, 25.0, 30.0] {
            for (source, mut delay) in delays(seed) {
                let mut frames = camera(steady(of_rate(rate), ms(0), SPAN), ms(2000));
                for frame in &mut frames {
                    frame.arrives = delay(frame.time);
                }
                let mut scene = written(camera_tracks(), &frames, ASKED);
                let errors = scene.errors(OF_SOURCE);
                let case = format!("{source}, {rate} a second, seed {seed}");
                assert!(errors.is_empty(), "{case}: {errors:#?}");
                let video = if rate == 25.0 { ms(260) } else { ms(216) };
                for (name, expected) in [("video0", video), ("audio0", ms(216))] {
                    let target = scene.playlist(name).part_target;
                    assert_eq!(target, Some(expected), "{case}: {name}");
                }
            }
        }
    }
}

/// Returns the times of a source that changes its rate every four seconds.
fn changing(rates: &[f64]) -> Vec<Duration> {
    let (mut time, mut times) = (Duration::ZERO, Vec::new());
    for (place, rate) in rates.iter().enumerate() {
        let end = ms(4000) * (place as u32 + 1);
        while time < end {
            times.push(time);
            time += of_rate(*rate);
        }
    }
    times
}

#[tokio::test]
async fn a_source_that_changes_its_rate_keeps_its_promises() {
    let mut cases: Vec<Vec<f64>> = vec![
        vec![30.0, 10.0, 30.0],
        vec![25.0, 12.5, 25.0],
        vec![30.0, 7.0, 30.0],
        vec![60.0, 24.0, 5.0, 60.0],
        vec![10.0, 60.0, 10.0],
    ];
    let mut rng = Rng::new(7);
    for _ in 0..12 {
        let rates = (0..4).map(|_| 5.0 + 60.0 * rng.unit());
        cases.push(rates.collect());
    }
    for rates in &cases {
        let mut scene = written(
            camera_tracks(),
            &camera(changing(rates), ms(2000)),
            ms(2500),
        );
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{rates:?}: {errors:#?}");
    }
    // Frames that stand for longer than parts may are late by themselves.
    let rates = [30.0, 2.0, 1.0, 30.0];
    let mut scene = written(
        camera_tracks(),
        &camera(changing(&rates), ms(2000)),
        ms(2500),
    );
    let errors = scene.errors(OF_SOURCE);
    assert!(errors.is_empty(), "{rates:?}: {errors:#?}");
}

#[tokio::test]
async fn a_camera_that_halves_its_rate_keeps_its_segments() {
    for rate in [60.0, 50.0, 30.0, 29.97, 25.0, 24.0] {
        let frames = camera(changing(&[rate, rate / 2.0, rate / 2.0, rate]), ms(2000));
        let mut scene = written(camera_tracks(), &frames, ms(2500));
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{rate}: {errors:#?}");
        let segments = scene.playlist("video0").segments.iter().skip(2);
        let short: Vec<_> = segments.filter(|it| it.duration < ms(1500)).collect();
        // Where the rate changes, a part may come out too short, which ends its segment.
        assert!(short.len() <= 2, "{rate}: {short:#?}");
    }
}

#[tokio::test]
async fn uneven_frames_make_playlists_that_keep_the_rules() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut time = Duration::ZERO;
        // A shared screen, whose frames come when something changes.
        let screen = std::iter::from_fn(|| {
            let gap = match rng.chance(0.1) {
                true => ms(rng.below(1900)),
                false => ms(33),
            };
            time += gap;
            (time < SPAN).then_some(time)
        });
        let screen: Vec<_> = screen.collect();
        // A camera with uneven timestamps, of which frames are lost.
        let uneven = steady(ms(40), ms(20), SPAN).map(|it| it + ms(rng.below(16)));
        let uneven: Vec<_> = uneven.collect();
        let uneven: Vec<_> = uneven.into_iter().filter(|_| !rng.chance(0.05)).collect();
        for times in [screen, uneven] {
            let mut scene = written(camera_tracks(), &camera(times, ms(2000)), ASKED);
            let errors = scene.errors(OF_SOURCE);
            assert!(errors.is_empty(), "seed {seed}: {errors:#?}");
        }
    }
}
