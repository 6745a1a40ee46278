//! Sample rate conversion in a stream; input may have any lengths.
//!
//! The filter is a windowed sinc, tabulated at exactly the phases that the ratio of two rates
//! has (147 of them from 48 to 44.1 kHz), so that no interpolation is needed and a sample
//! costs one dot product of the filter's length.

use std::time::Duration;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Resampler as _, Resizable as _, SincInterpolationParameters,
    SincInterpolationType, WindowFunction,
};

/// Filter length, in samples at the lower of both rates: 0.7 ms of delay at 44.1 kHz.
const TAPS: usize = 64;

/// Most frames that are converted in one call of the resampler.
const CHUNK: usize = 480;

/// Converts the sample rate of interleaved samples.
#[derive(derive_more::Debug)]
#[debug("Resampler {{ from: {from:?}, to: {to:?}, channels: {channels:?}, .. }}")]
pub(crate) struct Resampler {
    from: u32,
    to: u32,
    channels: usize,
    /// The converter; `None` if both rates are equal.
    inner: Option<Inner>,
}

struct Inner {
    resampler: Async<f32>,
    out: Vec<f32>,
    delay: Duration,
}

impl Resampler {
    /// Makes a converter from `from` to `to` Hz, both 8 to 48 kHz.
    pub(crate) fn new(from: u32, to: u32, channels: usize) -> Self {
        Self {
            from,
            to,
            channels,
            inner: (from != to).then(|| Inner::new(from, to, channels)),
        }
    }

    /// Input and output rate, in Hz.
    pub(crate) const fn rates(&self) -> (u32, u32) {
        (self.from, self.to)
    }

    /// Delay of the filter.
    pub(crate) fn delay(&self) -> Duration {
        self.inner.as_ref().map_or(Duration::ZERO, |it| it.delay)
    }

    /// Converts whole frames and appends the result to `out`.
    pub(crate) fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        match &mut self.inner {
            None => out.extend_from_slice(samples),
            Some(inner) => {
                for chunk in samples.chunks(CHUNK * self.channels) {
                    inner.push(chunk, self.channels, out);
                }
            }
        }
    }
}

impl Inner {
    fn new(from: u32, to: u32, channels: usize) -> Self {
        let common = gcd(from, to);
        let phases = (to / common) as usize;
        // Frequencies above half of the lower rate must be removed, so the filter's
        // length is counted in samples at the lower rate.
        let taps = TAPS * (from.div_ceil(to).max(1) as usize);
        let parameters = SincInterpolationParameters::new(taps, WindowFunction::Blackman2)
            .oversampling_factor(phases)
            .interpolation(SincInterpolationType::Nearest);
        let ratio = f64::from(to) / f64::from(from);
        let resampler =
            Async::new_sinc(ratio, 1.0, &parameters, CHUNK, channels, FixedAsync::Input)
                .expect("both rates are 8 to 48 kHz");
        let most = resampler.output_frames_max();
        Self {
            resampler,
            out: vec![0.0; most * channels],
            delay: Duration::from_secs_f64(taps as f64 / 2.0 / f64::from(from)),
        }
    }

    fn push(&mut self, samples: &[f32], channels: usize, out: &mut Vec<f32>) {
        let frames = samples.len() / channels;
        let most = self.out.len() / channels;
        let from = InterleavedSlice::new(samples, channels, frames);
        let to = InterleavedSlice::new_mut(&mut self.out, channels, most);
        let (Ok(from), Ok(mut to)) = (from, to) else {
            return;
        };
        // Lengths are checked above: no chunk is empty or longer than `CHUNK`.
        if self.resampler.set_chunk_size(frames).is_err() {
            return;
        }
        if let Ok((_, made)) = self.resampler.process_into_buffer(&from, &mut to, None) {
            out.extend_from_slice(&self.out[..made * channels]);
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_half_of_a_filter_of_64_samples_at_the_lower_rate() {
        for (from, to, taps) in [
            (8_000, 48_000, 64.0),
            (44_100, 48_000, 64.0),
            (48_000, 44_100, 128.0),
            (48_000, 16_000, 192.0),
            (48_000, 11_025, 320.0),
        ] {
            let resampler = Resampler::new(from, to, 1);
            assert_eq!(resampler.rates(), (from, to));
            let delay_s = taps / 2.0 / f64::from(from);
            let stated = resampler.delay().as_secs_f64();
            assert!((stated - delay_s).abs() < 1e-8, "{from} {to}: {stated}");
        }
        assert_eq!(Resampler::new(8_000, 8_000, 2).delay(), Duration::ZERO);
        let pairs = [(48_000, 44_100), (44_100, 48_000), (16_000, 48_000), (7, 0)];
        assert_eq!(pairs.map(|(a, b)| gcd(a, b)), [300, 300, 16_000, 7]);
    }

    #[test]
    fn channels_stay_apart_and_lengths_have_the_ratio_of_the_rates() {
        for (from, to) in [(16_000, 48_000), (48_000, 16_000), (44_100, 48_000)] {
            let mut resampler = Resampler::new(from, to, 2);
            // 1 kHz in one channel, a constant in the other; longer than a chunk at once.
            let frames = from as usize / 2;
            let turn = std::f32::consts::TAU * 1_000.0 / from as f32;
            let frame = |at: usize| [0.5 * (turn * at as f32).sin(), 0.25];
            let input: Vec<f32> = (0..frames).flat_map(frame).collect();
            let mut out = vec![7.0];
            resampler.push(&input, &mut out);
            assert_eq!(out.remove(0), 7.0, "what was there stays");
            let (pairs, rest) = out.as_chunks::<2>();
            assert!(rest.is_empty());
            assert!(
                pairs.len().abs_diff(to as usize / 2) < 16,
                "{}",
                pairs.len()
            );
            // Once the filter is full.
            let settled = &pairs[pairs.len() / 4..];
            assert!(settled.iter().all(|it| (it[1] - 0.25).abs() < 1e-3));
            let tone: Vec<f32> = settled.iter().map(|it| it[0]).collect();
            let level = crate::pitch::level(&tone);
            assert!((level - 0.5 * 0.5f32.sqrt()).abs() < 3e-3, "{level}");
        }
        let mut same = Resampler::new(48_000, 48_000, 1);
        let mut out = Vec::new();
        same.push(&[0.1, 0.2], &mut out);
        assert_eq!(out, [0.1, 0.2]);
    }
}
