use glassline_media::{Codec, TrackIndex};

use crate::StreamName;

/// The reason why a source cannot publish, or why a unit was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The source announced no track.
    #[error("the source has no track that the hub can carry")]
    NoTracks,
    /// The stream has a publisher already; a stream has one at a time.
    #[error("stream '{name}' already has a source: stop it first or publish under another name")]
    Busy {
        /// Name of the stream.
        name: StreamName,
    },
    /// The name is that of a source which the server fetches itself, and which takes no clients.
    #[error(
        "'{name}' is the name of a configured {kind}: publish under another name{}",
        remedy(kind)
    )]
    Configured {
        /// Name of the stream.
        name: StreamName,
        /// Kind of the source, like `camera`.
        kind: &'static str,
    },
    /// Another publisher took the stream over.
    #[error("another publisher took stream '{name}' over")]
    Replaced {
        /// Name of the stream.
        name: StreamName,
    },
    /// The stream was deleted: [`Hub::delete`](crate::Hub::delete).
    #[error("stream '{name}' was deleted")]
    Deleted {
        /// Name of the stream.
        name: StreamName,
    },
    /// A publisher describes one of its tracks with another codec, clock rate or number of
    /// channels than it began with.
    #[error("track {track} changed from {old} to {new} within one source")]
    TrackChanged {
        /// Index of the track.
        track: usize,
        /// Codec that the source began with.
        old: Codec,
        /// Codec of the new description.
        new: Codec,
    },
    /// A unit names a track that the source did not announce, or a description has another
    /// number of tracks than the source.
    #[error("unit for track {track}, but the source announced {tracks} tracks")]
    NoSuchTrack {
        /// Index of the track that was named.
        track: TrackIndex,
        /// Number of tracks that the source announced.
        tracks: usize,
    },
    /// A unit names a layer that the source did not announce.
    #[error("unit for layer {layer} of track {track}, but the source announced {layers} layers")]
    NoSuchLayer {
        /// Index of the track.
        track: TrackIndex,
        /// Index of the layer that the unit names.
        layer: u8,
        /// Number of layers of the track that the source announced.
        layers: usize,
    },
}

/// Returns the advice how clients may publish under the name of a source of `kind`: an option that
/// cameras and files have.
fn remedy(kind: &str) -> &'static str {
    match kind {
        "camera" | "file" => ", or set `publishers: allowed` for this source",
        _ => "",
    }
}
