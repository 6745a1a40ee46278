use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// A source restarted if its times move by more than this against its arrivals, compared with
/// the lag of the frames before (so that clock drift is not taken for a jump).
const LEAP: Duration = Duration::from_secs(3);

/// Least distance in media time from the last frame of one source to the first of the next.
const RESTART_STEP: Duration = Duration::from_millis(1);

/// Length of a window over which the least arrival lag is taken.
const LAG_WINDOW: Duration = Duration::from_secs(10);

/// Maps the times of successive sources onto the one timeline of the stream.
///
/// The times of a source begin anywhere. The first frame of each source gets the media time of
/// its arrival, but never one before a frame that was published already; later frames keep
/// their distance to it. A restart therefore appears as a pause, not as a jump backwards.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Instant of media time zero: the arrival of the stream's first frame.
    zero: Option<Instant>,
    /// Stream time minus source time for the present source, in ns. `None` before its first
    /// frame.
    offset_ns: Option<i64>,
    /// Latest media time that was published.
    latest: Option<MediaTime>,
    lag: ArrivalLag,
}

/// Position of a frame on the stream's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitTiming {
    /// Presentation time of the frame.
    pub(crate) time: MediaTime,
    /// Instant at which `time` is due by the stream's filtered clock.
    pub(crate) reference: Instant,
}

impl Timeline {
    /// Prepares for a new source: its first frame sets a new offset.
    pub(crate) fn begin_source(&mut self) {
        self.offset_ns = None;
    }

    /// Maps a frame to the stream's timeline. `time` is the frame's time by its source,
    /// `origin` the instant of its capture or arrival.
    pub(crate) fn map(&mut self, time: MediaTime, origin: Instant) -> UnitTiming {
        let zero = *self.zero.get_or_insert(origin);
        let arrival_ns = signed_nanos(zero, origin);
        let offset = match self.offset_ns {
            Some(offset) if self.continues(arrival_ns - time.nanos() - offset) => offset,
            _ => {
                let floor = self
                    .latest
                    .map_or(i64::MIN, |latest| (latest + RESTART_STEP).nanos());
                self.lag = ArrivalLag::default();
                arrival_ns.max(floor) - time.nanos()
            }
        };
        self.offset_ns = Some(offset);
        let placed = MediaTime::from_nanos(time.nanos() + offset);
        self.latest = self.latest.max(Some(placed));
        let lag_ns = self.lag.observe(arrival_ns - placed.nanos(), origin);
        UnitTiming {
            time: placed,
            reference: shift(zero, placed.nanos() + lag_ns),
        }
    }

    /// Returns whether the source's clock continues without a jump: the lag `lag_ns` is near
    /// the recent least lag, however far drift has moved that from zero.
    fn continues(&self, lag_ns: i64) -> bool {
        let usual = self.lag.least().unwrap_or(lag_ns);
        lag_ns.abs_diff(usual) < nanos(LEAP)
    }
}

/// The least recent arrival lag: the distance from the due time of a frame to its arrival, in
/// ns.
///
/// The frame with the least lag of the last seconds met no queue, so its lag shows how the
/// source's clock relates to ours. Taking the least lag of each window follows a drifting
/// clock.
#[derive(Debug, Default)]
struct ArrivalLag {
    /// Least lag of the current window in ns, and the window's beginning.
    current: Option<(i64, Instant)>,
    /// Least lag of the previous window in ns.
    previous: Option<i64>,
}

impl ArrivalLag {
    /// Returns the least lag of both windows in ns; `None` before the first frame.
    fn least(&self) -> Option<i64> {
        let current = self.current.map(|(least, _)| least);
        [current, self.previous].into_iter().flatten().min()
    }

    /// Adds a frame that arrived at `at` with a lag of `lag_ns`; returns the least lag in ns.
    fn observe(&mut self, lag_ns: i64, at: Instant) -> i64 {
        let (least, since) = self.current.unwrap_or((lag_ns, at));
        if at.saturating_duration_since(since) > LAG_WINDOW {
            self.previous = Some(least);
            self.current = Some((lag_ns, at));
        } else {
            self.current = Some((least.min(lag_ns), since));
        }
        self.least().unwrap_or(lag_ns)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the signed distance between two instants in ns.
fn signed_nanos(from: Instant, to: Instant) -> i64 {
    let (sign, distance) = match to.checked_duration_since(from) {
        Some(later) => (1, later),
        None => (-1, from.duration_since(to)),
    };
    i64::try_from(distance.as_nanos()).map_or(sign * i64::MAX, |ns| sign * ns)
}

/// Returns `from` moved by `by_ns` ns, or `from` itself if the clock cannot represent that.
fn shift(from: Instant, by_ns: i64) -> Instant {
    let distance = Duration::from_nanos(by_ns.unsigned_abs());
    let shifted = if by_ns < 0 {
        from.checked_sub(distance)
    } else {
        from.checked_add(distance)
    };
    shifted.unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_nanos(33_333_333);

    fn time(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_restarted_source_goes_on_and_never_back() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        assert_eq!(timeline.map(time(90_000), start).time, MediaTime::ZERO);
        assert_eq!(timeline.map(time(90_033), start + FRAME).time, time(33));
        // The camera reboots, counts from zero and comes back two seconds later.
        timeline.begin_source();
        assert_eq!(
            timeline.map(time(0), start + Duration::from_secs(2)).time,
            time(2000)
        );
        // A source that returns with frames from the past still moves forward.
        timeline.begin_source();
        let again = timeline
            .map(time(0), start + Duration::from_millis(1900))
            .time;
        assert_eq!(again, time(2001));
    }

    #[test]
    fn a_leaping_clock_is_anchored_anew() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        timeline.map(time(0), start);
        let leapt = timeline.map(time(3_600_000), start + FRAME);
        assert_eq!(leapt.time.nanos(), 33_333_333);
        // And its tracks stay together afterwards.
        assert_eq!(
            timeline.map(time(3_600_020), start + FRAME).time.nanos(),
            53_333_333
        );
    }

    #[test]
    fn a_clock_that_drifts_for_days_never_leaps() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        // 1000 ppm fast, a frame a second: ten seconds ahead after 10,000.
        let mut last = None;
        for second in 0..10_000i64 {
            let at = start + Duration::from_micros(999_000 * second.unsigned_abs());
            let placed = timeline.map(time(1000 * second), at);
            assert_eq!(placed.time, time(1000 * second), "no leap at {second} s");
            last = Some((placed, at));
        }
        let (placed, at) = last.expect("frames were placed");
        let apart = at.saturating_duration_since(placed.reference);
        assert!(apart < Duration::from_millis(50), "{apart:?}");
    }

