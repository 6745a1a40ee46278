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
        let most = if peak > CEILING { CEILING / peak } else { 1.0 };
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
}
