use glassline_media::{MediaTime, TrackIndex};

use super::ended::Ended;
use super::frame::BYTES_MAX;

/// The reason why a frame was not written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The caller named a track that does not exist.
    #[error("there is no track {track}; the broadcast has {tracks}")]
    NoSuchTrack {
        /// Index of the track.
        track: TrackIndex,
        /// Number of tracks in the broadcast.
        tracks: usize,
    },
    /// The frame is too long.
    #[error("the frame has {bytes} bytes; at most {BYTES_MAX} are allowed")]
    Long {
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// The frame's time cannot be written.
    #[error("the frame's time of {} s cannot be sent", time.nanos() / 1_000_000_000)]
    Time {
        /// Presentation time of the frame.
        time: MediaTime,
    },
    /// The broadcast or its session has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}
