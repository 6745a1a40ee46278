//! The whole chain: compares the delay that stamps report with the delay of the audio.

use std::time::{Duration, Instant};

use glassline_sim::{Delays, Family};

use super::chirps::{self, LONG_S};
use super::{Call, mono};
use crate::{PlayoutStamps, SendStamps, SignalDelay, listener, opus, preprocess, speaker};

/// Length of a call; the devices' clocks and the buffer have settled after half of it.
const LONG: Duration = Duration::from_secs(30);
/// Time after which devices and echo canceller have settled, in seconds.
const SETTLED_S: f64 = 12.0;

/// Duration of every stage of a frame's way, in ms.
#[derive(Clone, Copy, Debug)]
struct Stages {
    stages: [(&'static str, f64); 11],
}

impl Stages {
    fn of(sent: &SendStamps, played: &PlayoutStamps) -> Self {
        let ms = |from: Instant, to: Instant| match to.checked_duration_since(from) {
            Some(later) => later.as_secs_f64() * 1e3,
            None => -from.duration_since(to).as_secs_f64() * 1e3,
        };
        let took = |it: Duration| it.as_secs_f64() * 1e3;
        let operations = played.decode + played.mix + played.resample;
        let signal = |of: fn(SignalDelay) -> Duration| took(of(sent.signal) + of(played.signal));
        let stages = [
            ("capture", ms(sent.captured, sent.delivered)),
            ("reframe", ms(sent.delivered, sent.framed)),
            (
                "preprocess",
                ms(sent.framed, sent.preprocessed) + signal(|it| it.preprocess),
            ),
            (
                "encode",
                ms(sent.preprocessed, sent.encoded) + signal(|it| it.encode),
            ),
            // The simulated path has no pacer and no socket.
            ("network", ms(sent.encoded, played.arrived)),
            ("open", ms(played.arrived, played.inserted)),
            ("jitter buffer", ms(played.inserted, played.pulled)),
            ("decode", took(played.decode)),
            ("mix", took(played.mix)),
            ("resample", took(played.resample) + signal(|it| it.resample)),
            (
                "playout",
                ms(played.pulled, played.played) - took(operations),
            ),
        ];
        Self { stages }
    }

    fn sum_ms(&self) -> f64 {
        self.stages.iter().map(|it| it.1).sum()
    }
}

/// Packets that were played, each with the stamps of its sending.
fn join(call: &Call) -> Vec<(SendStamps, PlayoutStamps)> {
    let mut played = call.playout_stamps.clone();
    played.sort_by_key(|it| it.timestamp);
    let sent = |it: &PlayoutStamps| {
        let place = call
            .send_stamps
            .binary_search_by_key(&it.timestamp, |it| it.timestamp);
        place.ok().map(|place| (call.send_stamps[place], *it))
    };
    played.iter().filter_map(sent).collect()
}

/// Sum of the stages of the packet that holds the audio of `captured_s`, in ms.
fn stamped_ms(call: &Call, joined: &[(SendStamps, PlayoutStamps)], captured_s: f64) -> Option<f64> {
    let said = call.start + Duration::from_secs_f64(captured_s);
    let after = joined.partition_point(|(sent, _)| sent.captured <= said + sent.signal.total());
    let (sent, played) = joined.get(after.checked_sub(1)?)?;
    let end = sent.captured + sent.duration;
    (said + sent.signal.total() < end).then(|| Stages::of(sent, played).sum_ms())
}

/// Median and 99th percentile.
fn quantiles(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.99))
}

fn usual(rate: (u32, u32), frame: opus::Frame) -> (speaker::Config, listener::Config) {
    let mut speaker = speaker::Config::new(mono(rate.0));
    speaker.opus.frame = frame;
    (speaker, listener::Config::new(mono(rate.1)))
}

/// Compares each chirp's delay with the sum of its frame's stages. Chirps count whose
/// correlation is at least `fit_min` and during which the delay does not change.
fn compare(call: &mut Call, name: &str, fit_min: f32) {
    call.source = Box::new(chirps::chirps);
    call.run(LONG);
    let joined = join(call);
    let found = chirps::recognized(call, 0.5, fit_min);
    let mut errors = Vec::new();
    // The microphone's clock and the echo canceller settle first.
    for chirp in found.iter().filter(|it| it.captured_s > SETTLED_S) {
        let stamped = |at_s| stamped_ms(call, &joined, at_s);
        let begin = stamped(chirp.captured_s - LONG_S / 2.0);
        let end = stamped(chirp.captured_s + LONG_S / 2.0);
        let (Some(begin), Some(stamped), Some(end)) = (begin, stamped(chirp.captured_s), end)
        else {
            continue;
        };
        // A chirp with audio inserted at its quiet edge is still found.
        if (end - begin).abs() < 0.1 {
            errors.push((chirp.delay_s * 1e3 - stamped, chirp.captured_s));
        }
    }
    assert!(
        errors.len() > 10,
        "{name}: {} of {}",
        errors.len(),
        found.len()
    );
    let worst = errors.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let worst = worst.expect("not empty");
    assert!(
        worst.0.abs() < 1.0,
        "{name}: {worst:?} (chirps of {LONG_S} s)"
    );
}

#[test]
fn stages_sum_to_what_is_measured() {
    for (name, rate, periods, ppm, frame) in [
        (
            "2.5 ms",
            (48_000, 48_000),
            (120, 120),
            (0.0, 0.0),
            opus::Frame::Ms10,
        ),
        (
            "odd periods",
            (48_000, 48_000),
            (512, 1_024),
            (0.0, 0.0),
            opus::Frame::Ms10,
        ),
        (
            "44.1 kHz",
            (44_100, 44_100),
            (441, 256),
            (80.0, -60.0),
            opus::Frame::Ms20,
        ),
        (
            "8 and 16 kHz",
            (16_000, 8_000),
            (160, 80),
            (0.0, 40.0),
            opus::Frame::Ms10,
        ),
        (
            "200 ms at once",
            (48_000, 48_000),
            (9_600, 480),
            (0.0, 0.0),
            opus::Frame::Ms20,
        ),
    ] {
        let (speaker, listener) = usual(rate, frame);
        let mut call = Call::new(speaker, listener, periods, ppm);
        compare(&mut call, name, 0.7);
    }
}

#[test]
fn stages_sum_to_what_is_measured_on_a_path_that_swings() {
    let (mut speaker, listener) = usual((48_000, 48_000), opus::Frame::Ms20);
    speaker.preprocess = preprocess::Config::OFF;
    let mut call = Call::new(speaker, listener, (120, 120), (150.0, -50.0));
    let delays = Delays::of_family(Family::Ar98, 3, 4_000, opus::Frame::Ms20.duration());
    call.path = Box::new(move |packet| delays.packets()[packet as usize].into_iter().collect());
    // A chirp with a part removed has no clear delay.
    compare(&mut call, "ar98", 0.95);
}

#[test]
fn a_clean_path_is_heard_in_35_ms() {
    let (speaker, listener) = usual((48_000, 48_000), opus::Frame::Ms10);
    let mut call = Call::new(speaker, listener, (120, 120), (0.0, 0.0));
    call.source = Box::new(chirps::chirps);
    call.run(LONG);
    let measured = chirps::recognized(&call, 0.2, 0.7);
    let measured: Vec<f64> = measured
        .iter()
        .skip(20)
        .map(|it| it.delay_s * 1e3)
        .collect();
    let (p50, p99) = quantiles(measured);
    assert!(p50 <= 35.0 && p99 <= 45.0, "{p50} {p99}");
}
