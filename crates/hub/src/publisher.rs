use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, Stage, Track};

use crate::error::PublishError;
use crate::stream::{State, Stream};

/// Puts units into a stream; dropping it leaves the stream down, not gone.
#[derive(Debug)]
pub struct Publisher {
    stream: Arc<Stream>,
    generation: u64,
    parting: Option<State>,
}

impl Stream {
    /// Begins publishing `tracks`; the stream's timeline goes on.
    ///
    /// Tracks that continue must keep their place; a source may change codec
    /// parameters and add tracks at the end.
    ///
    /// # Errors
    /// [`PublishError::Busy`] while another publisher is at it,
    /// [`PublishError::NoTracks`], or [`PublishError::TrackChanged`] if a
    /// place changes its codec, since viewers negotiated the old one.
    pub fn publish(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        let generation = self.begin_publishing(tracks, now)?;
        Ok(Publisher {
            stream: Arc::clone(self),
            generation,
            parting: None,
        })
    }
}

impl Publisher {
    /// The stream being published.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Publishes one unit at `now`. Its `time` counts on the source's own
    /// clock; numbers and stamps are filled in here.
    ///
    /// # Errors
    /// [`PublishError::NoSuchTrack`] if it names a track that was not announced.
    pub fn push(&mut self, unit: MediaUnit, now: Instant) -> Result<Arc<MediaUnit>, PublishError> {
        self.stream.accept(unit, now)
    }

    /// Accounts for a stage that lies before the hub, other than ingest, which is
    /// accounted for with every unit.
    pub fn account(&self, stage: Stage, delay: Duration, now: Instant) {
        self.stream.account(stage, delay, now);
    }

    /// Says anew what the tracks are, of which more is known now. Their number and
    /// codecs stay.
    ///
    /// # Errors
    /// [`PublishError::TrackChanged`] if a codec differs, [`PublishError::NoSuchTrack`]
    /// if there are more or fewer.
    pub fn describe(&mut self, tracks: &[Track]) -> Result<(), PublishError> {
        self.stream.describe(self.generation, tracks)
    }

    /// Someone asked for a keyframe since the last call.
    pub fn keyframe_wanted(&self) -> bool {
        self.stream.take_keyframe_request()
    }

    /// Ends publishing and leaves the stream in `state`.
    pub fn finish(mut self, state: State) {
        self.parting = Some(state);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let state = self.parting.take().unwrap_or_else(|| State::Down {
            detail: "the source stopped".to_owned(),
        });
        self.stream.end_publishing(self.generation, state);
    }
}
