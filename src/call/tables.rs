//! The tables of a call with somebody elsewhere: printed, written, and held against
//! what was promised.

use std::collections::BTreeMap;

use glassline_client::call::{Call, Figures, Records};
use glassline_lab::call::{Accounts, TwoWay};

use super::options::Options;
use crate::bench::files::Outputs;
use crate::exit::Failure;

/// Where the tables of a command's calls go.
pub(super) struct Tables<'a> {
    options: &'a Options,
    outputs: Outputs,
}

/// What is noted of one call.
pub(super) enum Notes {
    /// All of it.
    Accounts(Box<Accounts>),
    /// Nothing: nobody wants tables.
    Nothing(Records),
}

impl Notes {
    /// Empties the call's queues.
    pub(super) fn poll(&mut self, call: &Call) {
        match self {
            Self::Accounts(accounts) => accounts.poll(call),
            Self::Nothing(records) => {
                records.clear();
                call.drain(records);
            }
        }
    }

    /// How long the whole way to here takes, p50 and p99, as far as is known.
    pub(super) fn mouth_to_ear_ms(&self) -> [Option<f64>; 2] {
        match self {
            Self::Accounts(accounts) => [0.5, 0.99].map(|share| accounts.mouth_to_ear_ms(share)),
            Self::Nothing(_) => [None; 2],
        }
    }
}

impl<'a> Tables<'a> {
    pub(super) fn open(options: &'a Options) -> Result<Self, Failure> {
        let outputs = Outputs::open(&options.json, &options.csv, &options.svg)?;
        Ok(Self { options, outputs })
    }

    pub(super) fn begin(&self) -> Notes {
        match self.options.wants_tables() {
            true => Notes::Accounts(Box::default()),
            false => Notes::Nothing(Records::default()),
        }
    }

    /// Gives them out; returns what was promised and is not held.
    pub(super) fn finish(
        &mut self,
        notes: Notes,
        figures: &Figures,
        peer: &str,
    ) -> Result<Vec<String>, Failure> {
        let Notes::Accounts(accounts) = notes else {
            return Ok(Vec::new());
        };
        let mut between = String::new();
        if let Some(impairment) = &self.options.impair {
            between = format!(", {impairment}");
        }
        let reports = accounts.finish(figures, &format!("{peer}{between}"));
        if self.options.report {
            self.outputs.print(|colour| reports.to_text(colour))?;
        }
        self.outputs.write(
            || reports.to_json(),
            || reports.to_csv(),
            || reports.to_svg(),
        )?;
        Ok(self.misses(&reports))
    }

    /// Both directions must hold what they have a table of.
    fn misses(&self, reports: &TwoWay) -> Vec<String> {
        let by_stage = reports.directions.iter().map(|report| {
            let tables = report.stages.iter();
            let tables = tables.map(|table| (table.stage.as_str(), table));
            (report.direction, tables.collect::<BTreeMap<_, _>>())
        });
        let by_stage: Vec<_> = by_stage.collect();
        let mut misses = Vec::new();
        for condition in &self.options.fail_if {
            let name = condition.to_string();
            let stage = name.split_once('.').map_or(name.as_str(), |it| it.0);
            let mut is_known = false;
            for (direction, tables) in &by_stage {
                if !tables.contains_key(stage) {
                    continue;
                }
                is_known = true;
                let direction = direction.map_or("", |it| it.as_str());
                let miss = condition.miss(tables);
                misses.extend(miss.map(|miss| format!("{direction}: {miss}")));
            }
            if !is_known {
                misses.push(format!("{name}: the report has no such figure"));
            }
        }
        misses
    }
}
