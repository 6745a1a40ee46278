//! The files of a stream by time, a few at a time: a stream may have tens of thousands.

use std::time::{Duration, SystemTime};

use glassline_recording::{RecordedFile, TimeRange};

use super::super::stretch::best_layer;
use super::super::{NoFootage, Subject, always};

/// Parts of the past in which a file is looked for, the nearest first.
const REACHES: [Duration; 2] = [
    Duration::from_secs(2 * 3600),
    Duration::from_secs(2 * 86_400),
];

/// The files of one layer of a stream.
#[derive(Debug)]
pub(super) struct PastFiles {
    of: Subject,
    /// The layer that is played, once there is a file.
    layer: Option<String>,
}

impl PastFiles {
    pub(super) fn new(of: Subject) -> Self {
        let layer = of.layer.clone();
        Self { of, layer }
    }

    pub(super) const fn of(&self) -> &Subject {
        &self.of
    }

    /// Returns the last file that begins at or before `at`.
    pub(super) fn at_or_before(
        &mut self,
        at: SystemTime,
    ) -> Result<Option<RecordedFile>, NoFootage> {
        let begun = |it: &RecordedFile| it.start <= at;
        // The index counts microseconds.
        let to = at + Duration::from_micros(1);
        let reaches = REACHES.map(|reach| at.checked_sub(reach));
        for from in reaches.into_iter().flatten().chain([always().from]) {
            let files = self.within(TimeRange { from, to })?;
            if let Some(found) = files.into_iter().rfind(begun) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the first file that begins after `at`.
    pub(super) fn after(&mut self, at: SystemTime) -> Result<Option<RecordedFile>, NoFootage> {
        let follows = |it: &RecordedFile| it.start > at;
        let reaches = REACHES.map(|reach| at + reach);
        for to in reaches.into_iter().chain([always().to]) {
            let files = self.within(TimeRange { from: at, to })?;
            if let Some(found) = files.into_iter().find(follows) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the files that have something of `range`, by their beginnings.
    pub(super) fn within(&mut self, range: TimeRange) -> Result<Vec<RecordedFile>, NoFootage> {
        let mut files = self.of.catalogue.files(&self.of.stream, range)?;
        if !files.is_empty() {
            let layer = self.layer.get_or_insert_with(|| best_layer(&files));
            files.retain(|it| it.layer == *layer);
        }
        Ok(files)
    }
}
