use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, Stage, Track};

use crate::error::PublishError;
use crate::stream::{State, Stream};

/// The right to publish units into a stream, held by one source at a time.
///
/// Dropping a publisher leaves the stream listed, in [`State::Down`] unless
/// [`finish`](Self::finish) named another state.
#[derive(Debug)]
pub struct Publisher {
    stream: Arc<Stream>,
    /// Which publisher of the stream this is, counted from 1.
    generation: u64,
    /// State that the stream shall have afterwards, if the source named one.
    final_state: Option<State>,
}

impl Stream {
    /// Begins publishing `tracks`, continuing the stream's timeline.
    ///
    /// A track that continues must keep its index. A new source may change codec parameters and
    /// append tracks.
    ///
    /// # Errors
    /// [`PublishError::Busy`] while there is another publisher, [`PublishError::NoTracks`]
    /// without tracks, and [`PublishError::TrackChanged`] if a track has another codec than
    /// before, since viewers negotiated the old one.
    pub fn publish(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        let generation = self.begin_publishing(tracks, now)?;
        Ok(Publisher {
            stream: Arc::clone(self),
            generation,
            final_state: None,
        })
    }
}

impl Publisher {
    /// Returns the stream that is being published.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Publishes one unit at `now` and returns it as subscribers get it. The `time` of `unit`
    /// counts on the source's own clock; its time on the stream, its numbers and its other
    /// stamps are filled in here.
    ///
    /// # Errors
    /// [`PublishError::NoSuchTrack`] or [`PublishError::NoSuchLayer`] if the unit names a track
    /// or a layer that was not announced.
    pub fn push(&mut self, unit: MediaUnit, now: Instant) -> Result<Arc<MediaUnit>, PublishError> {
        self.stream.accept(unit, now)
    }

    /// Records the delay of a stage before the hub, measured at `now`. The ingest stage is
    /// recorded with every unit and needs no call.
    pub fn record_stage(&self, stage: Stage, delay: Duration, now: Instant) {
        self.stream.record_stage(stage, delay, now);
    }

    /// Replaces the description of the tracks once the source knows more about them. Their
    /// number and codecs must stay.
    ///
    /// # Errors
    /// [`PublishError::TrackChanged`] if a codec differs, [`PublishError::NoSuchTrack`] if the
    /// number of tracks differs.
    pub fn describe(&mut self, tracks: &[Track]) -> Result<(), PublishError> {
        self.stream.describe(self.generation, tracks)
    }

    /// Returns whether anybody requested a keyframe since the last call.
    pub fn keyframe_wanted(&self) -> bool {
        self.stream.take_keyframe_request()
    }

    /// Ends publishing and leaves the stream in `state`.
    pub fn finish(mut self, state: State) {
        self.final_state = Some(state);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let state = self.final_state.take().unwrap_or_else(|| State::Down {
            detail: "the source stopped".to_owned(),
        });
        self.stream.end_publishing(self.generation, state);
    }
}
