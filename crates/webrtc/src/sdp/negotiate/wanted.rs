use glassline_media::{Kind, Track};

use crate::sdp::opus::OpusOptions;

/// What this end wants of a peer's offer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// What may be sent.
    pub tracks: &'a [Track],
    /// What is received, one `m=` line of each kind.
    pub receive: &'a [Kind],
    /// Data channels.
    pub data: bool,
    /// How Opus is to come, where it is received.
    pub opus: OpusOptions,
}
