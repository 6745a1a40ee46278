//! Report of a run: what each action cost good viewers and the server, and which demand was missed.

mod csv;
mod delivery;
mod judge;
mod outage;
mod svg;
mod table;
mod timeline;

use serde::{Deserialize, Serialize};

use super::attack::Outcome;
use super::plan::{Plan, Strength};
use super::record::Record;
use crate::{machine, timestamp};

pub use csv::to_csv;
pub use svg::draw;
pub use table::table;

/// Report of a run, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that was tested.
    pub version: String,
    /// Machine that the run was made on.
    pub machine: machine::Description,
    /// Seed of the schedule and of all random bytes.
    pub seed: u64,
    /// `smoke`, `mixed` or `target`.
    pub strength: String,
    /// Time from the begin of the first action to the end of the run, in seconds.
    pub seconds: f64,
    /// Groups of good viewers.
    pub groups: Vec<Group>,
    /// Actions in the order in which they were performed.
    pub actions: Vec<ActionReport>,
    /// Memory and descriptors of the server before the first action, or after its last restart.
    pub before: Footprint,
    /// Memory and descriptors of the server at the end.
    pub after: Footprint,
    /// One entry for each second.
    pub timeline: Vec<Second>,
    /// Demands that were missed; empty for a good run.
    pub misses: Vec<String>,
    /// Demands that were missed while the machine kept the harness waiting, so that they say
    /// nothing about the server.
    pub starved: Vec<String>,
}

/// Good viewers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Number of viewers in the group.
    pub viewers: usize,
    /// Share of frames and packets that arrived outside of planned interruptions, 0–1.
    pub delivered_ratio: Option<f64>,
    /// 99th percentile of the times between frames before the first action, in ms.
    pub quiet_gap_p99_ms: Option<f64>,
    /// The 99th percentile of gaps outside of planned interruptions, in ms.
    pub gap_p99_ms: Option<f64>,
    /// Interruptions of at least 300 ms outside of planned ones.
    pub freezes: usize,
    /// Longest of them, in ms.
    pub longest_freeze_ms: u64,
}

/// The outcome of one action, and its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionReport {
    /// Name of the action.
    pub name: String,
    /// Begin, in seconds after the begin of the first action.
    pub from_s: f64,
    /// End, when all viewers had video again.
    pub to_s: f64,
    /// Events a second that were wanted.
    pub rate: u32,
    /// The outcome of the action.
    pub outcome: Outcome,
    /// Least share of frames and packets that a group received, 0–1; groups without video by
    /// design are left out.
    pub delivered_ratio: Option<f64>,
    /// Most by which a group's 99th percentile of times between frames grew, in ms.
    pub gap_p99_more_ms: Option<f64>,
    /// Interruptions of at least 300 ms, in groups that should have had none.
    pub freezes: usize,
    /// Time from the end of a planned interruption until the last viewer had video, in seconds.
    pub back_s: Option<f64>,
    /// Growth of the server's resident memory, in bytes.
    pub memory_more_bytes: Option<i64>,
    /// Processor time of the server, in percent of a core.
    pub server_cpu_percent: Option<f64>,
    /// Processor time of the harness, in percent of a core.
    pub harness_cpu_percent: Option<f64>,
    /// Idle share of all cores, in percent.
    pub idle_percent: Option<f64>,
    /// Longest time that the machine kept harness or viewers waiting, in ms.
    pub starved_ms: u64,
    /// Answers to requests of a good client at each listener.
    pub answers: Vec<Answers>,
}

/// Answers of one listener during an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Name of the listener.
    pub name: String,
    /// Number of requests that the good client sent.
    pub asked: usize,
    /// Number of requests without a right answer.
    pub failed: usize,
    /// Longest time until a right answer, in ms.
    pub longest_ms: Option<f64>,
    /// Reason of a failure.
    pub failure: Option<String>,
}

/// Memory and descriptors of the server at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Resident memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of open file descriptors.
    pub descriptors: Option<usize>,
}

/// Observations of one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, in seconds after the begin of the first action.
    pub at_s: f64,
    /// Share of the due frames that each group received, 0–1, in the order of the groups.
    pub delivered: Vec<Option<f64>>,
    /// Resident memory of the server, in bytes.
    pub memory_bytes: Option<u64>,
    /// File descriptors of the server.
    pub descriptors: Option<usize>,
    /// Processor time of the server, in percent of a core.
    pub server_cpu_percent: Option<f64>,
    /// Processor time of the harness, in percent of a core.
    pub harness_cpu_percent: f64,
    /// Idle share of all cores, in percent.
    pub idle_percent: f64,
    /// Longest time that the machine kept the harness waiting, in ms.
    pub starved_ms: u64,
}

impl Report {
    pub(super) fn new(plan: &Plan, record: &Record) -> Self {
        let judged = judge::judge(plan, record);
        Self {
            started: timestamp::rfc3339(record.began_ms / 1000),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine::describe(),
            seed: plan.seed,
            strength: match plan.strength {
                Strength::Smoke => "smoke",
                Strength::Mixed => "mixed",
                Strength::Target => "target",
            }
            .to_owned(),
            seconds: super::clock::seconds(record.began_ms, record.ended_ms),
            groups: judged.groups,
            actions: judged.actions,
            before: judged.before,
            after: judged.after,
            timeline: timeline::timeline(record),
            misses: judged.misses,
            starved: judged.starved,
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text.push('\n');
        text
    }
}
