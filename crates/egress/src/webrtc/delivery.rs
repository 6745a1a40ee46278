//! Rules by which frames and repairs leave to a viewer.

use std::time::Duration;

/// The rules for one viewer, which the configuration sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time that a frame may wait; `None` leaves it to the server.
    pub lag: Option<Duration>,
    /// Whether repairs may leave ahead of losses.
    pub is_protected: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            lag: None,
            is_protected: true,
        }
    }
}
