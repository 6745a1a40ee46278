//! One stream on one shard: read once, for all of its viewers here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, Wake};
use glassline_media::{Burst, Kind, Stage, StageTable};

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
        let tracks = self.subscription.stream().tracks();
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        for burst in out {
            if tracks
                .get(burst.track)
                .is_some_and(|track| track.kind() == Kind::Video)
            {
                stages.record(
                    Stage::Hub,
                    now.saturating_duration_since(burst.stamps.published),
                    now,
                );
            }
        }
    }
}
