//! Delivery opportunities of a bottleneck, parsed from Mahimahi's traces or drawn from a
//! model of a radio.
//!
//! The model is Mahimahi's (Netravali et al., "Mahimahi: accurate record-and-replay for
//! HTTP", USENIX ATC 2015, §4): each entry is a millisecond at which 1500 bytes may leave.
//! Bytes that are not used then are wasted. After its last millisecond the trace repeats.

mod generate;
mod mahimahi;

use std::fmt;
use std::time::Duration;

use glassline_media::Bitrate;

pub use generate::{Fading, State};
pub use mahimahi::ScheduleError;

/// Bytes that an opportunity carries.
pub(crate) const OPPORTUNITY_BYTES: u64 = 1500;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// A trace of delivery opportunities; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Times of the opportunities in ms since the start: rising, with repetitions for
    /// several opportunities in one millisecond.
    at_ms: Vec<u32>,
    /// Time after which the trace repeats, in ms: not 0, and no less than any opportunity.
    period_ms: u32,
}

impl Schedule {
    /// Most opportunities of one trace: an hour at 33 Mbit/s, in 40 MB.
    pub const OPPORTUNITIES_MAX: usize = 10_000_000;

    /// Returns a trace that repeats after `period_ms`; `None` if that is 0, or if there are
    /// no opportunities, too many, or some out of order or after the period.
    pub fn new(at_ms: Vec<u32>, period_ms: u32) -> Option<Self> {
        let last = *at_ms.last()?;
        let fits = at_ms.len() <= Self::OPPORTUNITIES_MAX && last <= period_ms && period_ms > 0;
        (fits && at_ms.is_sorted()).then_some(Self { at_ms, period_ms })
    }

    /// Returns the opportunities, in ms since the start.
    pub fn opportunities(&self) -> &[u32] {
        &self.at_ms
    }

    /// Returns the time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms.into())
    }

    /// Returns the bytes that all opportunities until `time` carry, this time included.
    pub(crate) fn carried_by(&self, time: Duration) -> u64 {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (passes, within) = (
            time / u64::from(self.period_ms),
            time % u64::from(self.period_ms),
        );
        let last = self.at_ms.partition_point(|&at| u64::from(at) <= within) as u64;
        let all = passes.saturating_mul(self.at_ms.len() as u64);
        all.saturating_add(last).saturating_mul(OPPORTUNITY_BYTES)
    }

    /// Returns the rate if every opportunity is used.
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

/// Position of the next unused opportunity of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Repetitions of the trace so far.
    pass: u64,
    /// Index of the opportunity in the trace.
    index: usize,
}

impl Cursor {
    /// Returns when the next opportunity at or after `at` is, both in nanoseconds since the
    /// position `offset` into the trace. Later opportunities stay unused, earlier ones are
    /// gone.
    pub(crate) fn next(&mut self, schedule: &Schedule, offset: Duration, at: u64) -> u64 {
        let period = u64::from(schedule.period_ms) * MILLISECOND;
        let offset = offset.as_nanos() % u128::from(period);
        let offset = u64::try_from(offset).expect("less than a period");
        let at = at.saturating_add(offset);
        let found = self.time(schedule, period);
        if found >= at {
            return found - offset;
        }
        // A repetition includes its last millisecond, and the next one its first, though
        // both are the same: hence the 1.
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

    /// Proceeds to the opportunity after this one.
    pub(crate) fn use_up(&mut self, schedule: &Schedule) {
        self.index += 1;
        if self.index == schedule.at_ms.len() {
            self.pass += 1;
            self.index = 0;
        }
    }

    /// Returns when the opportunity is, in nanoseconds since the trace's start.
    fn time(self, schedule: &Schedule, period: u64) -> u64 {
        let within = u64::from(schedule.at_ms[self.index]) * MILLISECOND;
        self.pass.saturating_mul(period).saturating_add(within)
    }
}

#[cfg(test)]
mod tests;
