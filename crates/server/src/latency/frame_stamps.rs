//! The times at which a frame passed each stage of the server.

use std::time::{Duration, Instant};

use glassline_media::Stage;

/// The times of one frame on its way through the server to one viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStamps {
    /// RTP timestamp of the frame, as the viewer knows it.
    pub timestamp: u32,
    /// Time at which the frame's accounted delay begins.
    pub origin: Instant,
    /// Time at which the hub published the frame.
    pub published: Instant,
    /// Time at which the shard read the frame from the hub.
    pub read_at: Instant,
    /// Time at which the pacer released the frame's last packets.
    pub paced: Instant,
    /// Time at which the kernel had the frame's last packet.
    pub sent: Instant,
}

impl FrameStamps {
    /// Returns the server's stages and how long each took.
    pub fn stages(&self) -> [(Stage, Duration); 4] {
        [
            (
                Stage::Ingest,
                self.published.saturating_duration_since(self.origin),
            ),
            (
                Stage::Hub,
                self.read_at.saturating_duration_since(self.published),
            ),
            (
                Stage::Pace,
                self.paced.saturating_duration_since(self.read_at),
            ),
            (Stage::Send, self.sent.saturating_duration_since(self.paced)),
        ]
    }
}
