use std::fmt;

/// A synchronization source identifier (RFC 3550 §3), which names one RTP stream of a session.
/// It is displayed as eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{_0:08x}")]
pub struct Ssrc(pub u32);

/// A rate in bits per second. It is displayed in Mbit/s from 1 Mbit/s on, in kbit/s below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bitrate(u64);

impl Bitrate {
    /// Returns a rate of `bits` bits per second.
    pub const fn from_bps(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the rate in units of 10⁶ bits per second.
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the mean rate of `bytes` bytes in `elapsed`; zero if `elapsed` is zero.
    pub fn over(bytes: u64, elapsed: std::time::Duration) -> Self {
        let nanos = elapsed.as_nanos();
        if nanos == 0 {
            return Self(0);
        }
        let bits = u128::from(bytes) * 8 * 1_000_000_000 / nanos;
        Self(u64::try_from(bits).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1_000_000 {
            write!(f, "{:.2} Mbit/s", self.mbps())
        } else {
            write!(f, "{} kbit/s", self.0 / 1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bitrate_counts_bits_per_second() {
        let rate = Bitrate::over(375_000, Duration::from_secs(1));
        assert_eq!(rate, Bitrate::from_bps(3_000_000));
        assert_eq!(rate.to_string(), "3.00 Mbit/s");
        assert_eq!(Bitrate::over(1, Duration::ZERO).bps(), 0);
    }

    #[test]
    fn rates_and_sources_are_displayed_as_operators_read_them() {
        assert_eq!(Bitrate::from_bps(999_999).to_string(), "999 kbit/s");
        assert_eq!(Bitrate::from_bps(1_000_000).to_string(), "1.00 Mbit/s");
        assert_eq!(Bitrate::from_bps(64_000).to_string(), "64 kbit/s");
        assert_eq!(
            Bitrate::over(1_000, Duration::from_millis(250)).bps(),
            32_000
        );
        assert_eq!(
            Bitrate::over(u64::MAX, Duration::from_nanos(1)).bps(),
            u64::MAX
        );
        assert_eq!(Ssrc(0xab).to_string(), "000000ab");
    }
}
