//! Filter bank: splits 48 kHz into three bands of 8 kHz, each sampled at 16 kHz as the echo
//! canceller and the noise suppressor need, and joins them again.
//!
//! It is a cosine-modulated bank (Vaidyanathan, *Multirate Systems and Filter Banks*, 1993,
//! ch. 8) of libwebrtc's dimensions. A low-pass of 48 taps, a windowed sinc that ends at 4
//! kHz, is moved to the middle of each band by a cosine. Cosines of sixths of a turn repeat
//! after 12 taps, so every twelfth tap belongs to one branch: four taps, then one weight for
//! each band. Two of the twelve branches are zero.

use std::f64::consts::PI;

use super::FRAME;

/// Number of bands, of 8 kHz each.
pub(super) const BANDS: usize = 3;
/// Samples of a band in 10 ms.
pub(super) const BAND: usize = FRAME / BANDS;
/// The bands of one channel.
pub(super) type Bands = [[f32; BAND]; BANDS];

/// Length of the prototype filter, in samples at 48 kHz.
const TAPS: usize = 48;
/// Number of taps after which the cosines repeat.
const PERIOD: usize = 12;
/// Taps of a branch.
const BRANCH_TAPS: usize = TAPS / PERIOD;
/// Distance between the taps of a branch, in samples of a band.
const STEP: usize = PERIOD / BANDS;
/// Samples of a band that a branch looks back.
const PAST: usize = TAPS / BANDS - 1;
/// Shape parameter of the Kaiser window.
const BETA: f64 = 3.5;

/// 10 ms of one of three streams at 16 kHz, after the samples before it that filters need.
type DelayLine = [f32; PAST + BAND];

/// A branch of the filter bank: every twelfth tap.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// Which of three samples the branch takes.
    phase: usize,
    /// Delay of the branch, in samples of a band.
    shift: usize,
    taps: [f32; BRANCH_TAPS],
    weights: [f32; BANDS],
}

impl Branch {
    /// Filters the last [`BAND`] samples of `line` with the branch's taps and adds the result
    /// to `out`.
    fn add(&self, line: &DelayLine, out: &mut [f32; BAND]) {
        let [a, b, c, d] = std::array::from_fn(|tap| {
            let begin = PAST - self.shift - tap * STEP;
            line[begin..].first_chunk::<BAND>().expect("within a line")
        });
        let [ta, tb, tc, td] = self.taps;
        for (at, out) in out.iter_mut().enumerate() {
            *out += ta * a[at] + tb * b[at] + tc * c[at] + td * d[at];
        }
    }
}

/// Splits one stream into three bands.
#[derive(Debug)]
pub(super) struct Split {
    branches: Vec<Branch>,
    /// Every third sample of the input, by phase.
    lines: [DelayLine; BANDS],
}

impl Split {
    pub(super) fn new() -> Self {
        Self {
            branches: branches(),
            lines: [[0.0; PAST + BAND]; BANDS],
        }
    }

    /// Splits a frame of [`FRAME`] samples into its bands.
    pub(super) fn split(&mut self, frame: &[f32], bands: &mut Bands) {
        for (phase, line) in self.lines.iter_mut().enumerate() {
            line.copy_within(BAND.., 0);
            let samples = frame.iter().skip(BANDS - 1 - phase).step_by(BANDS);
            for (out, sample) in line[PAST..].iter_mut().zip(samples) {
                *out = *sample;
            }
        }
        *bands = [[0.0; BAND]; BANDS];
        for branch in &self.branches {
            let mut filtered = [0.0; BAND];
            branch.add(&self.lines[branch.phase], &mut filtered);
            for (band, weight) in bands.iter_mut().zip(branch.weights) {
                for (sum, it) in band.iter_mut().zip(&filtered) {
                    *sum += weight * it;
                }
            }
        }
    }
}

/// Joins three bands to one stream.
#[derive(Debug)]
pub(super) struct Join {
    branches: Vec<Branch>,
    lines: [DelayLine; BANDS],
}

impl Join {
    pub(super) fn new() -> Self {
        Self {
            branches: branches(),
            lines: [[0.0; PAST + BAND]; BANDS],
        }
    }

