//! A member leaves its cluster, for a while or for good.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Member;

/// A drain that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// When the drain began.
    pub since: Instant,
    /// When publishers that are left are sent away.
    pub until: Instant,
}

impl Member {
    /// Takes no new publishers from now on, gives the sources of the configuration to other servers at
    /// once, and sends publishers away that are left after `within`.
    pub fn drain(&self, within: Duration) {
        tracing::info!(within_s = within.as_secs(), "the server drains");
        let draining = self.with_core(|core, now| {
            let (since, until) = (now.at, now.at + within);
            core.node.drain(now, until);
            Draining { since, until }
        });
        self.draining.send_replace(Some(draining));
    }

    /// Serves again as before a drain.
    pub fn resume(&self) {
        tracing::info!("the server does not drain any more");
        self.with_core(|core, now| core.node.undrain(now));
        self.draining.send_replace(None);
    }

    /// Returns the drain that runs or has come to its end; `None` while the server serves.
    pub fn draining(&self) -> watch::Receiver<Option<Draining>> {
        self.draining.subscribe()
    }

    /// Returns whether another server may take over what this one has.
    pub fn has_company(&self) -> bool {
        self.core.lock().node.has_company()
    }

    /// Returns the number of publishers that this server has.
    pub fn publishers(&self) -> usize {
        self.core.lock().publishers.len()
    }
}
