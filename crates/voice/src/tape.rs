use std::collections::VecDeque;

use crate::codec::Format;

/// Kept of what was played: two of the longest pitch periods and the window that is
/// compared, so that concealment finds the period.
const HISTORY_MS: f64 = 60.0;

/// A piece of audio: what was played lately, and what is decoded and waits.
///
/// Samples of channels alternate; a frame has one of each. Places are frames from
/// the head: the next one to be played is 0, those played are negative.
#[derive(Clone, Debug)]
pub(crate) struct Tape {
    format: Format,
    samples: Vec<f32>,
    /// In samples, always a whole frame.
    head: usize,
    history: usize,
    /// Frames from the head to places that are followed, in order.
    marks: VecDeque<usize>,
}

impl Tape {
    /// Silence has been played, nothing waits.
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

    /// Frames that can be looked back at.
    pub(crate) const fn history(&self) -> usize {
        self.history
    }

    /// Frames that wait.
    pub(crate) const fn waiting(&self) -> usize {
        (self.samples.len() - self.head) / self.format.channels()
    }

    /// Samples from frame `from` to frame `to`.
    ///
    /// # Panics
    /// Beyond history or what waits: an invariant of the callers.
    pub(crate) fn span(&self, from: isize, to: isize) -> &[f32] {
        &self.samples[self.place(from)..self.place(to)]
    }

    /// Appends what was decoded; what is no number becomes silence, what is beyond
    /// full scale is cut, so that no codec's mistake reaches an ear.
    pub(crate) fn append(&mut self, samples: &[f32]) {
        let whole = samples.len() - samples.len() % self.format.channels();
        let sane = samples[..whole].iter().map(|sample| match sample {
            it if it.is_nan() => 0.0,
            it => it.clamp(-1.0, 1.0),
        });
        self.samples.extend(sane);
    }

    /// Follows what is `frames` behind the end, in the order of places.
    pub(crate) fn mark(&mut self, frames: usize) {
        self.marks.push_back(self.waiting() + frames);
    }

    /// Puts `samples` in place of the frames up to `to`. A mark in them moves to where
    /// its frame is heard loudest after a fade: half of those that are replaced with
    /// the head, the others with what follows.
    pub(crate) fn replace(&mut self, to: usize, samples: &[f32]) {
        let end = self.place(to as isize);
        let frames = samples.len() / self.format.channels();
        self.samples.splice(self.head..end, samples.iter().copied());
        let middle = to.min(frames) / 2;
        for mark in self.marks.iter_mut().filter(|mark| **mark >= middle) {
            *mark = (*mark + frames).saturating_sub(to).max(middle);
        }
    }

    /// Plays into `out`; whole frames, as many as wait at most. Calls `left` for each
    /// mark that is in it, with the frames before it.
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
        // In large pieces: moving the rest costs.
        let kept = self.history * self.format.channels();
        if self.head > 4 * kept {
            self.samples.drain(..self.head - kept);
            self.head = kept;
        }
    }

    fn place(&self, frame: isize) -> usize {
        let channels = isize::try_from(self.format.channels()).expect("1 or 2");
        let place = self.head.checked_add_signed(frame * channels);
        place.expect("callers look back no further than the history")
    }
}
