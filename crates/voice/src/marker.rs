//! Marks in audio: chirps that are inserted at one end and searched at the other.
//!
//! A chirp from 300 to 3,400 Hz of a quarter of a second resembles speech enough to pass
//! noise suppression and codecs, and its autocorrelation has one narrow peak. The search at 8
//! kHz with interpolation measures a delay to a fraction of 0.1 ms.

use std::time::Duration;

/// Length of a chirp, in seconds.
const LENGTH_S: f64 = 0.25;
/// Frequency at which a chirp begins.
const FROM_HZ: f64 = 300.0;
/// Frequency at which a chirp ends.
const TO_HZ: f64 = 3_400.0;
/// Amplitude, well below full scale, so that gain control need not act.
const LEVEL: f64 = 0.25;

/// Sample rate of the search, in Hz.
const RATE: u32 = 8_000;

/// Least correlation, of 1, that counts as the chirp. Noise of the same length has a tenth.
const FOUND: f64 = 0.5;

/// Chirps in a signal: the first after `first`, then one every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Time before the first chirp.
    pub first: Duration,
    /// Time from one chirp to the next, at least half a second.
    pub every: Duration,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(1_500),
            // Not a whole number of any frame.
            every: Duration::from_micros(1_003_700),
        }
    }
}

impl Marks {
    /// The signal at `at_s` seconds, -1 to 1.
    pub fn sample(self, at_s: f64) -> f64 {
        let (first, every) = (self.first.as_secs_f64(), self.every.as_secs_f64());
        let since = at_s - first;
        if since < 0.0 {
            return 0.0;
        }
        chirp(since % every)
    }

    /// `time` of the signal, one channel at `rate`.
    pub fn signal(self, rate: u32, time: Duration) -> Vec<f32> {
        let samples = (time.as_secs_f64() * f64::from(rate)) as usize;
        let sample = |index| self.sample(index as f64 / f64::from(rate)) as f32;
        (0..samples).map(sample).collect()
    }

    /// Searches each chirp in `recorded`, one channel at `rate`, whose first sample was played
    /// `begun_s` seconds after the signal's beginning (negative: before it). Returns each
    /// chirp's time in the signal and its delay in ms; `None` if it is not found within
    /// `longest`. Chirps whose range is not completely in `recorded` are left out.
    pub fn find(
        self,
        recorded: &[f32],
        rate: u32,
        begun_s: f64,
        longest: Duration,
    ) -> Vec<(Duration, Option<f64>)> {
        let recorded = resampled(recorded, rate);
        let chirp: Vec<f64> = (0..(LENGTH_S * f64::from(RATE)) as usize)
            .map(|index| chirp(index as f64 / f64::from(RATE)))
            .collect();
        let end_s = begun_s + recorded.len() as f64 / f64::from(RATE);
        let mut found = Vec::new();
        let mut inserted = self.first;
        while inserted.as_secs_f64() + LENGTH_S + longest.as_secs_f64() < end_s {
            let from = ((inserted.as_secs_f64() - begun_s) * f64::from(RATE)).floor();
            let lags = (longest.as_secs_f64() * f64::from(RATE)) as usize;
            if from >= 0.0 {
                let window = &recorded[from as usize..];
                let peak = peak(&chirp, window, lags);
                let exact = peak
                    .map(|lag| (from + lag) / f64::from(RATE) + begun_s - inserted.as_secs_f64());
                found.push((inserted, exact.map(|delay_s| delay_s * 1e3)));
            }
            inserted += self.every;
        }
        found
    }
}

/// The chirp at `at_s` seconds after its beginning.
fn chirp(at_s: f64) -> f64 {
    if !(0.0..LENGTH_S).contains(&at_s) {
        return 0.0;
    }
    let sweep = (TO_HZ - FROM_HZ) / LENGTH_S;
    let phase = std::f64::consts::TAU * (FROM_HZ * at_s + sweep * at_s * at_s / 2.0);
    let window = (std::f64::consts::PI * at_s / LENGTH_S).sin().powi(2);
    LEVEL * window * phase.sin()
}

