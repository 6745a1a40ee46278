use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

/// Number of nanoseconds in a second.
const NANOS: i128 = 1_000_000_000;

/// Time on a stream's timeline, in nanoseconds since the stream's origin; it may be negative.
///
/// All tracks of a stream share one origin, so units with equal media times are presented
/// together. Rounding to a nanosecond changes a time by less than half a tick of every RTP clock
/// below 1 GHz, so a number of ticks survives the conversion to `MediaTime` and back exactly.
///
/// ```
/// use glassline_media::MediaTime;
/// use std::time::Duration;
///
/// let frame = MediaTime::from_ticks(3000, 90_000);
/// assert_eq!(frame.saturating_since(MediaTime::ZERO), Duration::from_nanos(33_333_333));
/// assert_eq!(frame.ticks(90_000), 3000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MediaTime(i64);

impl MediaTime {
    /// Media time of the stream's origin.
    pub const ZERO: Self = Self(0);

    /// Returns the media time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the time since the origin in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Converts `ticks` of an RTP clock of `rate` Hz, counted from the origin; rounds to the
    /// nearest nanosecond.
    pub fn from_ticks(ticks: i64, rate: u32) -> Self {
        let rate = i128::from(rate);
        let nanos = (i128::from(ticks) * NANOS + rate / 2).div_euclid(rate);
        Self(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Converts to ticks of an RTP clock of `rate` Hz, counted from the origin; rounds to the
    /// nearest tick.
    pub fn ticks(self, rate: u32) -> i64 {
        let ticks = (i128::from(self.0) * i128::from(rate) + NANOS / 2).div_euclid(NANOS);
        i64::try_from(ticks).unwrap_or(i64::MAX)
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is the later one.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for MediaTime {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for MediaTime {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)),
        )
    }
}

/// A 64-bit NTP timestamp: seconds since 1900 and a binary fraction (RFC 3550 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NtpTime(pub u64);

/// Seconds from 1900-01-01 to 1970-01-01.
const UNIX_OFFSET_S: u64 = 2_208_988_800;

impl NtpTime {
    /// Converts the time `since_unix` after 1970-01-01 UTC; the seconds wrap every 2³² s.
    pub fn from_unix(since_unix: Duration) -> Self {
        let seconds = since_unix.as_secs().wrapping_add(UNIX_OFFSET_S) & 0xffff_ffff;
        let fraction = (u64::from(since_unix.subsec_nanos()) << 32) / 1_000_000_000;
        Self((seconds << 32) | fraction)
    }

    /// Returns the middle 32 bits in units of 2⁻¹⁶ s, the form of `LSR` and `DLSR` in reception
    /// report blocks (RFC 3550 §6.4.1).
    // The middle bits are what is asked for.
    pub const fn compact(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

/// Smallest difference of two relations that counts as a calendar that was set.
const STEP: Duration = Duration::from_millis(500);

/// Relation between the monotonic clock and the calendar, at one moment. Code that may read clocks
/// creates it, so that sans-IO cores can write NTP timestamps without reading a clock.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    at: Instant,
    unix: Duration,
}

impl WallClock {
    /// Creates the relation: the monotonic instant `at` was `unix` after 1970-01-01 UTC.
    pub const fn new(at: Instant, unix: Duration) -> Self {
        Self { at, unix }
    }

    /// Returns the time from 1970-01-01 UTC to `instant`.
    pub fn unix(&self, instant: Instant) -> Duration {
        match instant.checked_duration_since(self.at) {
            Some(later) => self.unix + later,
            None => self.unix.saturating_sub(self.at.duration_since(instant)),
        }
    }

    /// Returns whether the calendar was set between two readings of both clocks, of which this is one:
    /// they differ by more than the time that passes between reading the two clocks on a busy machine.
    pub fn is_set_since(&self, earlier: &Self) -> bool {
        self.unix.abs_diff(earlier.unix(self.at)) > STEP
    }

