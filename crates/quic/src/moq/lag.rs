//! Whether a reader has fallen behind within a group.

use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// Shortest interval between two requests for a keyframe.
const INTERVAL: Duration = Duration::from_secs(1);

/// How far the frames of the present group lag behind the fastest one of them.
///
/// Groups that are behind by more than the deadline are skipped when a newer one begins. With long
/// intervals between keyframes none begins, and the reader has to request one.
#[derive(Debug)]
pub(super) struct Lag {
    deadline: Duration,
    /// Time and arrival of the frame of this group that was the fastest under way.
    fastest: Option<(MediaTime, Instant)>,
    requested: Option<Instant>,
}

impl Lag {
    pub(super) const fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            fastest: None,
            requested: None,
        }
    }

    /// Begins another group, whose first frame is in time whenever it arrives.
    pub(super) fn begin(&mut self) {
        self.fastest = None;
    }

    /// Notes a frame. Returns whether a keyframe is to be requested, because the frame is behind by
    /// more than the deadline.
    pub(super) fn take(&mut self, time: MediaTime, arrived: Instant) -> bool {
        let Some((fastest, at)) = self.fastest else {
            self.fastest = Some((time, arrived));
            return false;
        };
        let due = at + time.saturating_since(fastest);
        if arrived <= due {
            self.fastest = Some((time, arrived));
            return false;
        }
        let is_behind = arrived.saturating_duration_since(due) > self.deadline;
        let is_due = |it: Instant| arrived.saturating_duration_since(it) >= INTERVAL;
        let asks = is_behind && self.requested.is_none_or(is_due);
        if asks {
            self.requested = Some(arrived);
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_falls_behind_asks_once_a_second_until_a_group_begins() {
        let start = Instant::now();
        let mut lag = Lag::new(Duration::from_millis(500));
        let take = |lag: &mut Lag, media_ms: i64, ms| {
            let time = MediaTime::from_nanos(media_ms * 1_000_000);
            lag.take(time, start + Duration::from_millis(ms))
        };
        for ms in (0..2000).step_by(20) {
            assert!(!take(&mut lag, ms, 100 + ms as u64), "in time");
        }
        // The first frame was slow; the ones after it are the measure.
        assert!(!take(&mut lag, 2000, 2050));
        assert!(!take(&mut lag, 2020, 2570), "behind by the deadline");
        assert!(take(&mut lag, 2040, 2591), "beyond it");
        assert!(!take(&mut lag, 2060, 3590), "asked already");
        assert!(take(&mut lag, 2080, 3591));
        lag.begin();
        assert!(!take(&mut lag, 4000, 9000), "a new group");
    }
}
