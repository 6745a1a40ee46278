//! Expand: continues the audio when no packet is there, by repeating the last pitch period
//! and fading (as ITU-T G.711 appendix I does), and joins it to decoded audio later.

use crate::codec::Format;
use crate::pitch::{self, LAG_MS, WINDOW_MS};
use crate::playout_buffer::PlayoutBuffer;
use crate::stretch::fade;

/// Length for which repeated audio keeps its level, in ms.
const FULL_MS: f64 = 10.0;
/// Length after which repeated audio has faded to silence, in ms.
const SILENT_MS: f64 = 70.0;

/// Correlation below which a signal has no pitch; a longer piece of it is repeated.
const VOICED_FIT: f32 = 0.5;

/// Correlation at which two segments may be crossfaded without a longer search.
const JOIN_FIT: f32 = 0.6;

/// A continuation of audio by repetition.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    format: Format,
    /// Segment that is repeated; whole frames.
    period: Vec<f32>,
    /// Frames generated so far.
    generated: usize,
    is_voiced: bool,
}

impl Expansion {
    /// Makes a continuation of all audio in `playout_buffer`, waiting audio included.
    pub(crate) fn after(playout_buffer: &PlayoutBuffer) -> Self {
        let format = playout_buffer.format();
        let end = playout_buffer.waiting() as isize;
        let window = format.frames(WINDOW_MS);
        let (low, high) = (format.frames(LAG_MS.0), format.frames(LAG_MS.1));
        let lag = pitch::search(playout_buffer, end - window as isize, true, low, high);
        let is_voiced = lag.fit >= VOICED_FIT;
        let period = if is_voiced { lag.frames } else { high };
        let mut period = playout_buffer.span(end - period as isize, end).to_vec();
        if !is_voiced {
            // Played backward, then forward: there is no seam, and no tone at the
            // repetition's rate.
            let back: Vec<f32> = period
                .chunks_exact(format.channels())
                .rev()
                .flatten()
                .copied()
                .collect();
            period.splice(0..0, back);
            // The backward part comes first, since it continues what was played last.
        }
        Self {
            format,
            period,
            generated: 0,
            is_voiced,
        }
    }

    /// Appends the next `frames` frames to `out`.
    pub(crate) fn generate(&mut self, frames: usize, out: &mut Vec<f32>) {
        for _ in 0..frames {
            let gain = self.gain();
            let channels = self.format.channels();
            let at = self.generated * channels % self.period.len();
            out.extend(self.period[at..at + channels].iter().map(|it| it * gain));
            self.generated += 1;
        }
    }

    /// Whether the continuation has faded to silence.
    pub(crate) fn is_silent(&self) -> bool {
        self.gain() == 0.0
    }

    /// Joins `decoded` to the generated audio: generates a little more, up to where both
    /// match, and crossfades. If `decoded` is background (`is_silence`), crossfades at once.
    /// Returns the audio to be played, and the number of frames by which it is longer than
    /// `decoded`.
    pub(crate) fn join(mut self, decoded: &[f32], is_silence: bool) -> (Vec<f32>, usize) {
        let channels = self.format.channels();
        let window = self.format.frames(WINDOW_MS).min(decoded.len() / channels);
        let slack = match self.is_voiced && !self.is_silent() && !is_silence {
            true => self.period.len() / channels,
            false => 0,
        };
        let mut more = Vec::new();
        self.generate(slack + window, &mut more);
        let head = &decoded[..window * channels];
        let fit = |skip: usize| {
            let part = &more[skip * channels..(skip + window) * channels];
            let (mut both, mut left, mut right) = (0.0f32, 1e-9f32, 1e-9f32);
            for (a, b) in part.iter().zip(head) {
                both += a * b;
                left += a * a;
                right += b * b;
            }
            both / (left * right).sqrt()
        };
        // Every quarter of a millisecond is near enough for a fade, and the first
        // place that fits is better than the best: all up to there is made up.
        let step = self.format.frames(0.25);
        let mut best = (0, fit(0));
        for skip in (step..slack).step_by(step) {
            if best.1 >= JOIN_FIT {
                break;
            }
            let found = fit(skip);
            if found > best.1 {
                best = (skip, found);
            }
        }
        let (skip, end) = (best.0, best.0 + window);
        let mut joined = more[..skip * channels].to_vec();
        joined.extend(fade(
            &more[skip * channels..end * channels],
            head,
            channels,
            1.0,
        ));
        joined.extend_from_slice(&decoded[window * channels..]);
        (joined, skip)
    }

