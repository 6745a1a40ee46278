//! The change of a path whose consequences are measured.

use std::time::Duration;

/// A change of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time since the start of the run.
    pub at: Duration,
    /// Time at which the path changes again.
    pub until: Duration,
}
