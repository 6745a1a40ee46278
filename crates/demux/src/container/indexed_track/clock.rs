//! Reconstruction of exact times.

use glassline_media::MediaTime;

use crate::FrameRate;

/// Reconstructs exact times from rounded ones: Matroska stores whole milliseconds.
pub(super) struct Clock {
    /// Frame rate, until a time contradicts it.
    pub(super) rate: Option<FrameRate>,
    first_ns: Option<i64>,
    /// For audio: the time at which counting began, and the samples since then.
    counted: Option<(i64, i64)>,
}

impl Clock {
    /// Starts without a time. `rate`: frame rate, if the container states one.
    pub(super) fn new(rate: Option<FrameRate>) -> Self {
        Self {
            rate,
            first_ns: None,
            counted: None,
        }
    }

    /// Returns the time on the grid of the frame rate, if `said` may be its rounded form.
    pub(super) fn frame(&mut self, said: i64, tick_ns: i64) -> i64 {
        let first = *self.first_ns.get_or_insert(said);
        let Some(rate) = self.rate else {
            return said;
        };
        let after = (said - first).unsigned_abs();
        let seconds = after as f64 / 1e9;
        // Not below zero; a number out of range ends as the largest.
        let count = (seconds * rate.fps()).round() as u64;
        let exact = rate.nanos(count.saturating_mul(2));
        let exact = if said < first { -exact } else { exact };
        match (said - first).abs_diff(exact) <= tick_ns.unsigned_abs() {
            true => first + exact,
            false => {
                // The track has no constant rate, so its stated times count from here on.
                self.rate = None;
                said
            }
        }
    }

    /// Returns the end of the audio before, if `said` may be its rounded form.
    pub(super) fn audio(
        &mut self,
        said: i64,
        duration_ns: Option<i64>,
        sample_rate: u32,
        tick_ns: i64,
    ) -> i64 {
        let Some(duration_ns) = duration_ns else {
            self.counted = None;
            return said;
        };
        let (anchor, samples) = self.counted.unwrap_or((said, 0));
        let expected = anchor + MediaTime::from_ticks(samples, sample_rate).nanos();
        let close = expected.abs_diff(said) <= tick_ns.unsigned_abs();
        let (anchor, samples, start) = match close {
            true => (anchor, samples, expected),
            false => (said, 0, said),
        };
        let more = MediaTime::from_nanos(duration_ns).ticks(sample_rate);
        self.counted = Some((anchor, samples.saturating_add(more)));
        start
    }
}
