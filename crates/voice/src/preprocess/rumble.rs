//! High-pass filter that removes rumble below speech from the lowest band, before anything is
//! estimated.

use super::bands::BAND;

/// Coefficients of three filter sections in series at 16 kHz: three feed-forward, two
/// feedback. They are those of libwebrtc's `HighPassFilter`: 3 dB at 100 Hz, 40 dB at 50 Hz
/// and below.
const SECTIONS: [([f64; 3], [f64; 2]); 3] = [
    (
        [0.877_353_942, -1.754_683_921, 0.877_353_942],
        [-1.881_687_318, 0.888_058_464],
    ),
    ([1.0, -1.999_810_143, 1.0], [-1.976_035_417, 0.977_970_869]),
    ([1.0, -1.999_669_231, 1.0], [-1.994_265_768, 0.995_486_159]),
];

/// Magnitude below which filter states are set to zero, because processors compute slowly
/// with subnormal numbers.
const FADED: f64 = 1e-12;

/// High-pass filter of one channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Rumble {
    /// State of each section, in the transposed direct form.
    states: [[f64; 2]; SECTIONS.len()],
}

impl Rumble {
    pub(super) fn remove(&mut self, samples: &mut [f32; BAND]) {
        for ((b, a), state) in SECTIONS.iter().zip(&mut self.states) {
            let [mut first, mut second] = *state;
            for sample in samples.iter_mut() {
                let x = f64::from(*sample);
                let y = b[0] * x + first;
                first = b[1] * x - a[0] * y + second;
                second = b[2] * x - a[1] * y;
                *sample = y as f32;
            }
            let kept = |it: f64| if it.abs() < FADED { 0.0 } else { it };
            *state = [kept(first), kept(second)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rest of a tone, in dB.
    fn left_db(hz: f64) -> f64 {
        let mut rumble = Rumble::default();
        let turn = std::f64::consts::TAU * hz / 16_000.0;
        let mut power = 0.0;
        for frame in 0..200 {
            let mut samples: [f32; BAND] =
                std::array::from_fn(|at| (turn * (frame * BAND + at) as f64).sin() as f32);
            rumble.remove(&mut samples);
            if frame >= 100 {
                power += samples.iter().map(|it| f64::from(it * it)).sum::<f64>();
            }
        }
        10.0 * (power / (100 * BAND) as f64 * 2.0).log10()
    }

    #[test]
    fn speech_stays_and_what_is_below_goes() {
        for hz in [10.0, 30.0, 50.0] {
            assert!(left_db(hz) < -35.0, "{hz} Hz: {} dB", left_db(hz));
        }
        for hz in [150.0, 1_000.0, 7_000.0] {
            assert!(left_db(hz).abs() < 1.0, "{hz} Hz: {} dB", left_db(hz));
        }
    }

    #[test]
    fn the_sections_are_difference_equations_in_series() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 256.0 - 32_768.0
        };
        let input: Vec<f32> = (0..4 * BAND).map(|_| next()).collect();
        let mut wanted = input.clone();
        for (b, a) in SECTIONS {
            let [mut x1, mut x2, mut y1, mut y2] = [0.0f64; 4];
            for sample in &mut wanted {
                let x = f64::from(*sample);
                let y = b[0] * x + b[1] * x1 + b[2] * x2 - a[0] * y1 - a[1] * y2;
                [x2, x1, y2, y1] = [x1, x, y1, y];
                *sample = y as f32;
            }
        }
        let mut rumble = Rumble::default();
        for (input, wanted) in input.chunks(BAND).zip(wanted.chunks(BAND)) {
            let mut samples: [f32; BAND] = input.try_into().expect("whole frames");
            rumble.remove(&mut samples);
            for (sample, wanted) in samples.iter().zip(wanted) {
                let error = (sample - wanted).abs();
                assert!(error < 0.5, "{sample} {wanted} of 32,768");
            }
        }
        // What fades ends, instead of becoming ever smaller.
        for _ in 0..500 {
            rumble.remove(&mut [0.0; BAND]);
        }
        assert_eq!(rumble.states, [[0.0; 2]; 3]);
    }
}
