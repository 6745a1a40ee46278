//! A frame whose records of one end wait for those of the other.

use std::time::{Duration, Instant};

use glassline_voice::{PlayoutStamps, SendStamps};

/// Records of one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingFrame {
    pub(super) send_stamps: Option<SendStamps>,
    pub(super) playout_stamps: Option<PlayoutStamps>,
    /// Clock error of the record that another host stamped.
    pub(super) error: Option<Duration>,
    /// First arrival of the packet, whether it was played or not.
    pub(super) arrived: Option<Instant>,
    /// Arrival of a copy that is not counted yet, since it may replace the packet.
    pub(super) copied: Option<Instant>,
    pub(super) is_joined: bool,
}

impl PendingFrame {
    pub(super) const fn is_frame(&self) -> bool {
        self.send_stamps.is_some() || self.playout_stamps.is_some()
    }

    /// Whether the frame is older than `first`, the first frame that both ends have stamped.
    pub(super) fn is_before(&self, first: Option<(Instant, Instant)>) -> bool {
        let Some((sent, arrived)) = first else {
            return true;
        };
        match (self.send_stamps, self.arrived) {
            (Some(send_stamps), _) => send_stamps.sent.unwrap_or(send_stamps.encoded) < sent,
            (None, Some(at)) => at < arrived,
            (None, None) => false,
        }
    }
}
