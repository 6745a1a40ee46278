/// Keeps a mix within full scale: the gain goes down at once where it must and comes
/// back slowly; what is left of a peak is bent, not cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    gain: f32,
}

/// Where limiting begins.
const CEILING: f32 = 0.9;

/// Of what is missing, what the gain gains back in a second.
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

/// Straight up to the ceiling, then towards full scale without an edge.
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
            // Settled, it is a gain and nothing else.
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
