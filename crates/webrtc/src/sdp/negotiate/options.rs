use glassline_media::{Kind, Track};

use crate::sdp::opus::OpusOptions;

/// What this end accepts of a peer's offer.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerOptions<'a> {
    /// Tracks that may be sent.
    pub tracks: &'a [Track],
    /// Kinds of media to receive, one `m=` line of each kind.
    pub receive: &'a [Kind],
    /// Whether data channels are accepted.
    pub data: bool,
    /// How the peer should send Opus, if it is received.
    pub opus: OpusOptions,
}
