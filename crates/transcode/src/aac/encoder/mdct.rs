//! The transform of AAC (ISO/IEC 14496-3, §4.6.11): windows of 2048 samples into 1024 values.
//!
//! ```text
//! 2048 samples × sine window ─ fold ─► 1024 ─ rotate ─► FFT of 512 ─ rotate ─► 1024 values
//! ```

use std::f64::consts::PI;

/// Values of a spectrum, and new samples in a window.
pub(super) const LINES: usize = 1024;

/// Size of the complex transform.
const POINTS: usize = LINES / 2;

/// The transform with its tables.
pub(super) struct Mdct {
    /// Rising half of the sine window.
    window: Vec<f32>,
    /// exp(−iπ(8n + 1) / 8192): rotations before and after the complex transform.
    rotations: Vec<Complex>,
    /// exp(−2πin / 512).
    roots: Vec<Complex>,
    points: Vec<Complex>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Complex {
    re: f32,
    im: f32,
}

impl Complex {
    fn unit(angle: f64) -> Self {
        let (im, re) = angle.sin_cos();
        Self {
            re: re as f32,
            im: im as f32,
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl Mdct {
    pub(super) fn new() -> Self {
        let lines = LINES as f64;
        let angles = (0..POINTS).map(|n| n as f64);
        Self {
            window: (0..LINES)
                .map(|n| (PI / 2.0 * (n as f64 + 0.5) / lines).sin() as f32)
                .collect(),
            rotations: angles
                .clone()
                .map(|n| Complex::unit(-PI * (8.0 * n + 1.0) / (8.0 * lines)))
                .collect(),
            roots: angles
                .map(|n| Complex::unit(-2.0 * PI * n / POINTS as f64))
                .collect(),
            points: vec![Complex::default(); POINTS],
        }
    }

    /// Transforms the samples of the frame before and of this one, −1.0 to 1.0. Values are those of
    /// samples of 16 bits, as decoders expect them.
    pub(super) fn transform(
        &mut self,
        before: &[f32; LINES],
        now: &[f32; LINES],
        spectrum: &mut [f32; LINES],
    ) {
        self.fold(before, now);
        self.fourier();
        // Twice the sum (§4.6.11.3.1), in units of 16-bit samples.
        let scale = 2.0 * 32_768.0;
        for (k, (point, rotation)) in self.points.iter().zip(&self.rotations).enumerate() {
            let value = point.times(*rotation);
            spectrum[2 * k] = scale * value.re;
            spectrum[LINES - 1 - 2 * k] = -scale * value.im;
        }
    }

    /// Folds the windowed samples (a, b, c, d) into (−c reversed − d, a − b reversed), and puts pairs
    /// of them, rotated, into the order that the transform needs.
    fn fold(&mut self, before: &[f32; LINES], now: &[f32; LINES]) {
        let half = LINES / 2;
        let rising = |n: usize| before[n] * self.window[n];
        let falling = |n: usize| now[n] * self.window[LINES - 1 - n];
        let folded = |n: usize| match n.checked_sub(half) {
            None => -falling(half - 1 - n) - falling(half + n),
            Some(m) => rising(m) - rising(LINES - 1 - m),
        };
        for n in 0..POINTS {
            let value = Complex {
                re: folded(2 * n),
                im: folded(LINES - 1 - 2 * n),
            };
            let reversed = n.reverse_bits() >> (usize::BITS - POINTS.trailing_zeros());
            self.points[reversed] = value.times(self.rotations[n]);
        }
    }

    /// Transforms `points`, whose order is bit-reversed, in place.
    fn fourier(&mut self) {
        let mut size = 2;
        while size <= POINTS {
            let half = size / 2;
            for block in self.points.chunks_exact_mut(size) {
                let (low, high) = block.split_at_mut(half);
                let roots = self.roots.iter().step_by(POINTS / size);
                for ((low, high), root) in low.iter_mut().zip(high).zip(roots) {
                    let turned = high.times(*root);
                    *high = Complex {
                        re: low.re - turned.re,
                        im: low.im - turned.im,
                    };
                    low.re += turned.re;
                    low.im += turned.im;
                }
            }
            size *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in the standard, for windows that the sine weighs.
    fn by_definition(before: &[f32; LINES], now: &[f32; LINES], k: usize) -> f64 {
        let samples = before.iter().chain(now).map(|it| f64::from(*it) * 32_768.0);
        let size = 2.0 * LINES as f64;
        let terms = samples.enumerate().map(|(n, sample)| {
            let n = n as f64;
            let window = (PI / size * (n + 0.5)).sin();
            let phase = 2.0 * PI / size * (n + (LINES as f64 + 1.0) / 2.0) * (k as f64 + 0.5);
            sample * window * phase.cos()
        });
        2.0 * terms.sum::<f64>()
    }

    #[test]
    fn values_are_those_of_the_definition() {
        let mut seed = 1u32;
        let mut noise = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let (mut before, mut now) = ([0.0; LINES], [0.0; LINES]);
        before.fill_with(&mut noise);
        now.fill_with(&mut noise);
        let mut spectrum = [0.0; LINES];
        Mdct::new().transform(&before, &now, &mut spectrum);
        for k in [0, 1, 2, 3, 511, 512, 513, 700, 1021, 1022, 1023] {
            let expected = by_definition(&before, &now, k);
            let error = f64::from(spectrum[k]) - expected;
            assert!(error.abs() < 2.0, "{k}: {} {expected}", spectrum[k]);
        }
    }
}
