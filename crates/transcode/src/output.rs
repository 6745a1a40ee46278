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

/// The effect of a frame on the alignment with the source.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn output(rate: u32, channels: usize) -> Output {
        Output::new(Format { rate, channels }, Settings::default()).expect("a usual format")
    }

    fn ns(nanos: i64) -> MediaTime {
        MediaTime::from_nanos(nanos)
    }

    /// An output that has begun at time zero.
    fn begun(channels: usize) -> Output {
        let mut output = output(48_000, channels);
        output.clock.restart(MediaTime::ZERO, 0.0, None);
        output
    }

    /// Each value within rounding.
    fn assert_near(values: &[f32], expected: impl IntoIterator<Item = f32>) {
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(values.len(), expected.len());
        for (at, (value, expected)) in values.iter().zip(expected).enumerate() {
            assert!((value - expected).abs() < 1e-5, "{at}: {value}, {expected}");
        }
    }

    #[test]
    fn what_is_inserted_fades_into_silence() {
        let mut output = begun(2);
        output.last = [0.48, -0.24];
        output.blend = 0;
        output.insert(120);
        let fading = |count: u16| {
            (1..=count).flat_map(|number| {
                let weight = (1.0 - f32::from(number) / 240.0).max(0.0);
                [0.48 * weight, -0.24 * weight]
            })
        };
        assert_near(&output.pending, fading(120));
        assert_near(&output.last, [0.24, -0.12]);
        assert_eq!(output.blend, BLEND);
        assert_eq!(output.end(), Some(ns(2_500_000)));

        let mut output = begun(2);
        output.last = [0.48, -0.24];
        output.insert(300);
        assert_near(&output.pending, fading(300));
        assert_eq!(output.last, [0.0, 0.0]);

        let mut mono = begun(1);
        mono.last = [0.5, 0.7];
        mono.insert(60);
        assert_eq!(mono.pending.len(), 60);
        assert_near(&mono.last[..1], [0.375]);
    }

    #[test]
    fn what_follows_a_cut_is_blended_with_what_was_before() {
        let mut output = begun(2);
        output.last = [1.0, -0.5];
        output.blend = 120;
        output.append(&[0.2, 0.4].repeat(200));
        let expected = (0..200u16).flat_map(|number| {
            let new = ((120.0 + f32::from(number)) / 240.0).min(1.0);
            [0.2, 0.4]
                .map(|it| it * new)
                .into_iter()
                .zip([1.0, -0.5])
                .map(move |(it, last)| it + (1.0 - new) * last)
        });
        assert_near(&output.pending, expected);
        assert_eq!(output.blend, 0);
        assert_eq!(output.last, [0.2, 0.4]);
        assert_eq!(output.clock.time(200), Some(MediaTime::ZERO));

        // While it is blended, the sample before the cut is kept.
        output.last = [1.0, -0.5];
        output.blend = 240;
        output.append(&[0.2, 0.4].repeat(100));
        assert_eq!((output.blend, output.last), (140, [1.0, -0.5]));
    }

    #[test]
    fn samples_are_skipped_before_any_is_kept() {
        let mut output = begun(2);
        (output.blend, output.skip) = (0, 5);
        output.append(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        assert_eq!((output.skip, output.pending.len()), (2, 0));
        assert_eq!(output.end(), Some(MediaTime::ZERO));
        output.append(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]);
        assert_eq!(output.skip, 0);
        assert_eq!(output.pending, [0.5, 0.6, 0.7, 0.8]);
        assert_eq!(output.last, [0.7, 0.8]);
        assert_eq!(output.clock.time(2), Some(MediaTime::ZERO));

        let mut mono = begun(1);
        (mono.blend, mono.skip) = (0, 1);
        mono.append(&[0.1, 0.2, 0.3]);
        assert_eq!(mono.pending, [0.2, 0.3]);
        assert_eq!(mono.last, [0.3, 0.3]);
    }

    #[test]
    fn full_frames_are_made_and_the_rest_waits() {
        for channels in [1, 2] {
            let mut output = begun(channels);
            let mut frames = Vec::new();
            output.append(&vec![0.1; 959 * channels]);
            output.encode(&mut frames).expect("nothing to do");
            assert!(frames.is_empty());
            output.append(&vec![0.1; 1_000 * channels]);
            output.encode(&mut frames).expect("two frames");
            // Both begin 2.5 ms before their samples.
            let times: Vec<_> = frames.iter().map(|frame| frame.time.nanos()).collect();
            assert_eq!(times, [-2_500_000, 17_500_000]);
            output.append(&vec![0.1; 1_900 * channels]);
            output.encode(&mut frames).expect("two more");
            let times: Vec<_> = frames.iter().map(|frame| frame.time.nanos()).collect();
            assert_eq!(times, [-2_500_000, 17_500_000, 37_500_000, 57_500_000]);
            assert_eq!(output.pending.len(), 19 * channels);
            output.flush(&mut frames).expect("the last frame");
            assert_eq!(frames.len(), 5);
            assert_eq!(frames[4].time.nanos(), 77_500_000);
            assert_eq!(output.end(), Some(ns(100_000_000)));
            output.flush(&mut frames).expect("nothing waits");
            assert_eq!((frames.len(), output.pending.len()), (5, 0));
        }
    }

    #[test]
    fn a_first_frame_begins_at_its_time() {
        let mut output = output(8_000, 1);
        let mut frames = Vec::new();
        let time = ns(1_000_000_000);
        let aligned = output.push(&[0.1; 160], time, None, &mut frames);
        let restarted = Aligned {
            stepped: false,
            restarted: true,
        };
        assert_eq!(aligned, Ok(restarted));
        // Half of the filter's 32 samples at 8 kHz are 2 ms.
        assert_eq!(output.clock.time(usize::MAX), Some(ns(998_000_000)));
        let next = output.push(&[0.1; 160], ns(1_020_000_000), None, &mut frames);
        assert_eq!(next, Ok(Aligned::default()));
        assert_eq!(frames[0].time, ns(995_500_000));
    }

    #[test]
    fn an_error_is_corrected_by_its_share_and_a_gap_is_filled() {
        let mut output = output(48_000, 2);
        let mut frames = Vec::new();
        let mut push =
            |output: &mut Output, nanos| output.push(&[0.0; 960 * 2], ns(nanos), None, &mut frames);
        assert!(push(&mut output, 0).is_ok_and(|it| it.restarted));
        let made = output.clock.time(0).expect("begun").nanos();
        let delay = output.resampler.delay();
        assert_eq!(delay, 16.0);
        // 10 ms late. The rest of the chunk that the filter keeps is below a millisecond.
        let due = made + 333_333;
        assert_eq!(push(&mut output, due + 10_000_000), Ok(Aligned::default()));
        let correction = 0.05 * 0.02 / 1.02 * 0.010;
        let applied = output.resampler.delay() / 16.0 - 1.0;
        assert!((applied / correction - 1.0).abs() < 1e-4, "{applied}");
        let end = output.end().expect("begun").nanos();
        let stepped = push(&mut output, end + 333_333 + 200_000_000);
        assert!(stepped.is_ok_and(|it| it.stepped && !it.restarted));
        let inserted = output.end().expect("begun").nanos() - end - 20_000_000;
        assert!((inserted - 200_000_000).abs() < 300_000, "{inserted}");
    }

    #[test]
    fn samples_that_were_made_already_are_left_out() {
        let mut output = output(48_000, 1);
        let mut frames = Vec::new();
        let mut skipped = Vec::new();
        for number in 0..12 {
            let back = if number < 3 { 0 } else { 200 };
            let time = ns((20 * number - back) * 1_000_000);
            let aligned = output.push(&[0.0; 960], time, None, &mut frames);
            if aligned.expect("samples").stepped {
                skipped.push((number, output.skip));
            }
        }
        // Of 9600 samples, 960 are left out with the frame itself. Those that wait to be left out
        // count as delay, so no later frame is a step.
        assert_eq!(skipped.len(), 1, "{skipped:?}");
        assert_eq!(skipped[0].0, 5, "three frames of five agree");
        assert!(skipped[0].1.abs_diff(9_600 - 960) <= 4, "{skipped:?}");
    }
}
