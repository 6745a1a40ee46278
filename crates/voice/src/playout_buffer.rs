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
