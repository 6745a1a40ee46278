//! Measurement of the delays that no stamp shows.

use super::chirps::{chirps, find};
use crate::codec::{Decoder as _, Encoder as _};
use crate::opus;
use crate::preprocess::{self, FRAME, Preprocess};
use crate::resample::Resampler;

use super::mono;

/// Eight seconds of chirps at `rate`.
fn audio(rate: u32) -> Vec<f32> {
    let samples = 8 * rate;
    let at = |sample: u32| f64::from(sample) / f64::from(rate);
    (0..samples).map(|sample| chirps(at(sample))).collect()
}

/// Median delay of the chirps in `out`, in ms; only the later half is used, in which the
/// chain has settled.
fn delay_ms(out: &[f32], rate: u32, fit_min: f32) -> f64 {
    let found = find(out, f64::from(rate), 0.0, 0.03);
    let found = &found[found.len() / 2..];
    let mut delays: Vec<f64> = found
        .iter()
        .filter(|it| it.fit >= fit_min)
        .map(|it| it.delay_s * 1e3)
        .collect();
    assert!(delays.len() * 2 > found.len(), "{found:?}");
    delays.sort_by(f64::total_cmp);
    delays[delays.len() / 2]
}

#[test]
fn the_codec_delays_as_it_says() {
    for purpose in [opus::Purpose::Voip, opus::Purpose::LowDelay] {
        for frame in [opus::Frame::Ms10, opus::Frame::Ms20] {
            let config = opus::Config {
                purpose,
                frame,
                ..opus::Config::default()
            };
            let mut encoder = opus::Encoder::new(config).expect("an encoder");
            let concealment = opus::Concealment::Classic;
            let mut decoder = opus::Decoder::new(mono(opus::RATE), concealment).expect("48 kHz");
            let (mut packet, mut out) = (Vec::new(), Vec::new());
            for frame in audio(opus::RATE).chunks_exact(encoder.frame_samples()) {
                encoder.encode(frame, &mut packet).expect("a frame");
                decoder.decode(&packet, &mut out).expect("a packet");
            }
            let measured = delay_ms(&out, opus::RATE, 0.8);
            let stated = encoder.look_ahead().as_secs_f64() * 1e3;
            assert!(
                (measured - stated).abs() < 0.3,
                "{purpose:?} {frame:?}: {measured} {stated}"
            );
        }
    }
}

#[test]
fn preprocessing_delays_as_it_says() {
    let found = (0..8).map(|bits| {
        let config = preprocess::Config {
            echo: bits & 1 != 0,
            noise: bits & 2 != 0,
            gain: bits & 4 != 0,
        };
        let mut preprocess = Preprocess::new(config, 1);
        let mut out = audio(opus::RATE);
        for frame in out.chunks_exact_mut(FRAME) {
            preprocess.rendered(&[0.0; FRAME]);
            preprocess.process(frame);
        }
        let measured = delay_ms(&out, opus::RATE, 0.6);
        let stated = preprocess.delay().as_secs_f64() * 1e3;
        (config, measured, stated)
    });
    let found: Vec<_> = found.collect();
    let is_stated = |it: &(_, f64, f64)| (it.1 - it.2).abs() < 0.3;
    assert!(found.iter().all(is_stated), "{found:#?}");
}

#[test]
fn resampling_delays_as_it_says_and_keeps_the_audio() {
    for (from, to) in [
        (44_100, 48_000),
        (48_000, 44_100),
        (8_000, 48_000),
        (48_000, 8_000),
        (16_000, 48_000),
        (48_000, 16_000),
        (22_050, 48_000),
        (48_000, 11_025),
        (48_000, 48_000),
    ] {
        let mut resampler = Resampler::new(from, to, 1);
        let mut out = Vec::new();
        // As a device calls: any lengths.
        let audio = audio(from);
        let mut rest = audio.as_slice();
        for length in [120, 441, 1, 1_024, 480, 37].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(length));
            resampler.push(now, &mut out);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let wanted = audio.len() as f64 * f64::from(to) / f64::from(from);
        // Of the last samples in, some are waited for.
        let missing = (wanted - out.len() as f64) * f64::from(from) / f64::from(to);
        assert!(missing.abs() < 8.0, "{from} {to}: {missing}");
        let measured = delay_ms(&out, to, 0.85);
        let stated = resampler.delay().as_secs_f64() * 1e3;
        assert!(
            (measured - stated).abs() < 0.2,
            "{from} {to}: {measured} {stated}"
        );
    }
}
