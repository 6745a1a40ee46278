//! The recording of one stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glassline_hub::{Demand, SourceNumber, Stream, StreamName};

use super::plan::{Layers, StreamPlan};
use super::status::{Loss, RecordingState, RecordingStatus};
use crate::recorder::ReadingThread;
use crate::writer::{LayerRecording, LayerRecordingFigures};

/// Facts about a stream, recorded or not.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Number of the source that publishes here; `None` without one, and for a stream that another
    /// server has.
    pub(super) source: Option<SourceNumber>,
    /// Whether somebody wants the stream recorded or not, against the configuration.
    pub(super) wish: Option<bool>,
    pub(super) running: Option<Running>,
    /// Keeps the source of the stream running that comes on demand.
    pub(super) demand: Option<Demand>,
    /// Lanes whose recordings have ended, while something of them may still be written.
    pub(super) ending: Vec<Arc<LayerRecording>>,
    /// Figures of recordings of the stream that have ended.
    pub(super) before: Figures,
    /// Whether frames were lost at the last look.
    pub(super) was_losing: bool,
}

/// A recording that is under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) plan: StreamPlan,
    pub(super) source: SourceNumber,
    pub(super) since: SystemTime,
    pub(super) layer_recordings: Vec<Arc<LayerRecording>>,
}

/// Figures that only rise.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    bytes: u64,
    fragments: u64,
    losses: BTreeMap<&'static str, Loss>,
}

impl Figures {
    pub(super) fn add(&mut self, layer_recording: &LayerRecordingFigures) {
        self.bytes += layer_recording.bytes;
        self.fragments += layer_recording.fragments;
        for (kind, figures) in &layer_recording.losses {
            let reason = kind.as_str();
            let loss = self.losses.entry(reason).or_insert(Loss {
                reason,
                count: 0,
                time: Duration::ZERO,
            });
            loss.count += figures.count;
            loss.time += figures.time;
        }
    }
}

/// Returns the layer recordings of a stream that is to be recorded.
pub(super) fn layer_recordings(stream: &Arc<Stream>, layers: &Layers) -> Vec<Arc<LayerRecording>> {
    let layer_recording = |layer: String| Arc::new(LayerRecording::new(stream, layer));
    let tracks = stream.tracks();
    let layered = tracks.iter().find(|it| !it.layers.is_empty());
    match (layers, layered) {
        // A ladder is for viewers: its layers are recorded by name only.
        (Layers::All, Some(track)) if !track.as_published().layers.is_empty() => {
            let names = track.layers.iter();
            names.map(|it| layer_recording(it.rid.clone())).collect()
        }
        (Layers::Named(name), Some(track)) if track.layers.iter().any(|it| it.rid == *name) => {
            vec![layer_recording(name.clone())]
        }
        _ => vec![layer_recording(String::new())],
    }
}

impl Known {
    /// Returns what is known of a stream before it exists: that somebody wants it recorded, or not.
    pub(super) fn wished(wish: bool) -> Self {
        Self {
            wish: Some(wish),
            ..Self::default()
        }
    }

    /// Adds up the layer recordings of which nothing is written any more.
    pub(super) fn settle(&mut self) {
        let before = &mut self.before;
        self.ending.retain(|layer_recording| {
            let is_written = Arc::strong_count(layer_recording) > 1;
            if !is_written {
                before.add(&layer_recording.figures());
            }
            is_written
        });
    }

    /// Returns the state of the stream's recording.
    pub(super) fn status(
        &self,
        stream: &StreamName,
        plan: Option<&StreamPlan>,
        reading: &ReadingThread,
    ) -> RecordingStatus {
        let is_automatic = plan.is_some_and(|it| it.is_automatic);
        let is_wanted = plan.is_some() && self.wish.unwrap_or(is_automatic);
        let mut figures = self.before.clone();
        self.ending.iter().for_each(|it| figures.add(&it.figures()));
        let layer_recordings = self.running.iter().flat_map(|it| &it.layer_recordings);
        let (mut lag, mut file, mut reason) = (Duration::ZERO, None, None);
        for layer_recording in layer_recordings {
            let of_layer_recording = layer_recording.figures();
            figures.add(&of_layer_recording);
            lag = lag.max(of_layer_recording.lag);
            file = file.or(of_layer_recording.file);
            reason = reason.or_else(|| reading.trouble(layer_recording));
        }
        let state = match (&self.running, &reason) {
            (Some(_), Some(_)) => RecordingState::Losing,
            (Some(_), None) => RecordingState::Recording,
            (None, _) if is_wanted => RecordingState::Waiting,
            (None, _) => RecordingState::Off,
        };
        RecordingStatus {
            stream: stream.clone(),
            state,
            reason,
            since: self.running.as_ref().map(|it| it.since),
            is_automatic,
            bytes: figures.bytes,
            fragments: figures.fragments,
            file,
            folder: self.running.as_ref().map(|it| it.plan.folder.clone()),
            lag,
            losses: figures.losses.into_values().collect(),
        }
    }
}
