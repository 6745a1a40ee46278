//! When failures of a source are worth telling.

use super::VideoError;

/// Failures from which the source is in trouble: each frame that fails adds two, each other one takes
/// one away.
const FAILURES: u32 = 20;

/// Most failures that are remembered, so that a source that was mended is out of trouble soon.
pub(super) const FAILURES_MAX: u32 = 40;

/// The failures of a source, of which more than a third are trouble.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    latest: Option<VideoError>,
}

impl Failures {
    pub(super) const fn note_success(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn note(&mut self, error: &VideoError) {
        self.count = (self.count + 2).min(FAILURES_MAX);
        self.latest = Some(error.clone());
    }

    #[cfg(test)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns what is wrong with a source of which more than a third fails.
    pub(super) fn trouble(&self) -> Option<&VideoError> {
        self.latest.as_ref().filter(|_| self.count >= FAILURES)
    }
}