    /// Joins the bands to [`FRAME`] samples.
    pub(super) fn join(&mut self, bands: &Bands, frame: &mut [f32]) {
        for (line, band) in self.lines.iter_mut().zip(bands) {
            line.copy_within(BAND.., 0);
            line[PAST..].copy_from_slice(band);
        }
        let mut phases = [[0.0; BAND]; BANDS];
        let [low, middle, high] = &self.lines;
        for branch in &self.branches {
            let [a, b, c] = branch.weights;
            let weighted = std::array::from_fn(|at| a * low[at] + b * middle[at] + c * high[at]);
            branch.add(&weighted, &mut phases[branch.phase]);
        }
        for (phase, samples) in phases.iter().enumerate() {
            let places = frame.iter_mut().skip(phase).step_by(BANDS);
            for (out, sample) in places.zip(samples) {
                // Two of three samples were left out.
                *out = BANDS as f32 * sample;
            }
        }
    }
}

/// The branches that are not zero.
fn branches() -> Vec<Branch> {
    let prototype = prototype();
    // At the third tap of six every band's cosine is zero.
    let is_something = |first: &usize| first % 6 != 3;
    let branch = |first: usize| Branch {
        phase: first % BANDS,
        shift: first / BANDS,
        taps: std::array::from_fn(|tap| prototype[first + tap * PERIOD] as f32),
        weights: std::array::from_fn(|band| {
            (2.0 * (PI * ((2 * band + 1) * first) as f64 / 6.0).cos()) as f32
        }),
    };
    (0..PERIOD).filter(is_something).map(branch).collect()
}

/// Coefficients of the low-pass; its gain at 0 Hz is 1.
fn prototype() -> [f64; TAPS] {
    let middle = (TAPS - 1) as f64 / 2.0;
    let taps: [f64; TAPS] = std::array::from_fn(|tap| {
        let from_middle = tap as f64 - middle;
        let turn = PI * from_middle / 6.0;
        let share = from_middle / middle;
        turn.sin() / turn * bessel(BETA * (1.0 - share * share).max(0.0).sqrt())
    });
    let sum: f64 = taps.iter().sum();
    taps.map(|it| it / sum)
}

