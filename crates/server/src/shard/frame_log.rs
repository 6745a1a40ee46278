//! When each recent frame passed each stage for one viewer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Stage;

/// Frames kept: a report once a second covers this many even at 120 frames/s.
const FRAMES_MAX: usize = 256;

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

/// The recent frames of one viewer, oldest first.
#[derive(Debug, Default)]
pub(crate) struct FrameLog {
    frames: VecDeque<FrameStamps>,
}

impl FrameLog {
    /// Notes one frame.
    pub(crate) fn push(&mut self, frame: FrameStamps) {
        if self.frames.len() == FRAMES_MAX {
            self.frames.pop_front();
        }
        self.frames.push_back(frame);
    }

    /// The frame that the viewer knows by `timestamp`, newest first since
    /// timestamps come back after 13 hours.
    pub(crate) fn find(&self, timestamp: u32) -> Option<FrameStamps> {
        self.frames
            .iter()
            .rev()
            .find(|frame| frame.timestamp == timestamp)
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_by_timestamp_and_bounded() {
        let start = Instant::now();
        let mut log = FrameLog::default();
        for frame in 0..1000u32 {
            let origin = start + Duration::from_millis(33) * frame;
            let at = |ms| origin + Duration::from_millis(ms);
            log.push(FrameStamps {
                timestamp: frame * 3000,
                origin,
                published: at(1),
                picked: at(3),
                paced: at(6),
                sent: at(10),
            });
        }
        assert_eq!(log.frames.len(), FRAMES_MAX);
        assert_eq!(log.find(0), None);
        let stages = log.find(999 * 3000).expect("the newest").stages();
        let ms: Vec<u128> = stages.iter().map(|(_, delay)| delay.as_millis()).collect();
        assert_eq!(ms, [1, 2, 3, 4]);
    }
}
