//! The one timeline of a camera's connections.
//!
//! ```text
//! times of a session ─┬─ its least lag behind the arrivals ─► place by arrival ─┐
//! sender reports ─────┴─ the camera's wall clock, of both sessions ─► at most 60 ms beside ─► time
//! ```

use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// Time since its first unit in which a session is placed by its arrivals. Cameras begin with frames that
/// they kept, which come faster than they were taken.
const SETTLING: Duration = Duration::from_secs(3);

/// Longest distance from the place by arrival to which sender reports move a layer. A viewer that moves
/// from layer to layer bears 75 ms.
const SHIFT_MAX: Duration = Duration::from_millis(60);

/// Shortest move by sender reports; less is jitter of the reports.
const SHIFT_MIN: Duration = Duration::from_millis(10);

/// Distance of the wall clocks of two sessions from which on they are not those of one camera.
const APART_MAX: Duration = Duration::from_secs(5);

/// Distance of frames that were moved backwards, until their times pass the latest one.
const CREEP: Duration = Duration::from_millis(1);

/// Places the units of all sessions with a camera on one timeline.
#[derive(Debug)]
pub(super) struct LayerClocks {
    zero: Instant,
    layers: Vec<LayerClock>,
}

/// The clock of one session.
#[derive(Clone, Debug, Default)]
struct LayerClock {
    /// First unit of the session.
    since: Option<Instant>,
    /// Time on the common timeline minus time of the session, in ns: by arrival, and as it is used.
    by_arrival: i64,
    offset: i64,
    /// Distance of the camera's wall clock ahead of the session's times, in ns.
    wall_clock: Option<i128>,
    /// Time that later units must exceed, after the session was moved backwards.
    floor: Option<MediaTime>,
    latest: Option<MediaTime>,
}

/// Sender reports of a session that do not fit those of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    pub(super) apart: Duration,
}

impl LayerClocks {
    pub(super) fn new(layers: usize, zero: Instant) -> Self {
        Self {
            zero,
            layers: vec![LayerClock::default(); layers],
        }
    }

    /// Forgets the session of `layer`; the next one begins at its arrival.
    pub(super) fn end(&mut self, layer: usize) {
        if let Some(clock) = self.layers.get_mut(layer) {
            *clock = LayerClock {
                latest: clock.latest,
                floor: clock.latest,
                ..LayerClock::default()
            };
        }
    }

    /// Returns the common time of a unit of `layer` at the session's time `time`, which arrived at
    /// `received`.
    pub(super) fn place(&mut self, layer: usize, time: MediaTime, received: Instant) -> MediaTime {
        let arrival = nanos(received.saturating_duration_since(self.zero));
        let Some(clock) = self.layers.get_mut(layer) else {
            return time;
        };
        let lag = arrival.saturating_sub(time.nanos());
        let is_first = clock.since.is_none();
        let since = *clock.since.get_or_insert(received);
        let is_settling = received.saturating_duration_since(since) < SETTLING;
        if is_first || is_settling && lag < clock.by_arrival {
            let moved = lag - clock.by_arrival;
            clock.by_arrival = lag;
            clock.offset = match is_first {
                true => lag,
                false => clock.offset + moved,
            };
            clock.floor = clock.latest;
        }
        let mut placed = MediaTime::from_nanos(time.nanos().saturating_add(clock.offset));
        match clock.floor {
            Some(floor) if placed <= floor => {
                placed = floor + CREEP;
                clock.floor = Some(placed);
            }
            _ => clock.floor = None,
        }
        clock.latest = clock.latest.max(Some(placed));
        placed
    }

    /// Returns the common time of a unit beside the video of `layer`, such as audio.
    pub(super) fn beside(&self, layer: usize, time: MediaTime) -> MediaTime {
        let offset = self.layers.get(layer).map_or(0, |clock| clock.offset);
        MediaTime::from_nanos(time.nanos().saturating_add(offset))
    }

