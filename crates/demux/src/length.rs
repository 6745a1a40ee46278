use glassline_media::MediaTime;

/// Exact length of a pass. Loops add this length up for months, and a rounding error of a
/// nanosecond in each would become an audible gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    ticks: i64,
    rate: u32,
}

impl Length {
    /// Creates the length of `ticks` of a clock of `rate` Hz.
    pub(crate) const fn from_ticks(ticks: i64, rate: u32) -> Self {
        Self { ticks, rate }
    }

    pub(crate) const fn from_nanos(nanos: i64) -> Self {
        Self::from_ticks(nanos, 1_000_000_000)
    }

    /// Returns the length of `passes` passes in ns, rounded once.
    pub(crate) fn nanos_of(self, passes: i64) -> i64 {
        MediaTime::from_ticks(self.ticks.saturating_mul(passes), self.rate).nanos()
    }
}
