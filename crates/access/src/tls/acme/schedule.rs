//! When a certificate is ordered: at once without one, with a third of its lifetime left, and after
//! failures with growing pauses.

use std::time::{Duration, SystemTime};

use crate::tls::validity::Validity;

/// Pause after the first failure. Let's Encrypt allows five failures of a name in an hour.
const PAUSE_MIN: Duration = Duration::from_secs(60);

/// Factor by which each further failure lengthens the pause.
const PAUSE_FACTOR: u32 = 4;

/// Longest pause after a failure, unless the authority asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(6 * 3_600);

/// Longest pause that an authority may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Part of its lifetime that a certificate has left when the next one is ordered, as a divisor.
const LEFT: u32 = 3;

/// The failures since the latest success, and the time before which no order is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    failures: u32,
    not_before: Option<SystemTime>,
}

impl Schedule {
    /// Returns the time to wait from `now` until the next order; zero if it is due. `validity`: that
    /// of the certificate in use, if there is one.
    pub(super) fn wait(&self, validity: Option<Validity>, now: SystemTime) -> Duration {
        let until = |time: SystemTime| time.duration_since(now).unwrap_or_default();
        let due = validity.map_or(Duration::ZERO, |it| until(renewal(it)));
        // A calendar that goes back must not lengthen a pause beyond its longest.
        let pause = self.not_before.map_or(Duration::ZERO, until);
        due.max(pause.min(RETRY_AFTER_MAX))
    }

    /// Notes that an order begins at `now`. Until [`succeeded`](Self::succeeded) the order counts as
    /// failed, so that one that ends in a panic is not made again at once.
    pub(super) fn begun(&mut self, now: SystemTime) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + self.pause());
    }

    /// Notes that the order that has begun failed at `now`; `asked` is the pause that the authority
    /// asked for. Returns the time until the next order may be made.
    pub(super) fn failed(&mut self, now: SystemTime, asked: Option<Duration>) -> Duration {
        let own = self.pause();
        let asked = asked.unwrap_or_default().min(RETRY_AFTER_MAX);
        let pause = own.max(asked);
        self.not_before = Some(now + pause);
        pause
    }

    /// Notes that a certificate was obtained and kept.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Returns the pause after the present number of failures.
    fn pause(&self) -> Duration {
        let factor = PAUSE_FACTOR.saturating_pow(self.failures.saturating_sub(1));
        PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX)
    }
}

/// Returns the time at which a certificate is to be replaced.
fn renewal(validity: Validity) -> SystemTime {
    let lifetime = validity.not_after.duration_since(validity.not_before);
    validity.not_after - lifetime.unwrap_or_default() / LEFT
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn start() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    fn of_days(days: u32) -> Validity {
        Validity {
            not_before: start(),
            not_after: start() + days * DAY,
        }
    }

    #[test]
    fn the_first_certificate_is_ordered_at_once_and_the_next_with_a_third_left() {
        let schedule = Schedule::default();
        assert_eq!(schedule.wait(None, start()), Duration::ZERO);
        for (days, left) in [(90, 30), (6, 2)] {
            let validity = Some(of_days(days));
            assert_eq!(schedule.wait(validity, start()), (days - left) * DAY);
            let near = start() + (days - left) * DAY - Duration::from_secs(1);
            assert_eq!(schedule.wait(validity, near), Duration::from_secs(1));
            for late in [days - left, days, days + 10] {
                let now = start() + late * DAY;
                assert_eq!(schedule.wait(validity, now), Duration::ZERO, "day {late}");
            }
        }
    }

    #[test]
    fn failures_are_spaced_out_and_a_success_ends_that() {
        let mut schedule = Schedule::default();
        let mut now = start();
        let mut within_an_hour = 0;
        let minutes: Vec<u64> = (0..7)
            .map(|_| {
                schedule.begun(now);
                let after_a_panic = schedule.wait(None, now);
                let pause = schedule.failed(now, None);
                assert_eq!(schedule.wait(None, now), pause);
                assert_eq!(after_a_panic, pause);
                now += pause;
                within_an_hour += u32::from(now < start() + Duration::from_secs(3_600));
                assert_eq!(schedule.wait(None, now), Duration::ZERO);
                pause.as_secs() / 60
            })
            .collect();
        assert_eq!(minutes, [1, 4, 16, 64, 256, 360, 360]);
        assert!(within_an_hour < 5, "{within_an_hour}");
        schedule.succeeded();
        assert_eq!(schedule, Schedule::default());
    }

    #[test]
    fn the_authority_may_ask_for_a_longer_pause_of_at_most_a_day() {
        let mut schedule = Schedule::default();
        let asked = Duration::from_secs(7_200);
        schedule.begun(start());
        assert_eq!(schedule.failed(start(), Some(asked)), asked);
        let mut schedule = Schedule::default();
        schedule.begun(start());
        assert_eq!(schedule.failed(start(), Some(100 * DAY)), DAY);
        // The calendar was set back by a month.
        assert_eq!(schedule.wait(None, start() - 30 * DAY), DAY);
    }

    #[test]
    fn a_pause_also_holds_for_a_renewal() {
        let mut schedule = Schedule::default();
        let now = start() + 80 * DAY;
        schedule.begun(now);
        let pause = schedule.failed(now, None);
        assert_eq!(schedule.wait(Some(of_days(90)), now), pause);
    }
}
