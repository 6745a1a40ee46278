//! When a frame passed each stage of the server.

use std::time::{Duration, Instant};

use glassline_media::Stage;

/// One frame's way through the server to one viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStamps {
    /// The viewer's RTP timestamp of the frame.
    pub timestamp: u32,
    /// Where its accounted delay begins.
    pub origin: Instant,
    /// When the hub published it.
    pub published: Instant,
    /// When the shard held it.
    pub picked: Instant,
    /// When its last packets were let go by the pacer.
    pub paced: Instant,
    /// When the kernel had its last packet.
    pub sent: Instant,
}

impl FrameStamps {
    /// The server's stages and how long each took.
    pub fn stages(&self) -> [(Stage, Duration); 4] {
        [
            (
                Stage::Ingest,
                self.published.saturating_duration_since(self.origin),
            ),
            (
                Stage::Hub,
                self.picked.saturating_duration_since(self.published),
            ),
            (
                Stage::Pace,
                self.paced.saturating_duration_since(self.picked),
            ),
            (Stage::Send, self.sent.saturating_duration_since(self.paced)),
        ]
    }
}
