use std::time::Duration;

use glassline_media::MediaTime;

/// Shortest step between two times.
const CREEP: Duration = Duration::from_millis(1);
/// Longest step that counts as the usual one. A pause is none.
const USUAL_MAX: Duration = Duration::from_secs(1);

/// Makes times of a track without B-frames rise, where its source steps back now and then.
///
/// A unit whose time steps back follows the one before as that followed its own. While the source stays
/// behind, times rise half as fast as the source's, until it has caught up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeOrder {
    latest: Option<Latest>,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    stated: MediaTime,
    time: MediaTime,
    /// Distance of two times that were both as stated.
    usual: Duration,
}

impl TimeOrder {
    /// Returns the time of the next unit, given the one that the source states.
    pub(super) fn time(&mut self, stated: MediaTime) -> MediaTime {
        let Some(latest) = &mut self.latest else {
            self.latest = Some(Latest {
                stated,
                time: stated,
                usual: CREEP,
            });
            return stated;
        };
        let is_behind = latest.time > latest.stated;
        let step = stated.saturating_since(latest.time);
        if !step.is_zero() {
            if !is_behind {
                latest.usual = step.min(USUAL_MAX);
            }
            latest.time = stated;
        } else if stated < latest.stated && !is_behind {
            latest.time = latest.time + latest.usual;
        } else {
            let half = stated.saturating_since(latest.stated) / 2;
            latest.time = latest.time + half.max(CREEP);
        }
        latest.stated = stated;
        latest.time
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The times of units in microseconds.
    fn times_us(stated_us: &[i64]) -> Vec<i64> {
        let mut order = TimeOrder::default();
        let time = |us: &i64| order.time(MediaTime::from_nanos(us * 1000));
        let times = stated_us.iter().map(time);
        times.map(|it| it.nanos() / 1000).collect()
    }

    fn times(stated_ms: &[i64]) -> Vec<i64> {
        let stated: Vec<_> = stated_ms.iter().map(|ms| ms * 1000).collect();
        times_us(&stated).iter().map(|us| us / 1000).collect()
    }

    #[test]
    fn a_step_back_is_a_usual_step_ahead() {
        let stated = [0, 40, 80, -180, 160, 200];
        assert_eq!(times(&stated), [0, 40, 80, 120, 160, 200]);
    }

    #[test]
    fn a_source_that_stays_behind_is_caught_up_with() {
        let stated = [0, 40, 80, 0, 40, 80, 120, 160, 200, 240];
        let expected = [0, 40, 80, 120, 140, 160, 180, 200, 220, 240];
        assert_eq!(times(&stated), expected);
    }

    #[test]
    fn the_second_of_two_equal_times_is_right_behind_the_first() {
        assert_eq!(times(&[0, 0, 40, 40, 80]), [0, 1, 40, 41, 80]);
    }

    proptest! {
        #[test]
        fn times_rise_and_stay_near_those_of_the_source(
            steps in prop::collection::vec(-300_000i64..300_000, 1..200),
        ) {
            let stated: Vec<i64> = steps.iter().scan(0, |at, step| {
                *at += step;
                Some(*at)
            }).collect();
            let times = times_us(&stated);
            prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
            let mut highest = i64::MIN;
            for (at, (time, stated)) in times.iter().zip(&stated).enumerate() {
                prop_assert!(time >= stated);
                highest = highest.max(*stated);
                // Half of each step ahead of a source that goes to and fro adds up.
                prop_assert!(*time <= highest + 300_000 + 150_000 * at as i64);
            }
        }

        #[test]
        fn rising_times_stay_as_they_are(steps in prop::collection::vec(1i64..300_000, 1..50)) {
            let stated: Vec<i64> = steps.iter().scan(0, |at, step| {
                *at += step;
                Some(*at)
            }).collect();
            prop_assert_eq!(times_us(&stated), stated);
        }
    }
}
