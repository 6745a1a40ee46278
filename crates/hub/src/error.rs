use glassline_media::Codec;

use crate::StreamName;

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
