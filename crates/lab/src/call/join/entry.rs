//! One frame that waits for its other half.

use std::time::{Duration, Instant};

use glassline_voice::{PlayoutStamps, SendStamps};

/// What is known of one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) spoken: Option<SendStamps>,
    pub(super) heard: Option<PlayoutStamps>,
    /// Of its half that another host stamped.
    pub(super) error: Option<Duration>,
    /// When it was here first, played or not.
    pub(super) arrived: Option<Instant>,
    /// A copy was here, which is not counted yet: it may stand for the packet.
    pub(super) copied: Option<Instant>,
    pub(super) is_joined: bool,
}

impl Entry {
    pub(super) const fn is_frame(&self) -> bool {
        self.spoken.is_some() || self.heard.is_some()
    }

    /// Whether the entry is older than the `first` that both ends know of.
    pub(super) fn is_before(&self, first: Option<(Instant, Instant)>) -> bool {
        let Some((sent, arrived)) = first else {
            return true;
        };
        match (self.spoken, self.arrived) {
            (Some(spoken), _) => spoken.sent.unwrap_or(spoken.encoded) < sent,
            (None, Some(at)) => at < arrived,
            (None, None) => false,
        }
    }
}
