//! The delay tables of a call with another end: printed, written, and compared with the
//! `--fail-if` conditions.

use std::collections::BTreeMap;

use glassline_client::call::{Figures, Records};
use glassline_lab::call::{Accounts, RoomAccounts, TwoWay};

use super::options::Options;
use super::talk::Talk;
use crate::bench::files::Outputs;
use crate::exit::Failure;

/// Writes the tables of a command's calls.
pub(super) struct Tables<'a> {
    options: &'a Options,
    outputs: Outputs,
}

/// Records that are collected of one call.
pub(super) enum Notes {
    /// Records of a call with one other end.
    Accounts(Box<Accounts>),
    /// Records of a call in a room, for each of the others.
    Room(Box<RoomAccounts>),
    /// No records, because no table is wanted.
    Nothing(Records),
}

impl Notes {
    /// Moves the call's records here. Must be called often, since the call's queues are bounded.
    pub(super) fn poll(&mut self, talk: &Talk) {
        match (self, talk) {
            (Self::Accounts(accounts), _) => accounts.poll(talk.call()),
            (Self::Room(accounts), Talk::Room { room, .. }) => accounts.poll(room),
            (Self::Room(_), Talk::Direct(_)) => {}
            (Self::Nothing(records), _) => {
                records.clear();
                talk.call().drain(records);
            }
        }
    }

    /// Mouth-to-ear delay at this end, p50 and p99 in ms; `None` while unknown.
    pub(super) fn mouth_to_ear_ms(&self) -> [Option<f64>; 2] {
        match self {
            Self::Accounts(accounts) => [0.5, 0.99].map(|share| accounts.mouth_to_ear_ms(share)),
            Self::Room(accounts) => [0.5, 0.99].map(|share| accounts.mouth_to_ear_ms(share)),
            Self::Nothing(_) => [None; 2],
        }
    }
}

impl<'a> Tables<'a> {
    pub(super) fn open(options: &'a Options) -> Result<Self, Failure> {
        let outputs = Outputs::open(&options.tables.files)?;
        Ok(Self { options, outputs })
    }

    pub(super) fn begin(&self, talk: &Talk) -> Notes {
        match (self.options.wants_tables(), talk) {
            (true, Talk::Direct(_)) => Notes::Accounts(Box::default()),
            (true, Talk::Room { .. }) => Notes::Room(Box::default()),
            (false, _) => Notes::Nothing(Records::default()),
        }
    }

    /// Prints and writes the tables; returns a text for each `--fail-if` condition that was met.
    pub(super) fn finish(
        &mut self,
        notes: Notes,
        figures: &Figures,
        peer: &str,
    ) -> Result<Vec<String>, Failure> {
        let mut between = String::new();
        if let Some(impairment) = &self.options.impair {
            between = format!(", {impairment}");
        }
        let peer = format!("{peer}{between}");
        let reports = match notes {
            Notes::Accounts(accounts) => accounts.finish(figures, &peer),
            Notes::Room(accounts) => accounts.finish(&peer),
            Notes::Nothing(_) => return Ok(Vec::new()),
        };
        if self.options.tables.report {
            self.outputs.print(|color| reports.to_text(color))?;
        }
        self.outputs.write(
            || reports.to_json(),
            || reports.to_csv(),
            || reports.to_svg(),
        )?;
        Ok(self.misses(&reports))
    }

    /// Texts of the conditions that were met. A condition applies to each direction that has its
    /// stage; one that applies to none counts as met.
    fn misses(&self, reports: &TwoWay) -> Vec<String> {
        let by_stage = reports.directions.iter().map(|report| {
            let tables = report.stages.iter();
            let tables = tables.map(|table| (table.stage.as_str(), table));
            (report, tables.collect::<BTreeMap<_, _>>())
        });
        let by_stage: Vec<_> = by_stage.collect();
        let mut misses = Vec::new();
        for condition in &self.options.tables.fail_if {
            let name = condition.to_string();
            let stage = name.split_once('.').map_or(name.as_str(), |it| it.0);
            let mut is_known = false;
            for (report, tables) in &by_stage {
                if !tables.contains_key(stage) {
                    continue;
                }
                is_known = true;
                let direction = report.direction.map_or("", |it| it.as_str());
                let with = report.peer.as_deref().map(|it| format!(", {it}"));
                let with = with.unwrap_or_default();
                let miss = condition.miss(tables);
                misses.extend(miss.map(|miss| format!("{direction}{with}: {miss}")));
            }
            if !is_known {
                misses.push(format!("{name}: no table has such a figure"));
            }
        }
        misses
    }
}
