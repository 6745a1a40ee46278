//! Time of a run: all its processes are on one machine and compare the calendar's milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 in UTC.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Seconds from `start_ms` to `at_ms`, negative if it was earlier.
pub(super) fn seconds(start_ms: u64, at_ms: u64) -> f64 {
    (at_ms as f64 - start_ms as f64) / 1e3
}
