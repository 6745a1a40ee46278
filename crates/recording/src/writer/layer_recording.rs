//! What the recorder of a stream and the writer of its folder share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, StreamName};

use crate::disk::{Failure, FailureKind};

/// One recording of a stream: of its best layer, or of one by name.
#[derive(Debug)]
pub(crate) struct LayerRecording {
    pub(crate) stream: StreamName,
    /// Layer that is recorded; empty for the best one of each time.
    pub(crate) layer: String,
    /// The stream of the hub, whose delays are counted; `None` in tests.
    source: Option<Arc<Stream>>,
    state: Mutex<LayerRecordingState>,
}

#[derive(Debug, Default)]
struct LayerRecordingState {
    /// The reason why the layer recording's file ended although its recorder did not end it.
    failure: Option<Failure>,
    figures: LayerRecordingFigures,
}

/// Figures of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerRecordingFigures {
    /// Bytes that were written.
    pub(crate) bytes: u64,
    pub(crate) fragments: u64,
    pub(crate) files: u64,
    /// The file that is written, below its folder.
    pub(crate) file: Option<PathBuf>,
    /// Time from the publication of a fragment's newest frame until the fragment was written, of the
    /// newest fragment.
    pub(crate) lag: Duration,
    /// Instant at which the newest fragment was written.
    pub(crate) written_at: Option<Instant>,
    /// Wall-clock time of the end of the newest fragment, since 1970.
    pub(crate) written_to: Option<Duration>,
    /// The losses, by kind.
    pub(crate) losses: BTreeMap<FailureKind, LossFigures>,
}

/// The losses for one kind of reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossFigures {
    /// Number of times that frames were lost for the reason.
    pub(crate) count: u64,
    /// Sum of the times for which frames are missing.
    pub(crate) time: Duration,
}

impl LayerRecording {
    pub(crate) fn new(source: &Arc<Stream>, layer: String) -> Self {
        Self {
            source: Some(Arc::clone(source)),
            ..Self::named(source.name().clone(), layer)
        }
    }

    /// Creates the recording of a stream by its name, whose delays nobody counts.
    pub(crate) fn named(stream: StreamName, layer: String) -> Self {
        Self {
            stream,
            layer,
            source: None,
            state: Mutex::default(),
        }
    }

    /// Counts the delay of a fragment that is written at `now`.
    pub(crate) fn note_delay(&self, delay: Duration, now: Instant) {
        if let Some(source) = &self.source {
            source.note_recorded(delay, now);
        }
    }

    /// Notes that the layer recording's file ended because of `failure`.
    pub(crate) fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        state.figures.file = None;
        state.failure.get_or_insert(failure);
    }

    /// Returns whether the layer recording's file ended because of a failure.
    #[cfg(test)]
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Returns why the layer recording's file ended, once.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.lock().failure.take()
    }

    /// Returns the present figures.
    pub(crate) fn figures(&self) -> LayerRecordingFigures {
        self.lock().figures.clone()
    }

    /// Changes the figures.
    pub(crate) fn note(&self, change: impl FnOnce(&mut LayerRecordingFigures)) {
        change(&mut self.lock().figures);
    }

    fn lock(&self) -> MutexGuard<'_, LayerRecordingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
