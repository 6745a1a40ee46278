//! Plan of a run: what is started, which actions are made, and for how long.

use std::path::PathBuf;
use std::time::Duration;

use super::action::Kind;

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `glassline` that serves, publishes and watches.
    pub program: PathBuf,
    /// Folder of configuration, certificates and logs; it is made, and kept.
    pub folder: PathBuf,
    /// Seed of the schedule and of all random bytes.
    pub seed: u64,
    /// Time from the first to the last action.
    pub time: Duration,
    /// Length of the schedule and strength of its actions.
    pub strength: Strength,
    /// Kinds of actions; all if empty.
    pub only: Vec<Kind>,
    /// Events a second of floods; `None` takes those of the strength.
    pub rate: Option<u32>,
    /// Number of connections or joins of an action, or of addresses of a flood of datagrams; `None`
    /// takes that of the strength.
    pub count: Option<usize>,
    /// Time of each action; `None` takes that of the strength.
    pub action_time: Option<Duration>,
    /// Good viewers in all, at least one in each group.
    pub viewers: usize,
    /// Folder of files that the server offers; `None` for no such viewers.
    pub media_folder: Option<PathBuf>,
    /// Limit of the server's file descriptors; `None` keeps that of the harness.
    pub descriptors: Option<u32>,
}

impl Plan {
    /// Longest time for something that a quiet machine does within `time`. Tests run the smoke on
    /// shared machines and with a build for development, which have three times as long.
    pub(super) fn patience(&self, time: Duration) -> Duration {
        match self.strength {
            Strength::Smoke => 3 * time,
            Strength::Mixed | Strength::Target => time,
        }
    }
}

/// Strength of the actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Each action for one to five seconds at small rates, one after the other, in a minute.
    Smoke,
    /// Actions of random order, rate and length for the time of the plan.
    Mixed,
    /// Every action of [`Plan::only`] once, as the table of targets demands.
    Target,
}

/// Time of undisturbed watching after the last action: sessions that vanished are forgotten after
/// 20 s of silence, and idle memory returns to the system within some ten seconds.
pub(super) const fn cool_down(strength: Strength) -> Duration {
    match strength {
        Strength::Smoke => Duration::from_secs(2),
        Strength::Mixed | Strength::Target => Duration::from_secs(35),
    }
}

/// Time of undisturbed watching before the first action, from which the usual gaps, memory and
/// descriptors are known. The streams' rings hold 20 s, so memory grows for as long.
pub(super) const fn warm_up(strength: Strength) -> Duration {
    match strength {
        Strength::Smoke => Duration::from_secs(4),
        Strength::Mixed | Strength::Target => Duration::from_secs(25),
    }
}
