//! Everything that a run has seen, before it is judged.

use super::account::GroupSamples;
use super::action::Action;
use super::attack::Outcome;
use super::monitor::Observed;

/// An action that was performed.
#[derive(Clone, Debug)]
pub(super) struct Performed {
    pub(super) action: Action,
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
    pub(super) outcome: Outcome,
}

/// Everything that a run has seen.
#[derive(Debug)]
pub(super) struct Record {
    /// End of the warm-up and begin of the first action.
    pub(super) began_ms: u64,
    /// Begin of the warm-up, when all viewers had video.
    pub(super) warm_ms: u64,
    pub(super) ended_ms: u64,
    /// Number of cores of the machine.
    pub(super) cores: usize,
    pub(super) performed: Vec<Performed>,
    pub(super) observed: Observed,
    pub(super) groups: Vec<GroupSamples>,
    /// Faults that no single action is to blame for.
    pub(super) misses: Vec<String>,
    /// Times at which the server was started again, in ms since 1970.
    pub(super) restarts_ms: Vec<u64>,
}
