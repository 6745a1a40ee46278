//! The machine's calendar, as it is read while the server runs.
//!
//! Everything that can be timed by the monotonic clock is. The calendar remains for what other
//! machines' calendars are compared with, and for the lifetime of certificates. An operator or NTP
//! may step it at any time, in both directions.

use std::time::SystemTime;

/// Returns the calendar time now.
pub fn now() -> SystemTime {
    stepped(SystemTime::now())
}

/// Returns `now`: no fault can be made in this build.
#[cfg(not(debug_assertions))]
const fn stepped(now: SystemTime) -> SystemTime {
    now
}

/// Sum of all steps in ms.
#[cfg(debug_assertions)]
static STEPPED_MS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

/// Steps the calendar of this process by `ms`, as an operator steps that of the machine.
#[cfg(debug_assertions)]
pub fn step(ms: i64) {
    STEPPED_MS.fetch_add(ms, std::sync::atomic::Ordering::Relaxed);
}

/// Returns `now` moved by all steps.
#[cfg(debug_assertions)]
fn stepped(now: SystemTime) -> SystemTime {
    let ms = STEPPED_MS.load(std::sync::atomic::Ordering::Relaxed);
    let step = std::time::Duration::from_millis(ms.unsigned_abs());
    let there = if ms < 0 {
        now.checked_sub(step)
    } else {
        now.checked_add(step)
    };
    there.unwrap_or(now)
}