/// Lag of the best correlation within `lags`; `None` if it is below [`FOUND`].
fn peak(chirp: &[f64], recorded: &[f64], lags: usize) -> Option<f64> {
    let lags = lags.min(recorded.len().checked_sub(chirp.len())?);
    let energy: f64 = chirp.iter().map(|it| it * it).sum();
    let mut own: f64 = recorded[..chirp.len()].iter().map(|it| it * it).sum();
    let mut values = Vec::with_capacity(lags + 1);
    for lag in 0..=lags {
        let part = &recorded[lag..lag + chirp.len()];
        let product: f64 = chirp.iter().zip(part).map(|(a, b)| a * b).sum();
        values.push(product / (energy * own.max(0.0)).sqrt().max(1e-9));
        // The next part has one sample more and one less.
        if let Some(next) = recorded.get(lag + chirp.len()) {
            own += next * next - part[0] * part[0];
        }
    }
    let (best, value) = values
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    if *value < FOUND {
        return None;
    }
    // A parabola through the peak and its neighbors.
    let side = |index: usize| values.get(index).copied();
    let exact = match (best.checked_sub(1).and_then(side), side(best + 1)) {
        (Some(before), Some(after)) => {
            let bend = before - 2.0 * value + after;
            if bend < 0.0 {
                (before - after) / (2.0 * bend)
            } else {
                0.0
            }
        }
        _ => 0.0,
    };
    Some(best as f64 + exact)
}

/// Resamples to [`RATE`] by averaging, since the chirp is well below half of that rate.
fn resampled(recorded: &[f32], rate: u32) -> Vec<f64> {
    let step = f64::from(rate) / f64::from(RATE);
    let count = (recorded.len() as f64 / step) as usize;
    let average = |index: usize| {
        // Centered on the sample, so that nothing moves.
        let middle = index as f64 * step;
        let from = (middle - (step - 1.0) / 2.0).round().max(0.0) as usize;
        let to = (from + step.round().max(1.0) as usize).min(recorded.len());
        let part = &recorded[from.min(to)..to];
        let shift = (from as f64 + (part.len().max(1) - 1) as f64 / 2.0) - middle;
        debug_assert!(shift.abs() <= step, "{shift}");
        part.iter().map(|it| f64::from(*it)).sum::<f64>() / part.len().max(1) as f64
    };
    (0..count).map(average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_delay_is_found_to_a_tenth_of_a_millisecond() {
        let marks = Marks::default();
        for (rate, delay_ms) in [(48_000, 31.27), (44_100, 62.5), (16_000, 5.0), (8_000, 0.0)] {
            let samples = 6 * rate as usize;
            let recorded: Vec<f32> = (0..samples)
                .map(|index| {
                    let at = index as f64 / f64::from(rate) - delay_ms / 1e3 + 0.1;
                    let noise = ((index * 7_919) % 1_000) as f64 / 1e3 - 0.5;
                    (0.6 * marks.sample(at) + 0.01 * noise) as f32
                })
                .collect();
            let found = marks.find(&recorded, rate, 0.1, Duration::from_millis(300));
            assert_eq!(found.len(), 5, "{rate}");
            for (inserted, delay) in found {
                let delay = delay.expect("found");
                let off = delay - delay_ms;
                assert!(off.abs() < 0.1, "{rate} Hz, {inserted:?}: {delay}");
            }
        }
    }

    #[test]
    fn silence_and_noise_have_no_marks() {
        let marks = Marks::default();
        let silence = vec![0.0; 48_000 * 4];
        let noise: Vec<f32> = (0..48_000 * 4u32)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 - 0.5)
            .collect();
        for recorded in [silence, noise] {
            let found = marks.find(&recorded, 48_000, 0.0, Duration::from_millis(300));
            assert_eq!(found.len(), 2);
            assert!(found.iter().all(|(_, delay)| delay.is_none()));
        }
    }
}
