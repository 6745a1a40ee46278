//! What became of reloads.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use glassline_runtime::Counter;
use parking_lot::Mutex;

use super::Cause;

/// Most reloads that are kept.
const RELOADS_MAX: usize = 100;

/// Most keys that are kept of one reload.
const KEYS_MAX: usize = 200;

/// One reading of the configuration.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The reason why the configuration was read.
    pub cause: Cause,
    /// Result of the reading, with its reason if it was refused.
    pub outcome: Outcome,
    /// Keys whose new values are in force now.
    pub changed: Vec<String>,
    /// Keys whose values in the file are heeded after a restart only.
    pub needs_restart: Vec<String>,
    /// Time from reading the file to the end of the change.
    pub took: Duration,
}

/// The outcome of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something has changed.
    Applied,
    /// The content is that before.
    Unchanged,
    /// The content cannot be put in force, and nothing has changed: the reason.
    Refused(String),
}

/// A reload with its place in the list.
#[derive(Clone, Debug)]
pub struct RecordedReload {
    /// Number of the reload since the server started, from 1.
    pub number: u64,
    /// Time at which the reload was done.
    pub at: SystemTime,
    /// The reload with its outcome.
    pub reload: Reload,
}

/// The newest reloads, and the counts of all.
#[derive(Debug, Default)]
pub struct History {
    kept: Mutex<VecDeque<RecordedReload>>,
    /// Reloads that have changed something.
    pub applied: Counter,
    /// Reloads of a content that was in force.
    pub unchanged: Counter,
    /// Reloads whose content was refused.
    pub refused: Counter,
}

impl History {
    /// Notes a reload that ended at the time `at`.
    pub fn note(&self, mut reload: Reload, at: SystemTime) {
        reload.changed.truncate(KEYS_MAX);
        reload.needs_restart.truncate(KEYS_MAX);
        match reload.outcome {
            Outcome::Applied => &self.applied,
            Outcome::Unchanged => &self.unchanged,
            Outcome::Refused(_) => &self.refused,
        }
        .add(1);
        let mut kept = self.kept.lock();
        let number = kept.back().map_or(1, |it| it.number + 1);
        if kept.len() >= RELOADS_MAX {
            kept.pop_front();
        }
        kept.push_back(RecordedReload { number, at, reload });
    }

    /// Returns the reloads that are kept, the newest first.
    pub fn newest(&self) -> Vec<RecordedReload> {
        self.kept.lock().iter().rev().cloned().collect()
    }

    /// Returns the newest reload; `None` before the first.
    pub fn latest(&self) -> Option<RecordedReload> {
        self.kept.lock().back().cloned()
    }
}
