//! Broadcasts that are held ready for whoever may read them.

use std::sync::Arc;
use std::time::Duration;

use moq_net::{cache, origin};
use tokio::task::AbortHandle;

/// Bytes that the frames of an offer may take, over all its broadcasts; the oldest
/// groups go first, the newest of a track never.
const CACHE_BYTES: u64 = 64 << 20;

/// What nobody read or wrote for so long is forgotten.
const CACHE_EXPIRY: Duration = Duration::from_secs(30);

/// Broadcasts by name, for any number of sessions.
#[derive(Clone)]
pub struct Offer {
    pub(super) origin: origin::Producer,
    _driver: Arc<Driver>,
}

/// Runs as long as somebody holds the offer.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Offer {
    /// An empty one. Must be called within tokio.
    pub fn new() -> Self {
        Self::bounded(CACHE_BYTES)
    }

    /// An empty one whose frames take at most about so many bytes.
    pub(super) fn bounded(bytes: u64) -> Self {
        let mut config = origin::Config::default();
        config.pool = cache::Pool::new(
            cache::Config::default()
                .with_capacity(bytes)
                .with_expiry(CACHE_EXPIRY),
        );
        let (origin, driver) = origin::Producer::new(config);
        let driver = tokio::spawn(moq_net::time::run(driver));
        Self {
            origin,
            _driver: Arc::new(Driver(driver.abort_handle())),
        }
    }
}

impl Default for Offer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").finish_non_exhaustive()
    }
}
