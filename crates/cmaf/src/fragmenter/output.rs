use glassline_media::{MediaTime, TrackIndex};

use crate::fragment::Fragment;
use crate::header::Header;

/// An output of a fragmenter, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The header of the fragments that follow. The next fragment begins a segment.
    Header(NewHeader),
    /// A fragment of the newest header.
    Fragment(Fragment),
    /// A jump of the timestamps of one track.
    Discontinuity(Discontinuity),
}

/// A header, with the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHeader {
    /// Tracks that the fragments have.
    pub header: Header,
    /// For each track of the header, its position in the stream.
    pub sources: Vec<TrackIndex>,
    /// Time on the timeline of the stream at which decode times of fragments are zero.
    pub origin: MediaTime,
    /// The reason why there is a new header.
    pub cause: HeaderCause,
}

/// The reason why fragments have a new header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderCause {
    /// The run begins.
    Start,
    /// A keyframe of this track has other parameters, such as another size. Decode times go on.
    Parameters(TrackIndex),
    /// The parameters of this track came after the run had begun without it. Decode times go on.
    Joined(TrackIndex),
    /// The timestamps of this track fell below the origin: decode times are counted from another one.
    Origin(TrackIndex),
}

/// A jump of the timestamps of one track. The segment that follows may have a gap before it, or times
/// that were there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discontinuity {
    /// Position of the track in the stream.
    pub track: TrackIndex,
    /// Decode time of the last unit before the jump.
    pub from: MediaTime,
    /// Decode time of the first unit behind it.
    pub to: MediaTime,
}
