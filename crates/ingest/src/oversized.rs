//! Tells of frames that were dropped because they are too large to be received.
//!
//! ```text
//! packets ─► UnitAssembler, which drops and counts ─► OversizedFrames ─┬► log, once a minute
//!                                                                     └► hub: metric, advice
//! ```

use std::time::{Duration, Instant};

use glassline_hub::{Publisher, StreamName};
use glassline_rtp::payload::UNIT_BYTES_MAX;

/// Largest frame that a source may send by RTP, in MiB.
pub const FRAME_MIB_MAX: usize = UNIT_BYTES_MAX >> 20;

/// The remedy at a source whose frames are too large.
pub const SMALLER_FRAMES: &str = "lower resolution or quality at the source (ffmpeg: -crf, \
     -maxrate with -bufsize; cameras: maximum bitrate)";

/// Shortest time between two lines of the log about one source.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The frames of one source that were dropped because they are too large.
#[derive(Debug, Default)]
pub struct OversizedFrames {
    dropped: u64,
    /// Frames that the hub has not counted, because the source is not live yet.
    uncounted: u64,
    /// Frames that the log does not tell of yet.
    untold: u64,
    told_at: Option<Instant>,
}

impl OversizedFrames {
    /// Notes that `frames` more frames were dropped. Counts them for the stream once there is a
    /// `publisher`, and tells the log at the first frame, then once a minute at most.
    pub fn note(
        &mut self,
        frames: u64,
        stream: &StreamName,
        publisher: Option<&Publisher>,
        now: Instant,
    ) {
        self.dropped += frames;
        self.uncounted += frames;
        self.untold += frames;
        if self.uncounted > 0
            && let Some(publisher) = publisher
        {
            publisher.count_oversized(std::mem::take(&mut self.uncounted));
        }
        if let Some(dropped) = self.poll_log(now) {
            tracing::warn!(
                %stream,
                dropped,
                "frames of more than {FRAME_MIB_MAX} MiB are dropped, and viewers wait for the next \
                 keyframe: {SMALLER_FRAMES}"
            );
        }
    }

    /// Returns the number of frames that were dropped so far.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of frames that the log is to tell of now.
    fn poll_log(&mut self, now: Instant) -> Option<u64> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOG_PERIOD;
        if self.untold == 0 || self.told_at.is_some_and(is_recent) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_of_the_first_frame_and_then_once_a_minute() {
        let start = Instant::now();
        let mut frames = OversizedFrames::default();
        let mut told = |frame: u64, seconds| {
            frames.untold += frame;
            frames.poll_log(start + Duration::from_secs(seconds))
        };
        assert_eq!(told(0, 0), None, "nothing was dropped");
        assert_eq!(told(1, 1), Some(1));
        assert_eq!(told(1, 30), None);
        assert_eq!(told(2, 60), None);
        assert_eq!(told(0, 61), Some(3), "those of the minute");
        assert_eq!(told(0, 200), None, "it has been told");
        assert_eq!(told(1, 201), Some(1));
    }
}
