//! Pitch search: the lag at which a signal resembles itself.

use crate::playout_buffer::PlayoutBuffer;

/// Shortest and longest pitch periods that are searched, in ms: 400 Hz to 66 Hz. A higher
/// voice is found at a multiple of its period.
pub(crate) const LAG_MS: (f64, f64) = (2.5, 15.0);

/// Length of the segments that are compared, in ms. It holds half a period of the lowest
/// voice, and a packet of 20 ms still has room for a lag and this window.
pub(crate) const WINDOW_MS: f64 = 5.0;

/// Sample rate of the coarse search, in Hz.
const COARSE_HZ: u32 = 4_000;

/// A pitch lag and how well the signal matches itself at that lag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lag {
    /// The lag, in frames (samples per channel).
    pub(crate) frames: usize,
    /// Normalized correlation at the lag, −1 to 1; 0 where there is nothing to compare.
    pub(crate) fit: f32,
}

/// Finds the lag in `from..=to` frames at which the window that begins at frame `at` best
/// matches the audio that much earlier (`is_back`) or later.
///
/// Searches coarsely at 4 kHz, then at full rate around the best coarse lag. Shorter lags win
/// ties, so that a voice is not taken for one an octave lower.
pub(crate) fn search(
    playout_buffer: &PlayoutBuffer,
    at: isize,
    is_back: bool,
    from: usize,
    to: usize,
) -> Lag {
    let format = playout_buffer.format();
    let window = format.frames(WINDOW_MS);
    let step = (format.rate() / COARSE_HZ).max(1) as usize;
    let (from, to) = (from.max(1), to.max(1));
    let reach = to as isize;
    let (low, high) = match is_back {
        true => (at - reach, at + window as isize),
        false => (at, at + reach + window as isize),
    };
    let mono = mono(playout_buffer.span(low, high), format.channels());
    // Where the window begins in `mono`, and the direction of the lag.
    let (home, sign) = if is_back { (to, -1) } else { (0, 1) };
    let fit = |lag: usize, step: usize| {
        let other = home.checked_add_signed(sign * lag as isize).unwrap_or(0);
        let a = mono[home..home + window].iter().step_by(step);
        let b = mono[other..other + window].iter().step_by(step);
        correlation(a.zip(b))
    };
    let mut best = Lag {
        frames: from,
        fit: -1.0,
    };
    for lag in (from..=to).step_by(step) {
        let fit = fit(lag, step);
        // A multiple of the period fits as well, give or take noise.
        if fit > best.fit + 0.01 {
            best = Lag { frames: lag, fit };
        }
    }
    let around = best.frames.saturating_sub(step).max(from)..=(best.frames + step).min(to);
    best.fit = -1.0;
    for lag in around {
        let fit = fit(lag, 1);
        if fit > best.fit {
            best = Lag { frames: lag, fit };
        }
    }
    best
}

/// Root mean square of interleaved samples.
pub(crate) fn level(samples: &[f32]) -> f32 {
    let power: f32 = samples.iter().map(|sample| sample * sample).sum();
    (power / samples.len().max(1) as f32).sqrt()
}

fn mono(samples: &[f32], channels: usize) -> Vec<f32> {
    match channels {
        1 => samples.to_vec(),
        _ => {
            let frames = samples.chunks_exact(channels);
            frames.map(|frame| frame.iter().sum()).collect()
        }
    }
}

fn correlation<'a>(pairs: impl Iterator<Item = (&'a f32, &'a f32)>) -> f32 {
    let (mut both, mut left, mut right) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        both += a * b;
        left += a * a;
        right += b * b;
    }
    let power: f32 = left * right;
    // Silence matches silence, but has no pitch.
    if power < 1e-12 {
        0.0
    } else {
        both / power.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_one_for_the_same_shape_and_does_not_depend_on_its_size() {
        let near = |left: &[f32], right: &[f32], expected: f32| {
            let found = correlation(left.iter().zip(right));
            assert!((found - expected).abs() < 1e-5, "{found}");
        };
        let shape = [0.5, -0.25, 0.75, 0.1];
        near(&shape, &shape, 1.0);
        near(&shape, &shape.map(|it| it * 8.0), 1.0);
        near(&shape, &shape.map(|it| -it), -1.0);
        near(&[1.0, 0.0], &[0.0, 1.0], 0.0);
        near(&[1.0, 1.0], &[1.0, 0.0], std::f32::consts::FRAC_1_SQRT_2);
        near(&[0.0; 4], &[0.0; 4], 0.0);
    }

    use crate::codec::Format;

    /// 60 ms of a pulse every `period` frames, softer in a second channel; nothing is played
    /// before the first `played` frames.
    fn pulses(rate: u32, channels: usize, period: usize, played: usize) -> PlayoutBuffer {
        let format = Format::new(rate, channels).expect("a voice's");
        let mut buffer = PlayoutBuffer::new(format);
        let frames = format.frames(60.0);
        let samples = (0..frames * channels).map(|index| {
            let (frame, channel) = (index / channels, index % channels);
            // Falls over a pulse, so that only a whole period fits.
            let sample = 1.0 - 2.0 * (frame % period) as f32 / period as f32;
            sample / (2 + channel) as f32
        });
        buffer.append(&samples.collect::<Vec<_>>());
        buffer.play(&mut vec![0.0; played * channels], |_| ());
        buffer
    }

    #[test]
    fn the_period_of_a_voice_is_found_to_the_sample_in_both_directions() {
        for (rate, channels) in [(8_000, 1), (16_000, 2), (48_000, 1), (48_000, 2)] {
            let per_ms = rate as usize / 1_000;
            // The last two lie between the steps of the coarse search, and have no multiple in
            // its range.
            for period in [3 * per_ms, 5 * per_ms, 9 * per_ms + 3, 14 * per_ms - 1] {
                let buffer = pulses(rate, channels, period, 25 * per_ms);
                let (low, high) = (5 * per_ms / 2, 15 * per_ms);
                for (at, is_back) in [(0, false), (0, true), (-(per_ms as isize), true)] {
                    let lag = search(&buffer, at, is_back, low, high);
                    let what = format!("{rate} x {channels}, {period} from {at}: {lag:?}");
                    // Twice a short period fits as well, but is found later.
                    assert_eq!(lag.frames, period, "{what}");
                    assert!(lag.fit > 0.999, "{what}");
                }
            }
        }
    }

    #[test]
    fn only_lags_in_the_range_are_looked_at() {
        let buffer = pulses(16_000, 1, 100, 400);
        // Both ends of the range count.
        for (from, to) in [(100, 120), (80, 100), (100, 100), (99, 101)] {
            assert_eq!(search(&buffer, 0, true, from, to).frames, 100, "{from}");
        }
        let missed = search(&buffer, 0, true, 110, 130);
        assert!(
            (110..=130).contains(&missed.frames) && missed.fit < 0.9,
            "{missed:?}"
        );
        // A range of nothing is a range of one.
        assert_eq!(search(&buffer, 0, false, 0, 0).frames, 1);
    }

    #[test]
    fn levels_are_root_mean_squares() {
        assert_eq!(level(&[3.0, -4.0, 0.0, 0.0]), 2.5);
        assert_eq!(level(&[]), 0.0);
        assert_eq!(mono(&[0.5, 0.25, 1.0, -1.0], 2), [0.75, 0.0]);
        assert_eq!(mono(&[0.5, 0.25], 1), [0.5, 0.25]);
    }
}
