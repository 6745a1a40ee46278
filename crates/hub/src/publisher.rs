use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, MediaUnit, Stage, Track};

use crate::{State, Stream, StreamName};

/// Puts units into a stream; dropping it leaves the stream down, not gone.
#[derive(Debug)]
pub struct Publisher {
    stream: Arc<Stream>,
    generation: u64,
    parting: Option<State>,
}

impl Publisher {
    pub(crate) fn new(stream: Arc<Stream>, generation: u64) -> Self {
        Self {
            stream,
            generation,
            parting: None,
        }
    }

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

/// Why a source cannot publish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Nothing to publish.
    #[error("the source has no track that the hub can carry")]
    NoTracks,
    /// A stream has one source at a time.
    #[error("stream '{name}' already has a source: stop it first or publish under another name")]
    Busy {
        /// The stream.
        name: StreamName,
    },
    /// Viewers negotiated another codec.
    #[error(
        "track {place} changed from {old} to {new} while viewers hold the old one: use another stream name"
    )]
    TrackChanged {
        /// Place in the list of tracks.
        place: usize,
        /// As it was.
        old: Codec,
        /// As the new source has it.
        new: Codec,
    },
    /// The unit names a track beyond those announced.
    #[error("unit for track {track}, but the source announced {tracks} tracks")]
    NoSuchTrack {
        /// Named by the unit.
        track: usize,
        /// Announced.
        tracks: usize,
    },
    /// The unit names a layer beyond those announced.
    #[error("unit for layer {layer} of track {track}, but the source announced {layers} layers")]
    NoSuchLayer {
        /// The track.
        track: usize,
        /// Named by the unit.
        layer: u8,
        /// Announced.
        layers: usize,
    },
}