    /// Notes how far the camera's wall clock is ahead of the times of the session of `layer`, and moves the
    /// sessions to the place that the reports give them.
    ///
    /// # Errors
    /// The reports of two sessions do not fit each other.
    pub(super) fn note_wall_clock(
        &mut self,
        layer: usize,
        ahead_ns: i128,
    ) -> Result<(), Disagreement> {
        let Some(clock) = self.layers.get_mut(layer) else {
            return Ok(());
        };
        clock.wall_clock = Some(ahead_ns);
        let mut reference = None;
        let mut disagreement = None;
        for clock in &mut self.layers {
            let Some(wall_clock) = clock.wall_clock.filter(|_| clock.since.is_some()) else {
                continue;
            };
            let Some((of_reference, offset)) = reference else {
                reference = Some((wall_clock, clock.offset));
                continue;
            };
            let wanted = i128::from(offset) + wall_clock - of_reference;
            let from_arrival = wanted - i128::from(clock.by_arrival);
            let apart = from_arrival.unsigned_abs();
            if apart > APART_MAX.as_nanos() {
                let apart = u64::try_from(apart).unwrap_or(u64::MAX);
                disagreement = Some(Disagreement {
                    apart: Duration::from_nanos(apart),
                });
                continue;
            }
            let most = i128::from(nanos(SHIFT_MAX));
            let within = i64::try_from(from_arrival.clamp(-most, most)).unwrap_or_default();
            let moved = clock.by_arrival + within - clock.offset;
            if moved.unsigned_abs() >= SHIFT_MIN.as_nanos().try_into().unwrap_or(u64::MAX) {
                clock.offset += moved;
                clock.floor = clock.latest;
            }
        }
        disagreement.map_or(Ok(()), Err)
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: usize = 0;
    const SUB: usize = 1;

    fn ms(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    struct Camera {
        start: Instant,
        clocks: LayerClocks,
    }

    impl Camera {
        fn new() -> Self {
            let start = Instant::now();
            Self {
                start,
                clocks: LayerClocks::new(2, start),
            }
        }

        /// Returns the common time in ms of a unit at `time` ms of its session that comes at `at` ms.
        fn place(&mut self, layer: usize, time: i64, at: u64) -> i64 {
            let received = self.start + Duration::from_millis(at);
            let placed = self.clocks.place(layer, ms(time), received);
            placed.nanos() / 1_000_000
        }

        fn report(&mut self, layer: usize, ahead_ms: i128) -> Result<(), Disagreement> {
            self.clocks.note_wall_clock(layer, ahead_ms * 1_000_000)
        }
    }

    #[test]
    fn without_reports_each_session_lies_where_it_arrives() {
        let mut camera = Camera::new();
        assert_eq!(camera.place(MAIN, 0, 100), 100);
        assert_eq!(camera.place(SUB, 7_000, 900), 900);
        assert_eq!(camera.place(SUB, 7_040, 990), 940, "jitter");
        assert_eq!(camera.place(MAIN, 840, 950), 940);
        camera.clocks.end(SUB);
        assert_eq!(camera.place(SUB, 0, 2_000), 2_000, "a new session");
    }

    /// A camera begins with the frames since its last keyframe, at once.
    #[test]
    fn frames_from_before_the_session_move_it_to_where_the_live_ones_arrive() {
        let mut camera = Camera::new();
        let placed: Vec<_> = (0..10)
            .map(|it| camera.place(MAIN, it * 100, 100))
            .collect();
        assert!(placed.is_sorted_by(|one, other| one < other), "{placed:?}");
        assert_eq!(camera.place(MAIN, 1_000, 200), 200);
        assert_eq!(camera.place(MAIN, 1_100, 300), 300);
        // Later, a frame that comes early moves nothing.
        assert_eq!(camera.place(MAIN, 5_300, 4_400), 4_500);
    }

    #[test]
    fn sender_reports_join_two_sessions_within_what_a_switch_bears() {
        for (later_ms, moved) in [
            (0, 0),
            (5, 0),
            (40, 40),
            (-40, -40),
            (300, 60),
            (-2_000, -60),
        ] {
            let mut camera = Camera::new();
            camera.place(MAIN, 0, 1_000);
            camera.place(SUB, 0, 1_000);
            assert_eq!(camera.report(SUB, 5_000 + later_ms), Ok(()));
            assert_eq!(camera.place(SUB, 40, 1_040), 1_040, "one report alone");
            assert_eq!(camera.report(MAIN, 5_000), Ok(()));
            assert_eq!(camera.place(MAIN, 200, 1_200), 1_200);
            let placed = camera.place(SUB, 200, 1_200);
            assert_eq!(placed, 1_200 + moved, "{later_ms}");
        }
    }

    #[test]
    fn reports_that_disagree_by_seconds_move_nothing_and_are_told() {
        let mut camera = Camera::new();
        camera.place(MAIN, 0, 0);
        camera.place(SUB, 0, 10);
        assert_eq!(camera.report(MAIN, 0), Ok(()));
        let disagreement = camera.report(SUB, 3_600_000).expect_err("an hour");
        assert_eq!(disagreement.apart.as_secs(), 3_599);
        assert_eq!(camera.place(SUB, 40, 50), 50);
        assert!(camera.report(SUB, i128::MAX / 10_000_000).is_err());
    }

    #[test]
    fn times_of_a_layer_never_go_back() {
        let mut camera = Camera::new();
        camera.place(MAIN, 0, 0);
        let mut placed = vec![camera.place(SUB, 0, 0), camera.place(SUB, 40, 40)];
        let _ = camera.report(MAIN, 0);
        let _ = camera.report(SUB, -60);
        placed.extend([80, 120, 160].map(|at| camera.place(SUB, at, at.unsigned_abs())));
        camera.clocks.end(SUB);
        placed.extend([0, 40].map(|time| camera.place(SUB, time, 100)));
        assert!(placed.is_sorted_by(|one, other| one < other), "{placed:?}");
    }
}
