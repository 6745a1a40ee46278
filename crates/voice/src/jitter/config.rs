use std::time::Duration;

use super::pace::Pace;

/// What a jitter buffer may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Ticks a second of RTP timestamps; `None` if they count the decoder's frames
    /// (G.722's clock runs at half of its rate: RFC 3551 §4.5.2).
    pub clock_rate: Option<u32>,
    /// Of the time, what may be concealed for packets that come late, 0 to 0.1, in
    /// the long run. Less costs waiting.
    pub late_share: f64,
    /// The playout delay never goes below this above the fastest path.
    pub delay_min: Duration,
    /// Nor its target above this; what comes later is lost.
    pub delay_max: Duration,
    /// How willingly the delay moves while somebody speaks.
    pub pace: Pace,
    /// How long to hold the stream up for a packet that is late.
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
