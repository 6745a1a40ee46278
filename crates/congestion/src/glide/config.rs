//! What Glide aims at.

use std::time::Duration;

use super::Constants;

/// The aims of Glide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Queueing delay that a flow of 2 Mbit/s aims at; 10 to 400 ms. Half as long again while
    /// data waits in the application for more than a second.
    pub target_queue: Duration,
    /// Whether to compete with flows that fill the queue.
    pub competes: bool,
    /// The constants of the law; any but the default ones are for a laboratory.
    pub constants: Constants,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            target_queue: Duration::from_millis(60),
            competes: true,
            constants: Constants::DEFAULT,
        }
    }
}

impl Config {
    /// Smallest `target_queue` that is accepted.
    pub const TARGET_QUEUE_MIN: Duration = Duration::from_millis(10);
    /// Largest `target_queue` that is accepted.
    pub const TARGET_QUEUE_MAX: Duration = Duration::from_millis(400);

    /// Returns a configuration for remote control and calls: the shortest queue, at some
    /// cost of rate on paths that vary.
    pub fn low_delay() -> Self {
        Self {
            target_queue: Self::TARGET_QUEUE_MIN,
            ..Self::default()
        }
    }
}