    #[test]
    fn reference_ignores_arrival_jitter_and_follows_drift() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        timeline.map(time(0), start);
        let late = timeline.map(time(100), start + Duration::from_millis(140));
        assert_eq!(late.reference, start + Duration::from_millis(100));
        // A source clock 1 % slow: after 30 s the reference follows it to 100 ms or so.
        let mut placed = late;
        for step in 1..=300i64 {
            let due = start + Duration::from_millis(100 + 101 * step as u64);
            placed = timeline.map(time(100 + 100 * step), due);
        }
        let due = start + Duration::from_millis(100 + 101 * 300);
        assert!(due.duration_since(placed.reference) < Duration::from_millis(250));
    }

    /// A source whose times move by less than the threshold against its arrivals was held up; from
    /// the threshold on it restarted.
    #[test]
    fn a_source_leaps_from_three_seconds_on_in_either_direction() {
        let placed_ms = |late_ms: i64| {
            let start = Instant::now();
            let mut timeline = Timeline::default();
            timeline.map(time(10_000), start);
            let at = start + Duration::from_secs(20);
            // By its clock 20 s passed, less what the frame came late.
            let placed = timeline.map(time(30_000 - late_ms), at).time;
            placed.nanos() / 1_000_000
        };
        assert_eq!(placed_ms(0), 20_000);
        assert_eq!(placed_ms(2_999), 17_001, "held up");
        assert_eq!(placed_ms(3_000), 20_000, "began anew");
        assert_eq!(placed_ms(-2_999), 22_999, "ahead");
        assert_eq!(placed_ms(-3_000), 20_000, "began anew");
    }

    #[test]
    fn a_restart_is_a_millisecond_behind_the_latest_frame_at_least() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        timeline.map(time(0), start);
        // The latest frame need not be the last one: B-frames go back.
        timeline.map(time(80), start);
        timeline.map(time(40), start);
        timeline.begin_source();
        assert_eq!(timeline.map(time(7), start).time, time(81));
        assert_eq!(
            timeline.map(time(8), start).time,
            time(82),
            "it keeps its distance"
        );
    }

    #[test]
    fn the_least_lag_is_that_of_the_present_window_and_the_one_before() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut lag = ArrivalLag::default();
        assert_eq!(lag.least(), None);
        assert_eq!(lag.observe(50, at(0)), 50);
        assert_eq!(lag.observe(20, at(1)), 20);
        assert_eq!(
            lag.observe(30, at(10)),
            20,
            "a window ends after 10 s, not at"
        );
        assert_eq!(lag.observe(40, at(11)), 20, "the window before counts");
        assert_eq!(lag.observe(60, at(21)), 20);
        assert_eq!(lag.observe(60, at(22)), 40, "the first window is over");
    }

    #[test]
    fn instants_move_and_compare_in_both_directions() {
        let start = Instant::now() + Duration::from_secs(10);
        let later = start + Duration::from_nanos(7);
        assert_eq!(signed_nanos(start, later), 7);
        assert_eq!(signed_nanos(later, start), -7);
        assert_eq!(signed_nanos(start, start), 0);
        let far = start + Duration::from_secs(10_000_000_000);
        assert_eq!(signed_nanos(start, far), i64::MAX);
        assert_eq!(signed_nanos(far, start), -i64::MAX);
        assert_eq!(shift(start, 7), later);
        assert_eq!(shift(later, -7), start);
        assert_eq!(shift(start, 0), start);
        assert_eq!(nanos(Duration::from_secs(3)), 3_000_000_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    /// Without a frame before it, an arrival before the stream's zero is placed before zero.
    #[test]
    fn a_frame_may_arrive_before_the_first_one_was_captured() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut timeline = Timeline::default();
        timeline.map(time(0), start);
        let early = timeline.map(time(-40), start - Duration::from_millis(40));
        assert_eq!(early.time, time(-40));
        assert_eq!(early.reference, start - Duration::from_millis(40));
    }
}
