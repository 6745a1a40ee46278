use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// A source whose clock leaps further than this, against arrival and beside its
/// drift so far, began anew.
const LEAP: Duration = Duration::from_secs(3);

/// Least step from the last frame of one source to the first of the next.
const RESTART_STEP: Duration = Duration::from_millis(1);

/// How long a minimum of the arrival lag counts.
const LAG_WINDOW: Duration = Duration::from_secs(10);

/// Maps the times of successive sources onto the stream's one timeline.
///
/// A source's times count from anywhere. The first frame of each source is
/// placed where its arrival falls on the stream's timeline, never before what
/// was published already; later frames keep their distance to it. So a restart
/// shows as a pause, not as a jump back.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// The instant of media time zero: the stream's very first frame.
    zero: Option<Instant>,
    /// Stream time minus source time, for the present source.
    offset_ns: Option<i64>,
    /// The latest time published.
    latest: Option<MediaTime>,
    lag: Lag,
}

/// A frame's place on the stream's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) time: MediaTime,
    /// When that time is due, by the stream's filtered clock.
    pub(crate) reference: Instant,
}

impl Timeline {
    /// The next frame comes from a new source.
    pub(crate) fn begin_source(&mut self) {
        self.offset_ns = None;
    }

    /// Places a frame that its source calls `time` and that was captured or
    /// arrived at `origin`.
    pub(crate) fn place(&mut self, time: MediaTime, origin: Instant) -> Placed {
        let zero = *self.zero.get_or_insert(origin);
        let arrival_ns = signed_nanos(zero, origin);
        let offset = match self.offset_ns {
            Some(offset) if self.steps_on(arrival_ns - time.nanos() - offset) => offset,
            _ => {
                let floor = self
                    .latest
                    .map_or(i64::MIN, |latest| (latest + RESTART_STEP).nanos());
                self.lag = Lag::default();
                arrival_ns.max(floor) - time.nanos()
            }
        };
        self.offset_ns = Some(offset);
        let placed = MediaTime::from_nanos(time.nanos() + offset);
        self.latest = self.latest.max(Some(placed));
        let lag_ns = self.lag.observe(arrival_ns - placed.nanos(), origin);
        Placed {
            time: placed,
            reference: shift(zero, placed.nanos() + lag_ns),
        }
    }

    /// The source's clock goes on as it did: a distance from due time to arrival
    /// like the last ones, however far drift has led them from zero by now.
    fn steps_on(&self, lag_ns: i64) -> bool {
        let usual = self.lag.least().unwrap_or(lag_ns);
        lag_ns.abs_diff(usual) < nanos(LEAP)
    }
}

/// The least recent distance from due time to arrival.
///
/// The quickest frame of the last seconds met no queue, so it shows where the
/// source's clock stands against ours; a drifting clock is followed window by
/// window.
#[derive(Debug, Default)]
struct Lag {
    current: Option<(i64, Instant)>,
    previous: Option<i64>,
}

impl Lag {
    fn least(&self) -> Option<i64> {
        let current = self.current.map(|(least, _)| least);
        [current, self.previous].into_iter().flatten().min()
    }

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

fn signed_nanos(from: Instant, to: Instant) -> i64 {
    let (sign, distance) = match to.checked_duration_since(from) {
        Some(later) => (1, later),
        None => (-1, from.duration_since(to)),
    };
    i64::try_from(distance.as_nanos()).map_or(sign * i64::MAX, |ns| sign * ns)
}

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
        assert_eq!(timeline.place(time(90_000), start).time, MediaTime::ZERO);
        assert_eq!(timeline.place(time(90_033), start + FRAME).time, time(33));
        // The camera reboots, counts from zero and comes back two seconds later.
        timeline.begin_source();
        assert_eq!(
            timeline.place(time(0), start + Duration::from_secs(2)).time,
            time(2000)
        );
        // One that comes back with a burst from the past still moves forward.
        timeline.begin_source();
        let again = timeline
            .place(time(0), start + Duration::from_millis(1900))
            .time;
        assert_eq!(again, time(2001));
    }

    #[test]
    fn a_leaping_clock_is_anchored_anew() {
        let start = Instant::now();
        let mut timeline = Timeline::default();
        timeline.place(time(0), start);
        let leapt = timeline.place(time(3_600_000), start + FRAME);
        assert_eq!(leapt.time.nanos(), 33_333_333);
        // And its tracks stay together afterwards.
        assert_eq!(
            timeline.place(time(3_600_020), start + FRAME).time.nanos(),
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
            let placed = timeline.place(time(1000 * second), at);
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
        timeline.place(time(0), start);
        let late = timeline.place(time(100), start + Duration::from_millis(140));
        assert_eq!(late.reference, start + Duration::from_millis(100));
        // A source clock 1 % slow: after 30 s the reference follows it to 100 ms or so.
        let mut placed = late;
        for step in 1..=300i64 {
            let due = start + Duration::from_millis(100 + 101 * step as u64);
            placed = timeline.place(time(100 + 100 * step), due);
        }
        let due = start + Duration::from_millis(100 + 101 * 300);
        assert!(due.duration_since(placed.reference) < Duration::from_millis(250));
    }
}
