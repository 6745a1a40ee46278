use std::ops::Range;
use std::time::Duration;

use crate::file::FragmentEntry;

/// Longest time without media that a span keeps, in nanoseconds. A longer one is left out.
const GAP_KEPT: i128 = 2_000_000_000;

/// Difference in nanoseconds between two relations of wall clock and decode time up to which two files
/// belong to one run: the wall clock of a stream is an estimate.
const SAME_RUN: i128 = 2_000_000_000;

/// The relation between the times of a file, those of the span, and the wall clock, in nanoseconds.
///
/// The times of the span are those of its first file. They go on over runs and gaps.
#[derive(Clone, Debug)]
pub(super) struct OutClock {
    /// Wall-clock time less time of the current file.
    wall: i128,
    /// Time of the span less time of the current file.
    offset: i128,
    /// Time of the span at which the newest fragment ends.
    end: i128,
    /// Wall-clock time at which the newest fragment ends.
    wall_end: Duration,
    gaps: Vec<Range<Duration>>,
}

impl OutClock {
    /// Begins with the first fragment of a span.
    pub(super) fn new(first: &FragmentEntry) -> Self {
        let decoded = i128::from(first.decode_time.nanos());
        Self {
            wall: nanos(first.wall_clock) - decoded,
            offset: 0,
            end: decoded + nanos(first.duration),
            wall_end: first.wall_clock_end(),
            gaps: Vec::new(),
        }
    }

    /// Goes on to the next fragment, which may be the first one of another file.
    pub(super) fn advance(&mut self, entry: &FragmentEntry, begins_file: bool) {
        let decoded = i128::from(entry.decode_time.nanos());
        let wall = nanos(entry.wall_clock) - decoded;
        if begins_file && wall.abs_diff(self.wall) > SAME_RUN.unsigned_abs() {
            self.begin_run(entry);
        }
        let gap = decoded + self.offset - self.end;
        if gap > GAP_KEPT {
            self.offset -= gap;
            self.gaps.push(self.wall_end..entry.wall_clock);
        }
        self.end = self.end.max(decoded + self.offset + nanos(entry.duration));
        self.wall_end = entry.wall_clock_end();
    }

    /// Goes on with a run whose decode times have nothing to do with those before: by the wall clock.
    pub(super) fn begin_run(&mut self, entry: &FragmentEntry) {
        let decoded = i128::from(entry.decode_time.nanos());
        let pause = entry.wall_clock.saturating_sub(self.wall_end);
        self.wall = nanos(entry.wall_clock) - decoded;
        self.offset = self.end + nanos(pause) - decoded;
    }

    /// Returns the time of the span at which the newest fragment ends, by the wall clock.
    pub(super) const fn wall_end(&self) -> Duration {
        self.wall_end
    }

    /// Returns the time of the span less that of the current file.
    pub(super) fn offset(&self) -> i128 {
        self.offset
    }

    /// Returns the time of the span at which a fragment of the current file begins.
    pub(super) fn time_of(&self, entry: &FragmentEntry) -> i128 {
        i128::from(entry.decode_time.nanos()) + self.offset
    }

    /// Returns the time of the current file at a wall-clock time.
    pub(super) fn time_of_wall(&self, wall_clock: Duration) -> i128 {
        nanos(wall_clock) - self.wall
    }

    /// Returns the time of the span at a wall-clock time.
    pub(super) fn out_of_wall(&self, wall_clock: Duration) -> i128 {
        self.time_of_wall(wall_clock) + self.offset
    }

    /// Returns the wall-clock time at a time of the span.
    pub(super) fn wall_of_out(&self, time: i128) -> Duration {
        let wall = time - self.offset + self.wall;
        Duration::from_nanos(u64::try_from(wall).unwrap_or(0))
    }

    /// Returns the gaps that were left out.
    pub(super) fn into_gaps(self) -> Vec<Range<Duration>> {
        self.gaps
    }
}

/// Returns a duration in nanoseconds.
fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}
