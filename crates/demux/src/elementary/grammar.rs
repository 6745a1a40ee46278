//! Common parts of the byte streams of H.264 and H.265: NAL units with start codes. Some of
//! them begin an access unit, some are parameter sets, and some are slices of a picture with an
//! output order of its own.

use glassline_media::Track;

use crate::elementary::annexb::nals;
use crate::error::Reason;

/// A coding's NAL unit types, and the state of parsing so far.
pub(crate) trait Grammar: Default {
    /// Name of the coding, as in "no H.264 start code".
    const NAME: &'static str;

    /// Name of the file's format, for error texts.
    const EXPECTED: &'static str;

    /// Parameter sets that must precede a keyframe.
    const SETS: &'static [Set];

    /// Returns whether a NAL unit with this first byte is a parameter set.
    fn is_parameter_set(first: u8) -> bool;

    /// Returns whether a NAL unit with this first byte is an access unit delimiter.
    fn is_delimiter(first: u8) -> bool;

    /// Parses the next NAL unit from its first bytes; of a parameter set, `nal` holds all
    /// bytes.
    ///
    /// # Errors
    /// A parameter set is damaged; the unit then counts as [`Content::Other`].
    fn push(&mut self, nal: &[u8]) -> Result<Role, (Role, Reason)>;

    /// Returns all parameter sets that a decoder needs to start at a picture with this picture
    /// parameter set, with start codes; `None` if one is missing.
    fn sets_for(&self, pps: u32) -> Option<Vec<u8>>;

    /// Returns the number of pictures that may precede a picture in decoding order and follow
    /// it in output order, from the sequence parameter set; `None` if it does not say.
    fn reorder_max(&self, pps: u32) -> Option<u32>;

    /// Resets the output order after pictures were lost: the order of later pictures does not
    /// continue that of earlier ones.
    fn forget_order(&mut self);

    /// Returns the track that begins with a picture of this picture parameter set.
    fn opening(&self, pps: u32) -> Option<Opening>;
}

/// Parses the NAL units at the start of an access unit up to its first slice; `None` if there is no
/// slice, or the parameter sets of the slice are unknown.
pub(crate) fn first_facts(grammar: &mut impl Grammar, bytes: &[u8]) -> Option<VideoFacts> {
    nals(bytes).find_map(|nal| match grammar.push(nal).ok()?.content {
        Content::Picture(facts) => Some(facts),
        _ => None,
    })
}

/// Kinds of parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Video parameter set, which only H.265 has.
    Video,
    Sequence,
    Picture,
}

/// The track that begins at a keyframe.
pub(crate) struct Opening {
    pub(crate) track: Track,
    /// A number of pictures and the seconds that they last, unreduced and unchecked.
    pub(crate) timing: Option<(u64, u64)>,
    /// Whether the format is 8-bit 4:2:0, which every browser shows.
    pub(crate) common_format: bool,
}

/// Meaning of a NAL unit for its access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// Whether the unit begins a new access unit.
    pub(crate) begins_unit: bool,
    /// Content of the unit.
    pub(crate) content: Content,
}

/// Content of a NAL unit, as far as a demuxer needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A slice of a primary picture.
    Picture(VideoFacts),
    /// A slice whose parameter sets are missing.
    OrphanSlice,
    /// A slice whose header is damaged or cut.
    DamagedSlice,
    /// The NAL unit is a parameter set.
    ParameterSet(Set),
    /// The NAL unit has any other content.
    Other,
}

/// Properties of a picture, from a header of one of its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VideoFacts {
    /// Whether a decoder can start here.
    pub(crate) keyframe: bool,
    /// Number of the picture parameter set.
    pub(crate) pps: u32,
    /// Whether the picture is one field of an interlaced frame, which lasts half as long.
    pub(crate) field: bool,
    pub(crate) output_order: OutputOrder,
    /// Whether the picture is output before one that is decoded earlier.
    pub(crate) reordered: bool,
    pub(crate) leading: Leading,
}

/// Position of a picture in output order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputOrder {
    /// Whether all pictures that are decoded before this one are output before it. Orders
    /// before and from here on are not comparable.
    pub(crate) begins_sequence: bool,
    /// Picture order count, or a number that orders pictures in the same way.
    pub(crate) order: i64,
}

/// Whether a picture that is decoded after a keyframe and output before it depends on pictures
/// before that keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leading {
    /// The picture does not depend on any picture before the keyframe.
    No,
    /// It does, so a decoder that starts at the keyframe cannot decode it.
    NeedsEarlier,
    /// It does, and the stream does not contain the pictures that it depends on.
    Lost,
}
