use std::time::Instant;

use bytes::Bytes;
use glassline_media::{MediaTime, TrackIndex};

/// An access unit to be sent: a frame of video, or a packet of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Index of its track.
    pub track: TrackIndex,
    /// Presentation time, on a clock that all tracks share.
    pub time: MediaTime,
    /// Whether a decoder can start here; always true for audio.
    pub keyframe: bool,
    /// Coded bytes, in the form of [`glassline_demux::Frame::data`].
    pub data: Bytes,
    /// When the unit was due, captured or received; its age counts from here.
    pub made: Instant,
}