    /// Returns the NTP timestamp of `instant`.
    pub fn ntp(&self, instant: Instant) -> NtpTime {
        NtpTime::from_unix(self.unix(instant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ticks_survive_the_way_through_nanoseconds(
            ticks in -1_000_000_000_000i64..1_000_000_000_000,
            rate in prop::sample::select(vec![8_000u32, 44_100, 48_000, 90_000]),
        ) {
            prop_assert_eq!(MediaTime::from_ticks(ticks, rate).ticks(rate), ticks);
        }
    }

    #[test]
    fn thirty_frames_a_second_are_three_thousand_ticks_each() {
        for frame in 0..100_000i64 {
            let time = MediaTime::from_nanos(frame * 1_000_000_000 / 30);
            assert_eq!(time.ticks(90_000), frame * 3000);
        }
    }

    #[test]
    fn ntp_epoch_is_1900() {
        let ntp = NtpTime::from_unix(Duration::from_millis(500));
        assert_eq!(ntp.0 >> 32, 2_208_988_800);
        assert_eq!(ntp.0 & 0xffff_ffff, 1 << 31);
        assert_eq!(ntp.compact(), (2_208_988_800u64 << 16) as u32 | 0x8000);
    }

    #[test]
    fn times_move_by_durations_and_stop_at_their_ends() {
        let time = MediaTime::from_nanos(5_000);
        assert_eq!((time + Duration::from_nanos(7)).nanos(), 5_007);
        assert_eq!((time - Duration::from_nanos(7)).nanos(), 4_993);
        assert_eq!((time - Duration::from_nanos(5_001)).nanos(), -1);
        assert_eq!((time + Duration::MAX).nanos(), i64::MAX);
        let later = time + Duration::from_millis(2);
        assert_eq!(later.saturating_since(time), Duration::from_millis(2));
        assert_eq!(time.saturating_since(later), Duration::ZERO);
    }

    #[test]
    fn ticks_and_nanoseconds_round_to_the_nearest() {
        // A tick of 90 kHz is 11,111.1 ns long.
        for (nanos, ticks) in [
            (5_555, 0),
            (5_556, 1),
            (16_666, 1),
            (16_667, 2),
            (-5_556, -1),
        ] {
            assert_eq!(MediaTime::from_nanos(nanos).ticks(90_000), ticks, "{nanos}");
        }
        for (ticks, nanos) in [(1, 11_111), (2, 22_222), (5, 55_556), (-1, -11_111)] {
            assert_eq!(MediaTime::from_ticks(ticks, 90_000).nanos(), nanos);
        }
    }

    #[test]
    fn the_calendar_goes_on_in_both_directions() {
        let at = Instant::now() + Duration::from_secs(100);
        let wall = WallClock::new(at, Duration::from_secs(1_000));
        let seconds = Duration::from_secs;
        assert_eq!(wall.unix(at), seconds(1_000));
        assert_eq!(wall.unix(at + seconds(7)), seconds(1_007));
        assert_eq!(wall.unix(at - seconds(7)), seconds(993));
        assert_eq!(
            wall.ntp(at + seconds(7)),
            NtpTime::from_unix(seconds(1_007))
        );
    }

    #[test]
    fn a_calendar_that_is_set_is_seen_and_one_that_goes_on_is_not() {
        let seconds = Duration::from_secs;
        let start = Instant::now() + seconds(100);
        let before = WallClock::new(start, seconds(1_000));
        for (unix, is_set) in [
            (seconds(1_060), false),
            (Duration::from_millis(1_060_400), false),
            (Duration::from_millis(1_059_400), true),
            (seconds(260_260), true),
            (Duration::ZERO, true),
        ] {
            let after = WallClock::new(start + seconds(60), unix);
            assert_eq!(after.is_set_since(&before), is_set, "{unix:?}");
        }
    }

    #[test]
    fn seconds_of_ntp_wrap_in_2036() {
        let era = Duration::from_secs((1 << 32) - 2_208_988_800);
        assert_eq!(NtpTime::from_unix(era), NtpTime(0));
        let quarter = NtpTime::from_unix(era + Duration::from_millis(3_250));
        assert_eq!(quarter, NtpTime((3 << 32) | (1 << 30)));
        assert_eq!(quarter.compact(), (3 << 16) | (1 << 14));
    }
}