/// The modified Bessel function of the first kind and order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..30 {
        term *= (x / 2.0 / f64::from(k)).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(hz: f64, frames: usize) -> Vec<f32> {
        let turn = std::f64::consts::TAU * hz / 48_000.0;
        (0..frames * FRAME)
            .map(|at| (turn * at as f64).sin() as f32)
            .collect()
    }

    fn power(samples: &[f32]) -> f64 {
        samples.iter().map(|it| f64::from(it * it)).sum::<f64>() / samples.len() as f64
    }

    fn split_and_joined(input: &[f32]) -> Vec<f32> {
        let (mut split, mut join) = (Split::new(), Join::new());
        let mut output = vec![0.0; input.len()];
        let mut bands = [[0.0; BAND]; BANDS];
        for (frame, out) in input.chunks(FRAME).zip(output.chunks_mut(FRAME)) {
            split.split(frame, &mut bands);
            join.join(&bands, out);
        }
        output
    }

    #[test]
    fn what_is_split_and_joined_is_what_it_was_46_samples_later() {
        // In the middle of a band, where no neighbor has any of it.
        for hz in [4_000.0, 12_000.0] {
            let input = tone(hz, 20);
            let output = split_and_joined(&input);
            let pairs = output[FRAME..].iter().zip(&input[FRAME - 46..]);
            let errors: Vec<f32> = pairs.map(|(output, input)| output - input).collect();
            let error_db = 10.0 * (power(&errors) / power(&input)).log10();
            assert!(error_db < -40.0, "{hz} Hz: {error_db} dB");
        }
    }

    #[test]
    fn no_frequency_is_lost_between_the_bands() {
        for step in 1..240 {
            let hz = 100.0 * f64::from(step);
            let input = tone(hz, 20);
            let output = split_and_joined(&input);
            let gain_db = 10.0 * (power(&output[FRAME..]) / power(&input)).log10();
            // The bank is not a perfect one: least at 7.9 and 16.1 kHz.
            assert!((-4.0..1.0).contains(&gain_db), "{hz} Hz: {gain_db} dB");
        }
    }

    #[test]
    fn each_band_has_what_is_its_own() {
        for (hz, own) in [(1_000.0, 0), (6_000.0, 0), (12_000.0, 1), (20_000.0, 2)] {
            let mut split = Split::new();
            let mut bands = [[0.0; BAND]; BANDS];
            for frame in tone(hz, 4).chunks(FRAME) {
                split.split(frame, &mut bands);
            }
            for (band, samples) in bands.iter().enumerate() {
                let db = 10.0 * power(samples).log10();
                match band == own {
                    true => assert!((-4.0..-2.0).contains(&db), "{hz} Hz, {band}: {db} dB"),
                    false => assert!(db < -30.0, "{hz} Hz, {band}: {db} dB"),
                }
            }
        }
    }

    /// Numbers from −0.5 to 0.5 that look random.
    fn noise(count: usize) -> Vec<f32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    /// Tap `n` of the filter of `band`: the low-pass, moved to the middle of the band.
    fn tap(prototype: &[f64; TAPS], band: usize, n: usize) -> f64 {
        2.0 * prototype[n] * (PI * ((2 * band + 1) * n) as f64 / 6.0).cos()
    }

    #[test]
    fn each_band_is_the_input_filtered_and_every_third_sample_of_it() {
        let (prototype, input) = (prototype(), noise(3 * FRAME));
        let (mut split, mut bands) = (Split::new(), [[0.0; BAND]; BANDS]);
        for (number, frame) in input.chunks(FRAME).enumerate() {
            split.split(frame, &mut bands);
            for (band, samples) in bands.iter().enumerate() {
                for (at, sample) in samples.iter().enumerate() {
                    let newest = number * FRAME + 3 * at + 2;
                    let taps = (0..TAPS.min(newest + 1))
                        .map(|n| tap(&prototype, band, n) * f64::from(input[newest - n]));
                    let wanted: f64 = taps.sum();
                    let error = (f64::from(*sample) - wanted).abs();
                    assert!(error < 1e-5, "frame {number}, band {band}, {at}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_joined_is_every_band_with_two_zeros_between_its_samples_filtered() {
        let (prototype, input) = (prototype(), noise(3 * FRAME));
        let mut join = Join::new();
        let frames = 3;
        // Band 0 of all frames, then band 1, then band 2.
        let band = |band: usize, at: usize| f64::from(input[band * frames * BAND + at]);
        for number in 0..frames {
            let bands: Bands = std::array::from_fn(|it| {
                std::array::from_fn(|at| band(it, number * BAND + at) as f32)
            });
            let mut out = [0.0; FRAME];
            join.join(&bands, &mut out);
            for (at, sample) in out.iter().enumerate() {
                let newest = number * FRAME + at;
                let mut wanted = 0.0;
                for n in (newest % 3..TAPS.min(newest + 1)).step_by(3) {
                    for it in 0..BANDS {
                        wanted += 3.0 * tap(&prototype, it, n) * band(it, (newest - n) / 3);
                    }
                }
                let error = (f64::from(*sample) - wanted).abs();
                assert!(error < 1e-5, "frame {number}, {at}: {error}");
            }
        }
    }

    #[test]
    fn the_low_pass_is_a_sinc_in_a_kaiser_window() {
        // The Bessel function by its integral.
        let bessel = |x: f64| {
            let steps = 1_000;
            let angle = |step: u32| PI * (f64::from(step) + 0.5) / f64::from(steps);
            (0..steps)
                .map(|it| (x * angle(it).cos()).exp())
                .sum::<f64>()
                / f64::from(steps)
        };
        for x in [0.0, 0.5, 2.0, 3.5] {
            assert!((super::bessel(x) / bessel(x) - 1.0).abs() < 1e-9, "{x}");
        }
        let window = |n: usize| {
            let from_middle = n as f64 - 23.5;
            let share = from_middle / 23.5;
            let turn = PI * from_middle / 6.0;
            turn.sin() / turn * bessel(3.5 * (1.0 - share * share).sqrt())
        };
        let sum: f64 = (0..TAPS).map(window).sum();
        for (n, tap) in prototype().into_iter().enumerate() {
            assert!((tap - window(n) / sum).abs() < 1e-9, "{n}: {tap}");
        }
    }
}
