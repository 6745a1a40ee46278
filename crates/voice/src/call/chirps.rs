//! Chirps: signals whose time can be measured to a sample.

use super::Call;

/// Time from one chirp to the next, in seconds.
pub(super) const EVERY_S: f64 = 0.61;
/// Length of a chirp, in seconds.
pub(super) const LONG_S: f64 = 0.030;

/// The signal at `at` seconds: chirps from 400 to 3,200 Hz in 30 ms, fading in and out, at
/// half of full scale.
pub(super) fn chirps(at: f64) -> f32 {
    let since = at.rem_euclid(EVERY_S);
    chirp(since)
}

fn chirp(since: f64) -> f32 {
    if !(0.0..LONG_S).contains(&since) {
        return 0.0;
    }
    let share = since / LONG_S;
    let turns = 400.0 * since + (3_200.0 - 400.0) * since * share / 2.0;
    let swell = (std::f64::consts::PI * share).sin().powi(2);
    (0.5 * swell * (std::f64::consts::TAU * turns).sin()) as f32
}

/// A chirp that was found in recorded audio.
#[derive(Clone, Copy, Debug)]
pub(super) struct DetectedChirp {
    /// When its middle was at the microphone, in seconds since the call's start.
    pub(super) captured_s: f64,
    /// Its delay, in seconds.
    pub(super) delay_s: f64,
    /// Its correlation with the original, 0 to 1.
    pub(super) fit: f32,
}

/// Finds the chirps in `played` samples at `rate`, the first of which was played at `from_s`;
/// delays up to `within_s` are searched.
pub(super) fn find(played: &[f32], rate: f64, from_s: f64, within_s: f64) -> Vec<DetectedChirp> {
    let length = (LONG_S * rate) as usize;
    let lags = (within_s * rate) as usize;
    let template: Vec<f32> = (0..length).map(|it| chirp(it as f64 / rate)).collect();
    let own: f32 = template.iter().map(|it| it * it).sum();
    let mut found = Vec::new();
    for number in 0.. {
        let captured_s = f64::from(number) * EVERY_S;
        let at = (captured_s - from_s) * rate;
        if at < 0.0 {
            continue;
        }
        let begin = at.ceil() as usize;
        if begin + lags + length + length >= played.len() {
            break;
        }
        let fit = |lag: usize| {
            let part = &played[begin + lag..begin + lag + length];
            let (mut both, mut power) = (0.0f32, 1e-6f32);
            for (a, b) in part.iter().zip(&template) {
                both += a * b;
                power += a * a;
            }
            both / (own * power).sqrt()
        };
        // A quarter of a period of the highest tone, then every sample around.
        let coarse = (rate / 12_800.0).max(1.0) as usize;
        let best = best(0, lags, coarse, fit);
        let best = best_around(best, coarse, fit);
        let delay_s = (begin as f64 - at + best.0 as f64) / rate;
        found.push(DetectedChirp {
            captured_s: captured_s + LONG_S / 2.0,
            delay_s,
            fit: best.1,
        });
    }
    found
}

/// Of the lags from `from` to `to`, every `step`, the one with the best correlation.
fn best(from: usize, to: usize, step: usize, fit: impl Fn(usize) -> f32) -> (usize, f32) {
    let all = (from..to).step_by(step).map(|lag| (lag, fit(lag)));
    all.max_by(|a, b| a.1.total_cmp(&b.1)).expect("some lags")
}

fn best_around(around: (usize, f32), by: usize, fit: impl Fn(usize) -> f32) -> (usize, f32) {
    best(around.0.saturating_sub(by), around.0 + by, 1, fit)
}

/// Finds the chirps in the recording of `call` whose correlation is at least `fit_min`.
pub(super) fn recognized(call: &Call, within_s: f64, fit_min: f32) -> Vec<DetectedChirp> {
    let device = &call.loudspeaker;
    let rate = f64::from(device.format.rate()) * (1.0 + device.ppm / 1e6);
    let from_s = (call.played_from() - call.start).as_secs_f64();
    let mut found = find(&call.played, rate, from_s, within_s);
    found.retain(|it| it.fit >= fit_min);
    found
}
