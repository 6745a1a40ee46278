//! Counts of failed connections, for metrics.

use glassline_runtime::Counter;

use super::record::{Protocol, Stage};

/// How many connections failed since the server started, by protocol and stage.
#[derive(Debug, Default)]
pub struct FailureCounters([[Counter; Stage::ALL.len()]; Protocol::ALL.len()]);

impl FailureCounters {
    pub(super) fn note(&self, protocol: Protocol, stage: Stage) {
        self.0[protocol as usize][stage as usize].add(1);
    }

    /// Returns the counts above zero.
    pub fn rows(&self) -> Vec<(Protocol, Stage, u64)> {
        let rows = Protocol::ALL.into_iter().zip(&self.0);
        let counts = rows.flat_map(|(protocol, row)| {
            let stages = Stage::ALL.into_iter().zip(row);
            stages.map(move |(stage, counter)| (protocol, stage, counter.get()))
        });
        counts.filter(|(.., count)| *count > 0).collect()
    }
}
