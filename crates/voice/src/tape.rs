use crate::codec::Format;

/// Kept of what was played: two of the longest pitch periods and the window that is
/// compared, so that concealment finds the period.
const HISTORY_MS: f64 = 60.0;

/// A piece of sound: what was played lately, and what is decoded and waits.
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

    /// Puts `samples` in place of the frames `from..to`.
    pub(crate) fn replace(&mut self, from: isize, to: isize, samples: &[f32]) {
        let range = self.place(from)..self.place(to);
        self.samples.splice(range, samples.iter().copied());
    }

    /// Plays into `out`; whole frames, as many as wait at most.
    pub(crate) fn play(&mut self, out: &mut [f32]) {
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
