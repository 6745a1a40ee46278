//! From decoded samples to Opus frames: one sample rate, one timeline, frames of one length.

use glassline_media::MediaTime;

use crate::FRAME_SAMPLES;
use crate::clock::{Alignment, OutputClock};
use crate::decode::Format;
use crate::encode::{Encoder, OpusFrame, Settings};
use crate::resample::Resampler;

/// Samples over which audio is blended where it was cut: 5 ms, so that the cut does not click.
const BLEND: usize = 240;

/// Makes Opus frames of samples of one format.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    resampler: Resampler,
    encoder: Encoder,
    clock: OutputClock,
    /// Interleaved samples at 48 kHz that do not fill a frame yet.
    pending: Vec<f32>,
    converted: Vec<f32>,
    /// Samples of each channel that are left out before the next one is kept.
    skip: usize,
    /// Samples of each channel that are still to be blended with `last`.
    blend: usize,
    /// The latest sample of each channel before a cut.
    last: [f32; 2],
}

/// What a frame did to the alignment with the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aligned {
    /// Whether samples were inserted or left out.
    pub(crate) stepped: bool,
    /// Whether the output began again at another time.
    pub(crate) restarted: bool,
}

impl Output {
    /// Creates the output for samples of `format`.
    ///
    /// # Errors
    /// Returns the reason of the resampler or of libopus.
    pub(crate) fn new(format: Format, settings: Settings) -> Result<Self, String> {
        Ok(Self {
            format,
            resampler: Resampler::new(format)?,
            encoder: Encoder::new(format.channels, settings)?,
            clock: OutputClock::default(),
            pending: Vec::with_capacity(4 * FRAME_SAMPLES * format.channels),
            converted: Vec::new(),
            skip: 0,
            blend: BLEND,
            last: [0.0; 2],
        })
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Returns the end of what was made.
    pub(crate) fn end(&self) -> Option<MediaTime> {
        self.clock.time(0)
    }

    /// Takes interleaved samples, the first of them at `time`, and appends the frames that are
    /// full to `frames`. Nothing is made for times before `floor`.
    ///
    /// # Errors
    /// Returns the reason of libopus.
    pub(crate) fn push(
        &mut self,
        samples: &[f32],
        time: MediaTime,
        floor: Option<MediaTime>,
        frames: &mut Vec<OpusFrame>,
    ) -> Result<Aligned, String> {
        let count = samples.len() / self.format.channels;
        let duration = count as f64 / f64::from(self.format.rate);
        let delay = self.resampler.delay() - self.skip as f64;
        let mut aligned = Aligned::default();
        match self.clock.align(time, duration, delay) {
            Alignment::Correct(correction) => self.resampler.correct(correction),
            Alignment::Insert(count) => {
                aligned.stepped = true;
                self.insert(count);
            }
            Alignment::Skip(count) => {
                aligned.stepped = true;
                self.skip += count;
                self.blend = BLEND;
            }
            Alignment::Restart => {
                aligned.restarted = true;
                self.flush(frames)?;
                let floor = self.end().max(floor);
                self.skip = self.clock.restart(time, self.resampler.delay(), floor);
                self.blend = BLEND;
            }
        }
        let mut converted = std::mem::take(&mut self.converted);
        self.resampler.push(samples, &mut converted);
        self.append(&converted);
        converted.clear();
        self.converted = converted;
        self.encode(frames)?;
        Ok(aligned)
    }

    /// Makes a last frame of the samples that do not fill one, with silence behind them.
    ///
    /// # Errors
    /// Returns the reason of libopus.
    pub(crate) fn flush(&mut self, frames: &mut Vec<OpusFrame>) -> Result<(), String> {
        let waiting = self.pending.len() / self.format.channels;
        if waiting > 0 {
            self.insert(FRAME_SAMPLES - waiting);
            self.encode(frames)?;
        }
        Ok(())
    }

    /// Appends `count` samples that fade from the latest one into silence.
    fn insert(&mut self, count: usize) {
        for index in 0..count {
            let weight = 1.0 - (index + 1) as f32 / BLEND as f32;
            for channel in 0..self.format.channels {
                self.pending.push(self.last[channel] * weight.max(0.0));
            }
        }
        self.clock.add(count);
        let end = self.pending.len().saturating_sub(self.format.channels);
        if let Some(last) = self.pending.get(end..) {
            self.last[..last.len()].copy_from_slice(last);
        }
        self.blend = BLEND;
    }

    /// Appends converted samples, except for those to skip.
    fn append(&mut self, converted: &[f32]) {
        let channels = self.format.channels;
        let skipped = self.skip.min(converted.len() / channels);
        self.skip -= skipped;
        let kept = &converted[skipped * channels..];
        for sample in kept.chunks_exact(channels) {
            let weight = 1.0 - self.blend as f32 / BLEND as f32;
            for (value, last) in sample.iter().zip(&mut self.last) {
                if self.blend == 0 {
                    self.pending.push(*value);
                } else {
                    self.pending.push(weight * value + (1.0 - weight) * *last);
                }
            }
            self.blend = self.blend.saturating_sub(1);
        }
        self.clock.add(kept.len() / channels);
        if self.blend == 0
            && let Some(last) = kept.last_chunk::<2>()
        {
            self.last = match channels {
                1 => [last[1]; 2],
                _ => *last,
            };
        }
    }

    /// Encodes the frames that are full.
    fn encode(&mut self, frames: &mut Vec<OpusFrame>) -> Result<(), String> {
        let frame = FRAME_SAMPLES * self.format.channels;
        let whole = self.pending.len() / frame * frame;
        let mut result = Ok(());
        for start in (0..whole).step_by(frame) {
            let back = (self.pending.len() - start) / self.format.channels;
            let Some(time) = self.clock.time(back) else {
                continue;
            };
            match self
                .encoder
                .encode(&self.pending[start..start + frame], time)
            {
                Ok(frame) => frames.push(frame),
                Err(reason) => result = Err(reason),
            }
        }
        self.pending.drain(..whole);
        result
    }
}
