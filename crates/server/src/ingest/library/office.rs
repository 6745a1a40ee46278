//! What all readings of a library share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use glassline_hub::Hub;

use super::driver::Driver;

/// Bounds on what a library takes on. All are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Readings for one client each, at once.
    pub private: usize,
    /// Files kept open though nobody reads them now.
    pub idle: usize,
    /// Bytes that the indexes of those may take, as estimated from their length.
    pub idle_bytes: usize,
    /// How long they are kept.
    pub idle_span: Duration,
    /// How long a shared reading goes on without readers: long enough for one who
    /// comes back, and for the next of several who come one after the other.
    pub linger: Duration,
    /// Threads that read and pace.
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
            // One goes on while the other waits for its disk.
            threads: 2,
        }
    }
}

/// What all of a library's readings share.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) hub: Arc<Hub>,
    pub(super) limits: Limits,
    pub(super) driver: Driver,
    pub(super) private: AtomicUsize,
}
