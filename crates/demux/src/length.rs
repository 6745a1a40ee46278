use glassline_media::MediaTime;

/// How long a pass lasts, exactly: loops add it up for months, and a nanosecond
/// rounded away in each would be heard as a jump some day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    ticks: i64,
    rate: u32,
}

impl Length {
    /// `ticks` of a clock of `rate` Hz.
    pub(crate) const fn from_ticks(ticks: i64, rate: u32) -> Self {
        Self { ticks, rate }
    }

    pub(crate) const fn from_nanos(nanos: i64) -> Self {
        Self::from_ticks(nanos, 1_000_000_000)
    }

    /// Nanoseconds of so many passes, rounded once.
    pub(crate) fn nanos_of(self, passes: i64) -> i64 {
        MediaTime::from_ticks(self.ticks.saturating_mul(passes), self.rate).nanos()
    }
}
