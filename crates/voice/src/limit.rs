/// Peak limiter that keeps a mix within full scale. The gain falls at once where it must and
/// recovers slowly; peaks that remain are compressed softly instead of clipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    gain: f32,
}

/// Peak level above which limiting begins; full scale is 1.
const CEILING: f32 = 0.9;

/// Part of the missing gain that is recovered within a second.
const RELEASE: f32 = 0.95;

impl Default for Limiter {
    fn default() -> Self {
        Self { gain: 1.0 }
    }
}

impl Limiter {
    /// Limits interleaved samples of `channels` that last `seconds`.
    pub(crate) fn limit(&mut self, samples: &mut [f32], channels: usize, seconds: f32) {
        let peak = samples.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        let most = (CEILING / peak).min(1.0);
        let back = self.gain + (1.0 - self.gain) * (1.0 - (1.0 - RELEASE).powf(seconds));
        let (from, to) = (self.gain, back.min(most));
        self.gain = to;
        if from == 1.0 && to == 1.0 {
            return;
        }
        let frames = (samples.len() / channels).max(1);
        for (index, sample) in samples.iter_mut().enumerate() {
            let share = (index / channels + 1) as f32 / frames as f32;
            *sample = bend(*sample * (from + (to - from) * share));
        }
    }
}

/// Leaves samples below [`CEILING`] unchanged and compresses larger ones smoothly towards
/// full scale.
fn bend(sample: f32) -> f32 {
    let over = sample.abs() - CEILING;
    match over > 0.0 {
        true => {
            let room = 1.0 - CEILING;
            sample.signum() * (CEILING + room * (over / room).tanh())
        }
        false => sample,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_voice_passes_untouched_and_many_stay_within_scale() {
        let mut limiter = Limiter::default();
        let quiet: Vec<f32> = (0..120).map(|it| 0.89 * (it as f32 * 0.1).sin()).collect();
        let mut out = quiet.clone();
        limiter.limit(&mut out, 1, 0.0025);
        assert_eq!(out, quiet);
        for block in 0..400 {
            let mut loud: Vec<f32> = (0..120)
                .map(|it| 3.0 * ((block * 120 + it) as f32 * 0.1).sin())
                .collect();
            let before = loud.clone();
            limiter.limit(&mut loud, 1, 0.0025);
            assert!(loud.iter().all(|it| it.abs() <= 1.0));
            // Once settled, the limiter is a constant gain.
            if block > 10 {
                let ratio = loud[50] / before[50];
                assert!((ratio - 0.3).abs() < 0.01, "{ratio}");
            }
        }
        for _ in 0..800 {
            limiter.limit(&mut [0.1; 120], 1, 0.0025);
        }
        assert!(limiter.gain > 0.99, "{}", limiter.gain);
    }

    #[test]
    fn the_gain_falls_within_the_block_that_is_too_loud_and_recovers_by_95_percent_a_second() {
        let mut limiter = Limiter::default();
        let mut loud = [1.8, -1.8].repeat(60);
        limiter.limit(&mut loud, 2, 0.0025);
        // Twice the ceiling: the gain goes to a half over 60 frames of both channels.
        for (frame, pair) in loud.as_chunks::<2>().0.iter().enumerate() {
            let gain = 1.0 - 0.5 * (frame + 1) as f32 / 60.0;
            let over = 1.8 * gain - 0.9;
            let wanted = 0.9 + 0.1 * (over / 0.1).tanh();
            assert!(
                (pair[0] - wanted).abs() < 1e-5 && pair[1] == -pair[0],
                "{frame}"
            );
        }
        assert!((limiter.gain - 0.5).abs() < 1e-6);
        limiter.limit(&mut [0.0; 120], 1, 0.5);
        // A twentieth of what is missing is left after a second, its square root after a half.
        assert!((limiter.gain - (1.0 - 0.5 * 0.05f32.sqrt())).abs() < 1e-6);
        // A block without frames changes nothing.
        limiter.limit(&mut [], 2, 0.0);
        assert!((limiter.gain - (1.0 - 0.5 * 0.05f32.sqrt())).abs() < 1e-6);
    }

    #[test]
    fn what_is_above_the_ceiling_bends_towards_full_scale() {
        for sample in [0.0, 0.5, 0.9, -0.9] {
            assert_eq!(bend(sample), sample);
        }
        for over in [0.05f32, 0.1, 1.0] {
            let wanted = 0.9 + 0.1 * (over / 0.1).tanh();
            assert!((bend(0.9 + over) - wanted).abs() < 1e-5);
            assert!((bend(-0.9 - over) + wanted).abs() < 1e-5);
        }
    }
}
