//! Sample rate conversion whose ratio follows the source's clock.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Resampler as _, SincInterpolationParameters, SincInterpolationType,
    WindowFunction,
};

use crate::RATE;
use crate::decode::Format;

/// Filter length in samples of the source, or of the target if its rate is lower: at 8 kHz half of it
/// delays by 2 ms, at 48 kHz by 0.33 ms.
const TAPS: usize = 32;

/// Filters between two samples of the source. The value between two filters is interpolated.
const PHASES: usize = 128;

/// Samples of each channel that are converted in one call.
const CHUNK: usize = 64;

/// Largest correction of the ratio: half a percent, a twelfth of a semitone.
pub(crate) const CORRECTION_MAX: f64 = 0.005;

/// Converts interleaved samples to another sample rate.
#[derive(derive_more::Debug)]
#[debug("Resampler {{ ratio: {ratio:?}, correction: {correction:?}, .. }}")]
pub(crate) struct Resampler {
    resampler: Async<f32>,
    channels: usize,
    taps: usize,
    ratio: f64,
    correction: f64,
    /// Samples that do not fill a chunk yet.
    waiting: Vec<f32>,
    converted: Vec<f32>,
}

impl Resampler {
    /// Creates a converter from samples of `format` to [`RATE`].
    ///
    /// # Errors
    /// Returns the reason of the converter, as a text for people.
    pub(crate) fn new(format: Format) -> Result<Self, String> {
        Self::between(format, RATE)
    }

    /// Creates a converter from samples of `format` to `rate` in Hz.
    ///
    /// # Errors
    /// Returns the reason of the converter, as a text for people.
    pub(crate) fn between(format: Format, rate: u32) -> Result<Self, String> {
        // The filter must be as steep at the lower one of both rates.
        let taps = TAPS * format.rate.div_ceil(rate) as usize;
        let parameters = SincInterpolationParameters::new(taps, WindowFunction::Blackman2)
            .oversampling_factor(PHASES)
            .interpolation(SincInterpolationType::Linear);
        let ratio = f64::from(rate) / f64::from(format.rate);
        let resampler = Async::new_sinc(
            ratio,
            1.0 + 2.0 * CORRECTION_MAX,
            &parameters,
            CHUNK,
            format.channels,
            FixedAsync::Input,
        )
        .map_err(|error| error.to_string())?;
        Ok(Self {
            converted: vec![0.0; resampler.output_frames_max() * format.channels],
            resampler,
            channels: format.channels,
            taps,
            ratio,
            correction: 0.0,
            waiting: Vec::with_capacity(2 * CHUNK * format.channels),
        })
    }

    /// Makes the output longer by the share `correction` of its length, or shorter if it is
    /// negative. At most [`CORRECTION_MAX`] is applied.
    pub(crate) fn correct(&mut self, correction: f64) {
        let correction = correction.clamp(-CORRECTION_MAX, CORRECTION_MAX);
        // A ramp within one chunk hides the change.
        let set = rubato::Resampler::as_adjustable(&mut self.resampler)
            .map(|it| it.set_resample_ratio_relative(1.0 + correction, true));
        if matches!(set, Some(Ok(()))) {
            self.correction = correction;
        }
    }

    /// Converts whole samples of all channels and appends the result to `out`.
    pub(crate) fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.waiting.extend_from_slice(samples);
        let chunk = CHUNK * self.channels;
        let whole = self.waiting.len() / chunk * chunk;
        for start in (0..whole).step_by(chunk) {
            let most = self.converted.len() / self.channels;
            let input = &self.waiting[start..start + chunk];
            let from = InterleavedSlice::new(input, self.channels, CHUNK);
            let to = InterleavedSlice::new_mut(&mut self.converted, self.channels, most);
            let (Ok(from), Ok(mut to)) = (from, to) else {
                continue;
            };
            let done = self.resampler.process_into_buffer(&from, &mut to, None);
            if let Ok((_, made)) = done {
                out.extend_from_slice(&self.converted[..made * self.channels]);
            }
        }
        self.waiting.drain(..whole);
    }

    /// Returns by how many samples of the target the next sample that goes in will come out behind
    /// the next sample that comes out: the filter's delay and what waits for a whole chunk.
    pub(crate) fn delay(&self) -> f64 {
        let waiting = (self.waiting.len() / self.channels) as f64;
        (waiting + self.taps as f64 / 2.0) * self.ratio * (1.0 + self.correction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resampler(rate: u32, channels: usize) -> Resampler {
        Resampler::new(Format { rate, channels }).expect("a usual format")
    }

    #[test]
    fn the_delay_is_half_of_the_filter_and_what_waits_for_a_chunk() {
        let mut mono = resampler(8_000, 1);
        let mut out = Vec::new();
        // Samples that go in, and the delay in samples at 48 kHz behind them.
        for (count, delay) in [(0, 96.0), (10, 156.0), (53, 474.0), (1, 96.0), (130, 108.0)] {
            mono.push(&vec![0.0; count], &mut out);
            assert_eq!(mono.delay(), delay, "{count}");
        }
        let mut stereo = resampler(16_000, 2);
        stereo.push(&[0.0; 20], &mut out);
        assert_eq!(stereo.delay(), 78.0);
        stereo.push(&[0.0; 108], &mut out);
        assert_eq!(stereo.delay(), 48.0);
    }

    #[test]
    fn corrections_are_limited_and_change_delay_and_length() {
        for (correction, applied) in [
            (0.002, 0.002),
            (-0.002, -0.002),
            (0.01, CORRECTION_MAX),
            (-0.01, -CORRECTION_MAX),
        ] {
            let mut resampler = resampler(8_000, 1);
            resampler.correct(correction);
            assert!((resampler.delay() - 96.0 * (1.0 + applied)).abs() < 1e-9);
            let mut out = Vec::new();
            resampler.push(&[0.0; 8_000], &mut out);
            // The filter keeps two of the samples.
            let expected = 6.0 * 7_998.0 * (1.0 + applied);
            assert!((out.len() as f64 - expected).abs() < 4.0, "{}", out.len());
        }
    }

    #[test]
    fn every_sample_of_each_channel_is_converted() {
        let mut resampler = resampler(24_000, 2);
        let mut out = Vec::new();
        for _ in 0..40 {
            resampler.push(&[0.5, -0.25].repeat(48), &mut out);
        }
        // 1920 samples in are 30 whole chunks, of which the filter keeps two samples.
        assert!(out.len().abs_diff(2 * 3_836) <= 4, "{}", out.len());
        for sample in out.as_chunks::<2>().0.iter().skip(100) {
            assert!((sample[0] - 0.5).abs() < 1e-3, "{sample:?}");
            assert!((sample[1] + 0.25).abs() < 1e-3, "{sample:?}");
        }
    }
}
