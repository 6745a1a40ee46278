//! When a bottleneck may send: delivery opportunities, read from Mahimahi's traces or
//! drawn from a model of a radio.
//!
//! The model of Mahimahi (Netravali et al., "Mahimahi: accurate record-and-replay for
//! HTTP", USENIX ATC 2015, §4): each entry is a millisecond at which 1500 bytes may
//! leave. What is not used then is wasted. After its last millisecond the trace
//! begins again.

mod generate;
mod mahimahi;

use std::fmt;
use std::time::Duration;

use glassline_media::Bitrate;

pub use generate::{Fading, State};
pub use mahimahi::ScheduleError;

/// What an opportunity carries.
pub(crate) const OPPORTUNITY_BYTES: u64 = 1500;

const MILLISECOND: u64 = 1_000_000;

/// A trace of delivery opportunities; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Milliseconds since the start, rising, several of the same for more than one.
    at_ms: Vec<u32>,
    /// Not 0, and no less than any of them.
    period_ms: u32,
}

impl Schedule {
    /// Most opportunities of one trace: an hour at 33 Mbit/s, in 40 MB.
    pub const OPPORTUNITIES_MAX: usize = 10_000_000;

    /// A trace that begins again after `period_ms`; `None` if that is 0, or if the
    /// opportunities are none, too many, out of order or after it.
    pub fn new(at_ms: Vec<u32>, period_ms: u32) -> Option<Self> {
        let last = *at_ms.last()?;
        let fits = at_ms.len() <= Self::OPPORTUNITIES_MAX && last <= period_ms && period_ms > 0;
        (fits && at_ms.is_sorted()).then_some(Self { at_ms, period_ms })
    }

    /// The opportunities, in milliseconds since the start.
    pub fn opportunities(&self) -> &[u32] {
        &self.at_ms
    }

    /// After what it begins again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms.into())
    }

    /// What passes if every opportunity is used.
    pub fn mean(&self) -> Bitrate {
        Bitrate::over(self.at_ms.len() as u64 * OPPORTUNITY_BYTES, self.period())
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.at_ms.len();
        write!(
            f,
            "Schedule({count} in {} ms, {})",
            self.period_ms,
            self.mean()
        )
    }
}

/// The next unused opportunity of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pass: u64,
    index: usize,
}

impl Cursor {
    /// When the next opportunity at or after `at` is, both in nanoseconds since what
    /// lies `offset` into the trace. Later ones stay unused, earlier ones are gone.
    pub(crate) fn next(&mut self, schedule: &Schedule, offset: Duration, at: u64) -> u64 {
        let period = u64::from(schedule.period_ms) * MILLISECOND;
        let offset = offset.as_nanos() % u128::from(period);
        let offset = u64::try_from(offset).expect("less than a period");
        let at = at.saturating_add(offset);
        let found = self.time(schedule, period);
        if found >= at {
            return found - offset;
        }
        // A pass holds its last millisecond and the next pass its first, though both
        // are the same: hence the 1.
        let pass = (at - 1) / period;
        if pass > self.pass {
            *self = Self { pass, index: 0 };
        }
        let within = at - pass * period;
        let ahead = &schedule.at_ms[self.index..];
        self.index += ahead.partition_point(|&ms| u64::from(ms) * MILLISECOND < within);
        if self.index == schedule.at_ms.len() {
            *self = Self {
                pass: pass + 1,
                index: 0,
            };
        }
        self.time(schedule, period) - offset
    }

    /// Goes on to the one after.
    pub(crate) fn use_up(&mut self, schedule: &Schedule) {
        self.index += 1;
        if self.index == schedule.at_ms.len() {
            self.pass += 1;
            self.index = 0;
        }
    }

    fn time(self, schedule: &Schedule, period: u64) -> u64 {
        let within = u64::from(schedule.at_ms[self.index]) * MILLISECOND;
        self.pass.saturating_mul(period).saturating_add(within)
    }
}

#[cfg(test)]
mod tests;
