//! Sample rate conversion in a stream; input may have any lengths.
//!
//! The filter is a windowed sinc, tabulated at exactly the phases that the ratio of two rates
//! has (147 of them from 48 to 44.1 kHz), so that no interpolation is needed and a sample
//! costs one dot product of the filter's length.

use std::fmt;
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

impl fmt::Debug for Resampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resampler")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("channels", &self.channels)
            .finish_non_exhaustive()
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
