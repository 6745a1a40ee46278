//! One stream on one shard: read once, for all of its viewers here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, Wake};
use glassline_media::{Burst, Stage, StageTable};

use super::slots::Key;

/// Span of the stage tables.
pub(crate) const STAGE_WINDOW: Duration = Duration::from_secs(10);

/// A stream's subscription, its viewers on this shard and their accounts.
#[derive(Debug)]
pub(crate) struct Feed {
    subscription: Subscription,
    pub(crate) viewers: Vec<Key>,
    /// Read by HTTP while the shard runs; locked briefly by both.
    pub(crate) stages: Arc<Mutex<StageTable>>,
}

impl Feed {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        wake: Arc<dyn Wake>,
        stages: Arc<Mutex<StageTable>>,
    ) -> Self {
        Self {
            subscription: stream.subscribe(wake),
            viewers: Vec::new(),
            stages,
        }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.subscription.stream()
    }

    /// Appends what was published since the last call to `out` and accounts
    /// for the hub stage, once per burst.
    pub(crate) fn read(&mut self, out: &mut Vec<Arc<Burst>>, now: Instant) {
        self.subscription.poll(out);
        if out.is_empty() {
            return;
        }
        let accounted = self.subscription.stream().accounted_track();
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        for burst in out.iter().filter(|burst| burst.track == accounted) {
            let delay = now.saturating_duration_since(burst.stamps.published);
            stages.record(Stage::Hub, delay, now);
        }
    }
}
