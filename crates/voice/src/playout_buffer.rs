use std::collections::VecDeque;

use crate::codec::Format;

/// Length of played audio that is kept, in ms: two of the longest pitch periods and the
/// window that is compared, so that concealment can find the period.
const HISTORY_MS: f64 = 60.0;

/// Decoded audio around the playout position: what was played lately, and what is decoded and
/// waits.
///
/// Samples of the channels are interleaved; a frame has one sample of each channel. Positions
/// are in frames relative to the playout position: the next frame to be played is 0, played
/// frames are negative.
#[derive(Clone, Debug)]
pub(crate) struct PlayoutBuffer {
    format: Format,
    samples: Vec<f32>,
    /// Index of the next sample to be played; always the first of a frame.
    head: usize,
    history: usize,
    /// Marked positions, in frames after the playout position, in rising order.
    marks: VecDeque<usize>,
}

impl PlayoutBuffer {
    /// Makes a buffer whose history is silence and in which no audio waits.
    pub(crate) fn new(format: Format) -> Self {
        let history = format.frames(HISTORY_MS);
        let samples = vec![0.0; history * format.channels()];
        Self {
            head: samples.len(),
            samples,
            format,
            history,
            marks: VecDeque::new(),
        }
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Number of played frames that are still available.
    pub(crate) const fn history(&self) -> usize {
        self.history
    }

    /// Number of frames that are decoded and not yet played.
    pub(crate) const fn waiting(&self) -> usize {
        (self.samples.len() - self.head) / self.format.channels()
    }

    /// Returns the samples from frame `from` to frame `to`.
    ///
    /// # Panics
    /// If the range is beyond the history or the waiting audio; callers guarantee that it is
    /// not.
    pub(crate) fn span(&self, from: isize, to: isize) -> &[f32] {
        &self.samples[self.index(from)..self.index(to)]
    }

    /// Appends decoded audio. A NaN becomes silence and values beyond full scale are clipped,
    /// so that no codec's mistake reaches an ear.
    pub(crate) fn append(&mut self, samples: &[f32]) {
        let whole = samples.len() - samples.len() % self.format.channels();
        let sane = samples[..whole].iter().map(|sample| match sample {
            it if it.is_nan() => 0.0,
            it => it.clamp(-1.0, 1.0),
        });
        self.samples.extend(sane);
    }

    /// Marks the frame that lies `frames` behind the end. Marks are set in rising order.
    pub(crate) fn mark(&mut self, frames: usize) {
        self.marks.push_back(self.waiting() + frames);
    }

    /// Replaces the frames before `to` by `samples`. A mark within them moves to where its
    /// frame is loudest after a crossfade: marks in the first half keep their distance to the
    /// start, the others move with what follows.
    pub(crate) fn replace(&mut self, to: usize, samples: &[f32]) {
        let end = self.index(to as isize);
        let frames = samples.len() / self.format.channels();
        self.samples.splice(self.head..end, samples.iter().copied());
        let middle = to.min(frames) / 2;
        for mark in self.marks.iter_mut().filter(|mark| **mark >= middle) {
            *mark = (*mark + frames).saturating_sub(to).max(middle);
        }
    }

    /// Plays audio into `out`: whole frames, at most as many as wait. Calls `left` for each
    /// mark that lies in this audio, with the number of frames before it.
    pub(crate) fn play(&mut self, out: &mut [f32], mut left: impl FnMut(usize)) {
        let frames = out.len() / self.format.channels();
        while let Some(mark) = self.marks.front().copied().filter(|mark| *mark < frames) {
            self.marks.pop_front();
            left(mark);
        }
        for mark in &mut self.marks {
            *mark -= frames;
        }
        let end = self.head + out.len();
        out.copy_from_slice(&self.samples[self.head..end]);
        self.head = end;
        // Old audio is removed in large pieces, because moving the rest costs time.
        let kept = self.history * self.format.channels();
        if self.head > 4 * kept {
            self.samples.drain(..self.head - kept);
            self.head = kept;
        }
    }

    fn index(&self, frame: isize) -> usize {
        let channels = isize::try_from(self.format.channels()).expect("1 or 2");
        let index = self.head.checked_add_signed(frame * channels);
        index.expect("callers look back no further than the history")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer of stereo at 8 kHz in which `frames` wait, each with its number, right
    /// negative.
    fn waiting(frames: usize, marks: &[usize]) -> PlayoutBuffer {
        let format = Format::new(8_000, 2).expect("stereo");
        let mut buffer = PlayoutBuffer::new(format);
        for mark in marks {
            buffer.mark(*mark);
        }
        buffer.append(&numbered(0..frames));
        buffer
    }

    fn numbered(frames: std::ops::Range<usize>) -> Vec<f32> {
        let value = |frame: usize| frame as f32 / 1_000.0;
        frames.flat_map(|it| [value(it), -value(it)]).collect()
    }

    /// Plays `frames`; returns the marks that lay in them.
    fn play(buffer: &mut PlayoutBuffer, frames: usize) -> Vec<usize> {
        let mut left = Vec::new();
        buffer.play(&mut vec![0.0; frames * 2], |mark| left.push(mark));
        left
    }

    #[test]
    fn marks_move_with_what_follows_a_change_of_length() {
        let mut shorter = waiting(100, &[4, 10, 60]);
        shorter.replace(40, &numbered(200..220));
        assert_eq!(shorter.waiting(), 80);
        assert_eq!(shorter.span(0, 20), numbered(200..220));
        assert_eq!(shorter.span(20, 80), numbered(40..100));
        assert_eq!(play(&mut shorter, 40), [4, 10]);
        assert_eq!(play(&mut shorter, 40), [0], "20 frames less than 60");
        let mut longer = waiting(100, &[4, 12, 60]);
        longer.replace(20, &numbered(200..240));
        assert_eq!(longer.waiting(), 120);
        assert_eq!(play(&mut longer, 120), [4, 32, 80]);
    }

    #[test]
    fn what_was_played_stays_for_60_ms() {
        let mut buffer = waiting(2_400, &[]);
        assert_eq!(buffer.history(), 480);
        assert!(buffer.span(-480, 0).iter().all(|it| *it == 0.0), "silence");
        for played in (100..=2_400).step_by(100) {
            assert_eq!(play(&mut buffer, 100), [0; 0]);
            assert_eq!(buffer.waiting(), 2_400 - played);
            let kept = played.min(480);
            let latest = buffer.span(-kept.cast_signed(), 0);
            assert_eq!(latest, clipped(numbered(played - kept..played)));
        }
    }

    fn clipped(samples: Vec<f32>) -> Vec<f32> {
        samples.into_iter().map(|it| it.clamp(-1.0, 1.0)).collect()
    }

    #[test]
    fn what_a_codec_makes_beyond_full_scale_reaches_no_ear() {
        let mut buffer = waiting(0, &[]);
        buffer.append(&[f32::NAN, 3.0, f32::NEG_INFINITY, 0.5, 0.7]);
        assert_eq!(buffer.waiting(), 2, "half a frame is dropped");
        assert_eq!(buffer.span(0, 2), [0.0, 1.0, -1.0, 0.5]);
    }
}
