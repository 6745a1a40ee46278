use std::time::Duration;

use super::pace::Pace;

/// Configuration of a jitter buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// RTP clock rate in Hz; `None` if timestamps count the decoder's frames. (G.722's RTP
    /// clock runs at half of its sample rate: RFC 3551 §4.5.2.)
    pub clock_rate: Option<u32>,
    /// Share of the time that may be concealed because packets come late, 0 to 0.1, in the
    /// long run. A smaller share costs delay.
    pub late_share: f64,
    /// Least playout delay, above the delay of the fastest path.
    pub delay_min: Duration,
    /// Largest target of the playout delay, above the delay of the fastest path; packets that
    /// come later are lost.
    pub delay_max: Duration,
    /// How readily the delay changes while somebody speaks.
    pub pace: Pace,
    /// Longest time for which the stream is held up for a late packet.
    pub stall_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock_rate: None,
            late_share: 0.00055,
            delay_min: Duration::ZERO,
            delay_max: Duration::from_millis(500),
            pace: Pace::default(),
            stall_max: Duration::from_millis(80),
        }
    }
}
