//! Sound quality of stretching and concealment.

use super::*;
use crate::playout_buffer::PlayoutBuffer;
use crate::stretch::{self, Limits};

/// Share of the power of `audio` that is not the tone of `hz`, 0 to 1: what remains after the
/// best fitting sine is removed.
fn impurity(audio: &[f32], hz: f64, rate: u32) -> f64 {
    let turn = std::f64::consts::TAU * hz / f64::from(rate);
    let (mut ss, mut cc, mut sc, mut xs, mut xc, mut power) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (frame, sample) in audio.iter().enumerate() {
        let (sin, cos) = (turn * frame as f64).sin_cos();
        let sample = f64::from(*sample);
        ss += sin * sin;
        cc += cos * cos;
        sc += sin * cos;
        xs += sample * sin;
        xc += sample * cos;
        power += sample * sample;
    }
    let determinant = (ss * cc - sc * sc).max(1e-12);
    let a = (xs * cc - xc * sc) / determinant;
    let b = (xc * ss - xs * sc) / determinant;
    ((power - a * xs - b * xc) / power.max(1e-12)).max(0.0)
}

/// Largest difference between neighboring samples.
fn steepest(audio: &[f32]) -> f32 {
    audio
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .fold(0.0, f32::max)
}

fn sine(hz: f64, rate: u32, channels: usize, frames: usize) -> Vec<f32> {
    let turn = std::f64::consts::TAU * hz / f64::from(rate);
    let samples = (0..frames * channels).map(|index| {
        let (frame, channel) = (index / channels, index % channels);
        // The other channel is softer.
        let level = TONE_LEVEL / (1 + channel) as f64;
        (level * (turn * frame as f64).sin()) as f32
    });
    samples.collect()
}

#[test]
fn a_sine_stays_a_sine_when_it_is_stretched() {
    for (rate, channels) in [
        (8_000, 1),
        (16_000, 1),
        (16_000, 2),
        (48_000, 1),
        (48_000, 2),
    ] {
        let format = Format::new(rate, channels).expect("voice");
        for hz in [80.0, 123.4, 220.0, 391.0] {
            for shortens in [true, false] {
                let mut playout_buffer = PlayoutBuffer::new(format);
                playout_buffer.append(&sine(hz, rate, channels, format.frames(140.0)));
                playout_buffer.play(&mut vec![0.0; format.frames(60.0) * channels], |_| ());
                let before = playout_buffer.waiting();
                let limits = Limits {
                    frames_max: format.frames(15.0),
                    fit_min: 0.9,
                    is_silence: false,
                };
                let (changed, after) = match shortens {
                    true => (stretch::shorten(&mut playout_buffer, limits), before),
                    false => (stretch::lengthen(&mut playout_buffer, limits), before),
                };
                let what = format!("{hz} Hz at {rate} x {channels}, shortens: {shortens}");
                assert!(changed >= format.frames(2.0), "{what}: {changed}");
                let now = match shortens {
                    true => after - changed,
                    false => after + changed,
                };
                assert_eq!(playout_buffer.waiting(), now, "{what}");
                let samples = playout_buffer.span(-(format.frames(20.0) as isize), now as isize);
                let left: Vec<f32> = samples.iter().step_by(channels).copied().collect();
                let impure = impurity(&left, hz, rate);
                assert!(impure < 0.02, "{what}: {impure}");
                let slope = std::f64::consts::TAU * hz / f64::from(rate) * TONE_LEVEL;
                let step = f64::from(steepest(&left));
                assert!(
                    step < 1.25 * slope,
                    "{what}: {step} where {slope} is the tone's"
                );
            }
        }
    }
}

#[test]
fn noise_is_left_alone_unless_it_is_background() {
    let format = Format::new(16_000, 1).expect("voice");
    let mut rng = Rng::new(1);
    let noise: Vec<f32> = (0..format.frames(120.0))
        .map(|_| (rng.unit() - 0.5) as f32)
        .collect();
    let mut playout_buffer = PlayoutBuffer::new(format);
    playout_buffer.append(&noise);
    playout_buffer.play(&mut vec![0.0; format.frames(60.0)], |_| ());
    let mut limits = Limits {
        frames_max: format.frames(15.0),
        fit_min: 0.9,
        is_silence: false,
    };
    assert_eq!(stretch::shorten(&mut playout_buffer, limits), 0);
    assert_eq!(stretch::lengthen(&mut playout_buffer, limits), 0);
    limits.is_silence = true;
    assert_eq!(
        stretch::shorten(&mut playout_buffer, limits),
        format.frames(15.0)
    );
    assert_eq!(
        stretch::lengthen(&mut playout_buffer, limits),
        format.frames(15.0)
    );
}

/// Every 20 ms of a minute, stretched as the path wants it: a click is broadband, so
/// it would not fit the sine.
#[test]
fn a_tone_over_a_rough_path_has_no_clicks() {
    let delays = Delays::of_family(Family::Ar98, 17, 3_100, PACKET);
    let mut call = Call::new(move |packet| delays.packets()[packet as usize % 3_100]);
    call.run(millis(1_000));
    call.is_recording = true;
    call.run(millis(60_000));
    let report = call.report();
    assert!(report.stretched_ratio() > 0.01, "{report:?}");
    let slope = (std::f64::consts::TAU * TONE_HZ / f64::from(RATE) * TONE_LEVEL) as f32;
    let step = steepest(&call.heard);
    assert!(step < 1.5 * slope, "{step} where {slope} is the tone's");
    let windows = call.heard.chunks_exact(160);
    let all = windows.len();
    let impure = windows
        .filter(|it| impurity(it, TONE_HZ, RATE) > 0.05)
        .count();
    assert!(impure * 50 < all, "{impure} of {all}");
}

#[test]
fn losses_are_bridged_without_clicks_and_long_ones_fade_to_silence() {
    let mut call = Call::new(|packet| (packet % 50 != 30).then_some(millis(20)));
    call.run(millis(1_000));
    call.is_recording = true;
    call.run(millis(30_000));
    let slope = (std::f64::consts::TAU * TONE_HZ / f64::from(RATE) * TONE_LEVEL) as f32;
    let step = steepest(&call.heard);
    assert!(step < 1.6 * slope, "{step} where {slope} is the tone's");
    call.path = Box::new(|_| None);
    call.run(millis(200));
    call.heard.clear();
    call.run(millis(500));
    assert!(call.heard.iter().all(|sample| *sample == 0.0));
}

#[test]
fn what_is_no_number_is_never_heard() {
    #[derive(Debug)]
    struct Broken;
    impl Decoder for Broken {
        fn format(&self) -> Format {
            mono()
        }
        fn frames(&self, _: &[u8]) -> Option<usize> {
            Some(160)
        }
        fn decode(&mut self, _: &[u8], out: &mut Vec<f32>) -> Result<(), crate::Undecodable> {
            for frame in 0..160 {
                out.push([f32::NAN, f32::INFINITY, -9.0, 0.1][frame % 4]);
            }
            Ok(())
        }
    }
    let mut rng = Rng::new(2);
    let mut call = Call::with(Broken, Config::default(), move |_| {
        (!rng.chance(0.2)).then(|| millis(20 + rng.below(60)))
    });
    // The call itself looks at each sample.
    call.run(millis(20_000));
    assert!(call.report().counts.packets > 700);
}