    fn gain(&self) -> f32 {
        let ms = self.format.ms(self.generated);
        (1.0 - (ms - FULL_MS) / (SILENT_MS - FULL_MS)).clamp(0.0, 1.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_begins_at_once_and_a_voice_in_step() {
        let format = Format::new(16_000, 1).expect("a voice's");
        let tone = |from: i32, to: i32| -> Vec<f32> {
            let turns = |at: i32| at as f32 * std::f32::consts::TAU / 80.0;
            (from..to).map(|at| 0.3 * turns(at).sin()).collect()
        };
        let mut playout_buffer = PlayoutBuffer::new(format);
        playout_buffer.append(&tone(0, 1_600));
        let mut expansion = Expansion::after(&playout_buffer);
        expansion.generate(16, &mut Vec::new());
        // Half a period out of step with what goes on.
        let decoded = tone(1_656, 1_816);
        let (joined, longer) = expansion.clone().join(&decoded, false);
        assert!(longer > 0 && joined.len() == decoded.len() + longer);
        let (joined, longer) = expansion.join(&decoded, true);
        assert_eq!((joined.len(), longer), (decoded.len(), 0));
    }

    /// A wave at 8 kHz that is like itself after 40 frames only.
    fn wave(at: usize) -> f32 {
        let place = at as isize % 40;
        ((7 * place * place + 3 * place) % 41 - 20) as f32 / 64.0
    }

    /// 60 ms of the wave, at 8 kHz; a second channel has it turned over and softer.
    fn voiced(channels: usize) -> PlayoutBuffer {
        let mut buffer = PlayoutBuffer::new(Format::new(8_000, channels).expect("a voice's"));
        let frame = |at| (0..channels).map(move |it| wave(at) * [1.0, -0.5][it]);
        buffer.append(&(0..480).flat_map(frame).collect::<Vec<_>>());
        buffer
    }

    #[test]
    fn a_voice_goes_on_for_10_ms_and_fades_until_70() {
        for channels in [1, 2] {
            let mut expansion = Expansion::after(&voiced(channels));
            assert_eq!(expansion.period.len(), 40 * channels);
            let mut out = Vec::new();
            // In two pieces, as a device asks.
            expansion.generate(130, &mut out);
            assert!(!expansion.is_silent());
            expansion.generate(429, &mut out);
            assert!(!expansion.is_silent(), "69.9 ms");
            expansion.generate(1, &mut out);
            assert!(expansion.is_silent(), "70 ms");
            expansion.generate(40, &mut out);
            for (frame, samples) in out.chunks_exact(channels).enumerate() {
                let ms = frame as f32 / 8.0;
                let gain = (1.0 - (ms - 10.0) / 60.0).clamp(0.0, 1.0);
                let wanted = wave(480 + frame) * gain;
                assert!((samples[0] - wanted).abs() < 1e-6, "{frame}");
                if channels == 2 {
                    assert!((samples[1] + 0.5 * wanted).abs() < 1e-6, "{frame}");
                }
            }
            assert_eq!(out.len(), 600 * channels);
        }
    }

    #[test]
    fn noise_goes_on_backward_and_then_forward() {
        let mut buffer = PlayoutBuffer::new(Format::new(8_000, 2).expect("stereo"));
        let mut state = 1u32;
        let noise: Vec<f32> = (0..960)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 16_777_216.0 - 0.5
            })
            .collect();
        buffer.append(&noise);
        let mut expansion = Expansion::after(&buffer);
        let mut out = Vec::new();
        expansion.generate(80, &mut out);
        // The last 15 ms, from their end on; the channels keep their places.
        let wanted = noise[960 - 160..].as_chunks::<2>().0.iter().rev().flatten();
        assert!(out.iter().eq(wanted));
        // What has no step does not wait for one: not even for what fits later.
        let later = noise[..320].to_vec();
        assert_eq!(expansion.clone().join(&later, false).1, 0);
        let (joined, longer) = expansion.clone().join(&noise[960 - 160..], false);
        assert_eq!((joined.len(), longer), (160, 0));
        expansion.generate(40, &mut Vec::new());
        let mut out = Vec::new();
        expansion.generate(1, &mut out);
        let gain = 1.0 - 5.0 / 60.0;
        assert!(
            (out[0] - noise[960 - 240] * gain).abs() < 1e-6,
            "and forward"
        );
    }

    #[test]
    fn decoded_audio_waits_for_its_step() {
        for channels in [1, 2] {
            let expansion = Expansion::after(&voiced(channels));
            // By so many frames what is decoded is behind; it is looked for each 2 frames.
            for behind in [0, 2, 10, 38] {
                let frame = |at| (0..channels).map(move |it| wave(at) * [1.0, -0.5][it]);
                let decoded: Vec<f32> = (0..160).map(|at| at + behind).flat_map(frame).collect();
                let (joined, longer) = expansion.clone().join(&decoded, false);
                let what = format!("{channels}, {behind}");
                assert_eq!(longer, behind, "{what}");
                assert_eq!(joined.len(), (160 + behind) * channels, "{what}");
                for (at, samples) in joined.chunks_exact(channels).enumerate() {
                    assert!((samples[0] - wave(at)).abs() < 1e-5, "{what}, {at}");
                }
                // Background does not wait, nor does what has faded.
                assert_eq!(expansion.clone().join(&decoded, true).1, 0);
                let mut faded = expansion.clone();
                faded.generate(560, &mut Vec::new());
                assert_eq!(faded.join(&decoded, false).1, 0);
            }
        }
        // Silence fits nowhere better than at once.
        let expansion = Expansion::after(&voiced(1));
        assert_eq!(expansion.clone().join(&[0.0; 160], false).1, 0);
        // 2 ms are faded over their whole length, and after 10 ms what went on fades, too.
        let mut expansion = expansion;
        expansion.generate(80, &mut Vec::new());
        let (joined, longer) = expansion.join(&[0.0; 16], false);
        assert_eq!((joined.len(), longer), (16, 0));
        for (at, sample) in joined.iter().enumerate() {
            let share = 1.0 - (at as f32 + 0.5) / 16.0;
            let gain = 1.0 - at as f32 / 480.0;
            assert!((sample - wave(at) * gain * share).abs() < 1e-5, "{at}");
        }
    }
}
