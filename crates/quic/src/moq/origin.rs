//! Collections of broadcasts that sessions can read.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use moq_net::{cache, origin};
use tokio::task::AbortHandle;

use super::keyframe_requests::KeyframeRequests;

/// Most bytes of frames that one collection keeps, over all its broadcasts. The oldest groups
/// are dropped first, the newest group of a track never.
const CACHE_BYTES: u64 = 64 << 20;

/// Frames that were neither read nor written for this long are dropped, where publishers choose
/// their deadlines themselves.
const CACHE_EXPIRY: Duration = Duration::from_secs(30);

/// Frames that a peer has sent, and that were not read for this long, are dropped. Twice the longest
/// deadline of the server's readers.
pub(super) const INBOUND_EXPIRY: Duration = Duration::from_secs(4);

/// Shortest time that frames are kept for.
const EXPIRY_MIN: Duration = Duration::from_millis(500);

/// Broadcasts by name, which any number of sessions can read.
#[derive(Clone, derive_more::Debug)]
#[debug("Origin {{ .. }}")]
pub struct Origin {
    pub(super) producer: origin::Producer,
    pool: cache::Pool,
    pub(super) keyframe_requests: KeyframeRequests,
    /// Held for its drop; `None` if another part runs the background task.
    _driver: Option<Arc<Driver>>,
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
        Self::bounded(CACHE_BYTES, CACHE_EXPIRY)
    }

    /// Creates an empty collection for broadcasts whose tracks have this deadline at most. Frames
    /// that nobody reads are dropped after twice the deadline, so that a broadcast takes the memory
    /// of some seconds of it. Must be called within tokio.
    pub fn with_deadline(deadline: Duration) -> Self {
        Self::bounded(CACHE_BYTES, expiry(deadline))
    }

    /// Creates an empty collection, as [`Self::with_deadline`] does, and its background task, which
    /// the caller has to run. The task ends only if the collection cannot go on.
    pub fn driven(deadline: Duration) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::parts(CACHE_BYTES, expiry(deadline))
    }

    /// Creates an empty collection whose frames take at most about `bytes`, and are dropped when
    /// they were neither read nor written for `expiry`.
    pub(super) fn bounded(bytes: u64, expiry: Duration) -> Self {
        let (mut origin, driver) = Self::parts(bytes, expiry);
        let driver = tokio::spawn(driver);
        origin._driver = Some(Arc::new(Driver(driver.abort_handle())));
        origin
    }

    fn parts(bytes: u64, expiry: Duration) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let mut config = origin::Config::default();
        let pool = cache::Config::default()
            .with_capacity(bytes)
            .with_expiry(expiry);
        let pool = cache::Pool::new(pool);
        config.pool = pool.clone();
        let (producer, driver) = origin::Producer::new(config);
        let driven = async {
            moq_net::time::run(driver).await;
        };
        let origin = Self {
            producer,
            pool,
            keyframe_requests: KeyframeRequests::default(),
            _driver: None,
        };
        (origin, driven)
    }

    /// Returns the bytes of all frames that are kept at present, with a fixed cost for each group.
    pub fn kept_bytes(&self) -> u64 {
        self.pool.used()
    }
}

/// Returns the time after which frames that nobody reads are dropped.
fn expiry(deadline: Duration) -> Duration {
    deadline.saturating_mul(2).clamp(EXPIRY_MIN, CACHE_EXPIRY)
}

impl Default for Origin {
    fn default() -> Self {
        Self::new()
    }
}
