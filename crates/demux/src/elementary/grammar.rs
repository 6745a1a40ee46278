//! What the bare streams of H.264 and H.265 have in common: NAL units behind start
//! codes, of which some begin an access unit, some are parameter sets, and some
//! are slices of a picture that is shown at a place of its own.

use glassline_media::Track;

use crate::error::Reason;

/// How one coding tells its NAL units apart, and what it has seen of them so far.
pub(crate) trait Grammar: Default {
    /// The coding, as in "no H.264 start code".
    const NAME: &'static str;

    /// What users know such a file as.
    const EXPECTED: &'static str;

    /// Parameter sets that must stand before a keyframe.
    const SETS: &'static [Set];

    /// Whether a NAL unit, of which this is the first byte, is a parameter set.
    fn is_parameter_set(first: u8) -> bool;

    /// Whether it is an access unit delimiter.
    fn is_delimiter(first: u8) -> bool;

    /// Takes the next NAL unit: its first bytes, all of a parameter set.
    ///
    /// Errors on a damaged parameter set; the unit then counts as [`Content::Other`].
    fn push(&mut self, nal: &[u8]) -> Result<Role, (Role, Reason)>;

    /// All parameter sets that a decoder needs to start at a picture with this
    /// picture parameter set, behind start codes; `None` if one is missing.
    fn sets_for(&self, pps: u32) -> Option<Vec<u8>>;

    /// How many pictures may be sent ahead of one that is shown before them, as the
    /// sequence parameter set of such a picture has it; `None` if it says nothing.
    fn reorder_max(&self, pps: u32) -> Option<u32>;

    /// Pictures were lost: where those from here on are shown is not known from those
    /// before.
    fn forget_order(&mut self);

    /// What the track is that begins with such a picture.
    fn opening(&self, pps: u32) -> Option<Opening>;
}

/// The kinds of parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// H.265 alone has these.
    Video,
    Sequence,
    Picture,
}

/// The track that begins at a keyframe.
pub(crate) struct Opening {
    pub(crate) track: Track,
    /// Pictures in so many seconds, unreduced and unchecked.
    pub(crate) timing: Option<(u64, u64)>,
    /// 8-bit 4:2:0, which every browser shows.
    pub(crate) common_format: bool,
}

/// What a NAL unit means for the access unit it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// It begins a new access unit.
    pub(crate) begins_unit: bool,
    /// What it is.
    pub(crate) content: Content,
}

/// What a NAL unit is, as far as a demuxer cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Slice of a primary picture.
    Picture(VideoFacts),
    /// A slice whose parameter sets are missing.
    OrphanSlice,
    /// A slice whose header is damaged or cut.
    DamagedSlice,
    /// A parameter set.
    ParameterSet(Set),
    /// Anything else.
    Other,
}

/// What a slice tells of its picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VideoFacts {
    /// A decoder can start here.
    pub(crate) keyframe: bool,
    /// Number of its picture parameter set.
    pub(crate) pps: u32,
    /// One field of an interlaced picture, which lasts half as long.
    pub(crate) field: bool,
    pub(crate) place: Place,
    /// It is shown before a picture that was sent earlier.
    pub(crate) reordered: bool,
    pub(crate) leading: Leading,
}

/// Where a picture stands in the order of presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// All pictures sent before it are shown before it, and their numbers say
    /// nothing of those from here on.
    pub(crate) begins_sequence: bool,
    /// Its picture order count, or what orders pictures likewise.
    pub(crate) order: i64,
}

/// Whether a picture that is sent after a keyframe and shown before it needs
/// pictures from before that keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leading {
    /// It needs none.
    No,
    /// It needs some: who starts at the keyframe cannot decode it.
    NeedsEarlier,
    /// The stream does not have what it needs.
    Lost,
}
