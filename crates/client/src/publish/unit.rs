use std::time::Instant;

use bytes::Bytes;
use glassline_media::MediaTime;

/// An access unit on its way out: a frame, or a packet of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Which track.
    pub track: usize,
    /// When it is presented, on a clock that all tracks share.
    pub time: MediaTime,
    /// A decoder can start here. Always true for audio.
    pub keyframe: bool,
    /// As [`glassline_demux::Frame::data`] has it.
    pub data: Bytes,
    /// When it was there: due, captured or received. Its age counts from here.
    pub made: Instant,
}
