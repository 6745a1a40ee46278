//! When a certificate that the server made itself is replaced.

use std::time::{Duration, SystemTime};

/// Longest step back of the calendar that a certificate outlives: it is valid from an hour before
/// it was made.
const STEP_BACK_MAX: Duration = Duration::from_secs(1800);

/// Whether a certificate that was made at `made` is older than `after` at `now`, or the calendar
/// went back so far that clients take it for one of the future.
pub(super) fn is_outdated(made: SystemTime, now: SystemTime, after: Duration) -> bool {
    match now.duration_since(made) {
        Ok(age) => age > after,
        Err(back) => back.duration() > STEP_BACK_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_it_is_old_or_of_the_future() {
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let after = Duration::from_secs(10 * 86_400);
        let second = Duration::from_secs(1);
        for (now, expected) in [
            (made, false),
            (made + after, false),
            (made + after + second, true),
            (made - STEP_BACK_MAX, false),
            (made - STEP_BACK_MAX - second, true),
        ] {
            assert_eq!(is_outdated(made, now, after), expected, "{now:?}");
        }
    }
}
