//! Collections of broadcasts that sessions can read.

use std::sync::Arc;
use std::time::Duration;

use moq_net::{cache, origin};
use tokio::task::AbortHandle;

/// Most bytes of frames that one collection keeps, over all its broadcasts. The oldest groups
/// are dropped first, the newest group of a track never.
const CACHE_BYTES: u64 = 64 << 20;

/// Frames that were neither read nor written for this long are dropped.
const CACHE_EXPIRY: Duration = Duration::from_secs(30);

/// Broadcasts by name, which any number of sessions can read.
#[derive(Clone)]
pub struct Origin {
    pub(super) producer: origin::Producer,
    _driver: Arc<Driver>,
}

/// The background task of a collection; it is aborted when the last clone of the collection is
/// dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Origin {
    /// Creates an empty collection. Must be called within tokio.
    pub fn new() -> Self {
        Self::bounded(CACHE_BYTES)
    }

    /// Creates an empty collection whose frames take at most about `bytes`.
    pub(super) fn bounded(bytes: u64) -> Self {
        let mut config = origin::Config::default();
        config.pool = cache::Pool::new(
            cache::Config::default()
                .with_capacity(bytes)
                .with_expiry(CACHE_EXPIRY),
        );
        let (producer, driver) = origin::Producer::new(config);
        let driver = tokio::spawn(moq_net::time::run(driver));
        Self {
            producer,
            _driver: Arc::new(Driver(driver.abort_handle())),
        }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}
