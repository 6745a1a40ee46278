//! Arrival times by the kernel's clock, and capture times by the sender's reports.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{NtpTime, WallClock};

/// Largest lead of the sender's clock, in ns: clocks of one machine, or of two synchronized
/// ones, differ by less.
const AHEAD_MAX_NS: i128 = 20_000_000;
/// Largest delay of live media, in ns.
const BEHIND_MAX_NS: i128 = 60_000_000_000;

/// A sender's calendar and RTP time of one instant, from its report (RFC 3550 §6.4.1): together with
/// the clock rate they give a packet's timestamp a calendar time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderClock {
    pub(super) ntp: NtpTime,
    pub(super) rtp_timestamp: u32,
    /// RTP ticks a second.
    pub(super) rate: u32,
}

impl SenderClock {
    /// Returns the time from the capture of RTP `timestamp` until `now`; `None` if the calendar cannot
    /// be ours: the sender may count from its own start, or run on another host.
    pub(super) fn since(self, timestamp: u32, wall: WallClock, now: Instant) -> Option<Duration> {
        if self.rate == 0 {
            return None;
        }
        let ticks = i64::from(timestamp.wrapping_sub(self.rtp_timestamp) as i32);
        let since_report = i128::from(ticks) * 1_000_000_000 / i128::from(self.rate);
        let passed = wall.ntp(now).0.wrapping_sub(self.ntp.0) as i64;
        let passed = (i128::from(passed) * 1_000_000_000) >> 32;
        let delay = passed - since_report;
        (-AHEAD_MAX_NS..BEHIND_MAX_NS)
            .contains(&delay)
            .then(|| Duration::from_nanos(delay.max(0) as u64))
    }
}

/// Monotonic and calendar clock, read together.
pub(super) struct Clock {
    pub(super) now: Instant,
    unix: Duration,
}

impl Clock {
    pub(super) fn read() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            now: Instant::now(),
            unix: unix.unwrap_or_default(),
        }
    }

    /// Converts the kernel's stamp to an instant; `now` without a stamp.
    pub(super) fn instant(&self, noted: Option<Duration>) -> Instant {
        let ago = noted.map_or(Duration::ZERO, |at| self.unix.saturating_sub(at));
        self.now.checked_sub(ago).unwrap_or(self.now)
    }
}
