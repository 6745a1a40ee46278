//! When things happened: arrivals by the kernel's clock, captures by what the
//! sender told.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{NtpTime, WallClock};

/// What clocks of one machine, or of two in good step, may be apart.
const AHEAD_MAX_NS: i128 = 20_000_000;
/// Nothing live is older.
const BEHIND_MAX_NS: i128 = 60_000_000_000;

/// From the capture of what RTP `timestamp` means until `now`.
///
/// `known` is a sender report's pair of calendar time and RTP timestamp (RFC 3550
/// §6.4.1). `None` if the calendar cannot be ours: the sender may count from its
/// own start, or live on another host.
pub(super) fn since(
    known: (NtpTime, u32),
    clock_rate: u32,
    timestamp: u32,
    wall: WallClock,
    now: Instant,
) -> Option<Duration> {
    let (ntp, reference) = known;
    if clock_rate == 0 {
        return None;
    }
    let ticks = i64::from(timestamp.wrapping_sub(reference) as i32);
    let since_reference = i128::from(ticks) * 1_000_000_000 / i128::from(clock_rate);
    let passed = wall.ntp(now).0.wrapping_sub(ntp.0) as i64;
    let passed = (i128::from(passed) * 1_000_000_000) >> 32;
    let delay = passed - since_reference;
    (-AHEAD_MAX_NS..BEHIND_MAX_NS)
        .contains(&delay)
        .then(|| Duration::from_nanos(delay.max(0) as u64))
}

/// The two clocks, read together.
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

    /// The instant of what the kernel noted; now, if it noted nothing.
    pub(super) fn instant(&self, noted: Option<Duration>) -> Instant {
        let ago = noted.map_or(Duration::ZERO, |at| self.unix.saturating_sub(at));
        self.now.checked_sub(ago).unwrap_or(self.now)
    }
}
