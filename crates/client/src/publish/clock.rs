//! When the units of a source are due, and their times on the stream's timeline.

use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// Timeline of a stream: zero is the stream's beginning, for all tracks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    start: Instant,
}

impl Timeline {
    pub(crate) const fn new(start: Instant) -> Self {
        Self { start }
    }

    /// Time of `at` on the timeline; zero if it is before the start.
    pub(crate) fn place(&self, at: Instant) -> MediaTime {
        MediaTime::ZERO + at.saturating_duration_since(self.start)
    }
}

/// Lateness from which the remaining media is shifted to the present. Sending a second of
/// frames at once would not make them timely again.
const STALL: Duration = Duration::from_secs(1);

/// Plays media that has its own times in real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    timeline: Timeline,
    /// When the source's time zero is due.
    zero: Instant,
}

impl Pace {
    pub(crate) const fn new(timeline: Timeline, zero: Instant) -> Self {
        Self { timeline, zero }
    }

    /// When media that is decoded at `time` is due; times below zero are due with the first.
    pub(crate) fn due(&self, time: MediaTime) -> Instant {
        self.zero + time.saturating_since(MediaTime::ZERO)
    }

    /// Time on the timeline of media that is presented at `time`.
    pub(crate) fn place(&self, time: MediaTime) -> MediaTime {
        self.timeline.place(self.due(time))
    }

    /// Makes `time` due at `now` if it is long overdue; returns whether it was.
    pub(crate) fn catch_up(&mut self, time: MediaTime, now: Instant) -> bool {
        let late = now.saturating_duration_since(self.due(time));
        if late <= STALL {
            return false;
        }
        self.zero += late;
        true
    }
}

/// Gives times to frames that come through a pipe without any.
///
/// Times are `interval` apart. A frame that comes early waits, so that a file is played at
/// its speed. A frame that comes late moves the grid a little, so that a camera that is
/// slower than its nominal rate is followed without a jump; after a pause the grid restarts
/// at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    interval: Duration,
    next: Option<Instant>,
}

/// Divisor of a frame's lateness, by which the frame moves the grid.
const FOLLOW: u32 = 32;

/// Lateness that counts as a pause.
const PAUSE: Duration = Duration::from_millis(300);

impl Grid {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: None,
        }
    }

    /// When the frame that came at `arrived` is shown. The frame lasts `part` of an interval,
    /// 1 for most.
    pub(crate) fn place(&mut self, arrived: Instant, part: f64) -> Instant {
        let due = self.next.unwrap_or(arrived);
        let late = arrived.saturating_duration_since(due);
        let due = if late > PAUSE {
            arrived
        } else {
            due + late / FOLLOW
        };
        self.next = Some(due + self.interval.mul_f64(part));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(40);

    fn grid(arrivals: impl Iterator<Item = u64>) -> Vec<u128> {
        let start = Instant::now();
        let mut grid = Grid::new(INTERVAL);
        let place = |at: u64| {
            let placed = grid.place(start + Duration::from_millis(at), 1.0);
            (placed - start).as_millis()
        };
        arrivals.map(place).collect()
    }

    #[test]
    fn a_file_is_played_at_its_speed() {
        assert_eq!(grid([0, 1, 2, 3].into_iter()), [0, 40, 80, 120]);
    }

    #[test]
    fn a_slower_camera_is_followed_without_a_jump() {
        // 41 ms apart, though it says 40.
        let placed = grid((0..1000).map(|number| number * 41));
        assert!(placed[999].abs_diff(999 * 41) < 60, "{}", placed[999]);
        let steps = placed.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(steps.clone().all(|step| (40..=42).contains(&step)));
    }

    #[test]
    fn after_a_pause_it_goes_on_from_there() {
        assert_eq!(grid([0, 40, 2000, 2040].into_iter()), [0, 40, 2000, 2040]);
    }

    #[test]
    fn a_stall_of_the_machine_becomes_a_pause_of_the_stream() {
        let start = Instant::now();
        let mut pace = Pace::new(Timeline::new(start), start);
        let second = MediaTime::from_nanos(1_000_000_000);
        assert!(!pace.catch_up(second, start + Duration::from_millis(1900)));
        assert!(pace.catch_up(second, start + Duration::from_secs(8)));
        assert_eq!(pace.place(second).nanos(), 8_000_000_000);
        assert_eq!(
            pace.due(MediaTime::from_nanos(-5)),
            start + Duration::from_secs(7)
        );
    }
}
