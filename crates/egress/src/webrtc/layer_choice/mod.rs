//! The choice of the layer that a viewer gets of a track.

use glassline_hub::Stream;
use glassline_media::{LayerIndex, TrackIndex, TrackLayer};

/// Chooses the layer of one track for one viewer: the best encoding that is alive. A viewer that cannot
/// take the track's codec always gets the transcoded layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerChoice {
    track: TrackIndex,
    is_transcoded: bool,
}

impl LayerChoice {
    /// Creates the choice for a viewer that gets the tracks `transcoded` in another codec.
    pub(crate) fn new(track: TrackIndex, transcoded: &[TrackIndex]) -> Self {
        Self {
            track,
            is_transcoded: transcoded.contains(&track),
        }
    }

    /// Returns the layer that the viewer should get now. The answer may be another one after each change
    /// of the stream's [preference](Stream::preferred).
    pub(crate) fn choose(&self, stream: &Stream) -> TrackLayer {
        match self.is_transcoded {
            true => TrackLayer {
                track: self.track,
                layer: LayerIndex::TRANSCODED,
            },
            false => stream.preferred(self.track),
        }
    }
}
