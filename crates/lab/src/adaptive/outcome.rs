//! The outcome of a run.

use super::figures::Figures;
use super::ledger::Sample;

/// The outcome of a run: each viewer's figures, and its state over time.
#[derive(Clone, Debug)]
pub struct Run {
    /// Viewers in the order of the case's flows.
    pub viewers: Vec<ViewerRun>,
}

/// The outcome of a run for one viewer.
#[derive(Clone, Debug)]
pub struct ViewerRun {
    /// Figures over the whole run.
    pub figures: Figures,
    /// State each 100 ms.
    pub samples: Vec<Sample>,
}
