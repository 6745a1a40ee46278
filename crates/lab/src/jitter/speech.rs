//! Synthetic audio that behaves like speech when it is stretched: voices with a gliding pitch,
//! fricatives, pauses between phrases, and a little background noise.

use std::f64::consts::TAU;

use glassline_sim::Rng;

/// Length of the audio until it repeats, in seconds.
const SECONDS: f64 = 30.0;

/// Most harmonics of a voice.
const HARMONICS: u32 = 16;

/// Half a minute of synthetic speech, one channel at `rate` Hz, between −1 and 1.
///
/// It resembles reading aloud: phrases of 1 to 3 s with pauses of 0.2 to 0.6 s, which are a fifth
/// of the time, unless `has_pauses` is false. Conversations pause far more (ITU-T P.59: 61 %).
pub(super) fn speech(rate: u32, seed: u64, has_pauses: bool) -> Vec<f32> {
    let mut rng = Rng::new(seed).fork(77);
    let length = (SECONDS * f64::from(rate)) as usize;
    let mut out = Vec::with_capacity(length + rate as usize);
    let between = |rng: &mut Rng, low: f64, high: f64| low + (high - low) * rng.unit();
    let (mut phase, mut pitch) = (0.0, 120.0);
    while out.len() < length {
        let end = out.len() + (between(&mut rng, 1.0, 3.0) * f64::from(rate)) as usize;
        while out.len() < end {
            let frames = (between(&mut rng, 0.10, 0.24) * f64::from(rate)) as usize;
            let level = between(&mut rng, 0.5, 1.0);
            if rng.chance(0.18) {
                hiss(&mut out, &mut rng, frames / 2, level * 0.08);
                continue;
            }
            let aim = between(&mut rng, 85.0, 210.0);
            let formants = [
                between(&mut rng, 300.0, 800.0),
                between(&mut rng, 900.0, 2_400.0),
            ];
            for frame in 0..frames {
                let share = frame as f64 / frames as f64;
                pitch += (aim - pitch) * 8.0 / f64::from(rate);
                phase = (phase + pitch / f64::from(rate)).fract();
                let swell = 0.35 + 0.65 * (share * std::f64::consts::PI).sin();
                let tone = voice(phase, pitch, formants, f64::from(rate));
                out.push((0.25 * level * swell * tone) as f32);
            }
        }
        if has_pauses {
            let frames = (between(&mut rng, 0.2, 0.6) * f64::from(rate)) as usize;
            out.resize(out.len() + frames, 0.0);
        }
    }
    out.truncate(length);
    for sample in &mut out {
        *sample += (0.000_6 * (rng.unit() - 0.5)) as f32;
    }
    out
}

/// A sample of a voice: harmonics, which are strong near the formants.
fn voice(phase: f64, pitch: f64, formants: [f64; 2], rate: f64) -> f64 {
    let mut sum = 0.0;
    for harmonic in 1..=HARMONICS {
        let hz = pitch * f64::from(harmonic);
        if hz > rate * 0.45 {
            break;
        }
        let near = |formant: f64| 1.0 / (1.0 + ((hz - formant) / 180.0).powi(2));
        let gain = 0.3 / f64::from(harmonic) + near(formants[0]) + 0.5 * near(formants[1]);
        sum += gain * (TAU * phase * f64::from(harmonic)).sin();
    }
    sum * 0.5
}

fn hiss(out: &mut Vec<f32>, rng: &mut Rng, frames: usize, level: f64) {
    let mut last = 0.0;
    for frame in 0..frames {
        let swell = (frame as f64 / frames as f64 * std::f64::consts::PI).sin();
        let white = 2.0 * rng.unit() - 1.0;
        // High frequencies dominate: the sample is the difference of its neighbors.
        out.push((level * swell * (white - last)) as f32);
        last = white;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_a_good_part_of_the_time_and_stays_within_scale() {
        let audio = speech(8_000, 1, true);
        assert_eq!(audio.len(), 240_000);
        assert!(audio.iter().all(|it| it.abs() <= 1.0));
        let loud = |audio: &[f32]| {
            let blocks = audio.chunks(80);
            let all = blocks.len() as f64;
            let level = |it: &[f32]| it.iter().fold(0.0f32, |most, it| most.max(it.abs()));
            blocks.filter(|it| level(it) > 0.01).count() as f64 / all
        };
        let share = loud(&audio);
        assert!((0.70..0.92).contains(&share), "{share}");
        let share = loud(&speech(8_000, 1, false));
        assert!(share > 0.93, "{share}");
    }
}
