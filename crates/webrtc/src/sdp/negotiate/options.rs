use glassline_media::{Kind, Track};

use crate::sdp::opus::OpusOptions;

/// The options of this end for the answer to a peer's offer.
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
    /// Whether the offer is a publisher's, of which every `m=` line is to be received (RFC 9725
    /// §4.2): at most one of each kind of media, in any codec that is supported. `tracks` and
    /// `receive` have no effect then.
    pub publication: bool,
}
