//! The state that all readings of a library share.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::Hub;

use super::readings::Readings;

/// Limits of a library. All are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most readings that belong to one client each.
    pub private: usize,
    /// Most files kept open that have no reading.
    pub idle: usize,
    /// Most bytes of the indexes of those files, estimated from their duration.
    pub idle_bytes: usize,
    /// Time for which a file without a reading is kept open.
    pub idle_span: Duration,
    /// Time for which a shared reading continues without viewers: long enough for a viewer that
    /// comes back, and for viewers that follow one another.
    pub linger: Duration,
    /// Number of threads that read and pace.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            private: 1_000,
            idle: 64,
            idle_bytes: 64 << 20,
            idle_span: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            // One thread continues while the other waits for its disk.
            threads: 2,
        }
    }
}

/// The state that all readings of a library share.
#[derive(Debug)]
pub(super) struct LibraryContext {
    pub(super) hub: Arc<Hub>,
    pub(super) limits: Limits,
    pub(super) readings: Arc<Readings>,
}
