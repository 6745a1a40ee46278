//! Clusters in virtual time: what a node has to do as nodes, streams and viewers grow, and
//! whether the rules hold under random faults.

mod svg;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use glassline_cluster_sim::chaos;
pub use glassline_cluster_sim::scale::Plan;
use glassline_cluster_sim::scale::{self, Figures};
use serde::{Deserialize, Serialize};

use crate::timestamp;

pub use svg::draw;

/// Report that `glassline bench cluster --json` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Seed of all chance.
    pub seed: u64,
    /// One row for each size, in the order in which they were asked for.
    pub sizes: Vec<Row>,
    /// Seeds that ran under random faults.
    pub chaos_seeds: u64,
    /// Seeds that broke a rule, with what they broke; the first twenty.
    pub chaos_broken: Vec<String>,
}

/// Figures of a cluster of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of nodes in the simulated cluster.
    pub nodes: usize,
    /// Number of streams.
    pub streams: usize,
    /// Number of viewers of the whole cluster.
    pub viewers: usize,
    /// Messages of a node at its engine in a second.
    pub messages: Spread,
    /// Beats of these.
    pub beats: Spread,
    /// Pulls from a node.
    pub pulls_from: Spread,
    /// Streams that a node pulls.
    pub pulls_to: Spread,
    /// Viewers of a node.
    pub viewers_of_node: Spread,
    /// Most nodes that a stream passes.
    pub path_max: usize,
    /// Share of the viewers who were redirected, 0–1.
    pub redirected_ratio: f64,
    /// Viewers who were turned away, most of them between two publishers of a stream.
    pub turned_away: u64,
    /// Rules that were broken.
    pub broken: usize,
}

/// How a figure differs from node to node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the nodes have less.
    pub p50: f64,
    /// One node of a hundred has more.
    pub p99: f64,
    /// The node that has most.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of ascending values.
    fn of(values: impl ExactSizeIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let at = |share: f64| {
            let index = (values.len() as f64 * share).ceil() as usize;
            values.get(index.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self {
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl From<&Figures> for Row {
    fn from(figures: &Figures) -> Self {
        let whole = |values: &[u32]| Spread::of(values.iter().map(|it| f64::from(*it)));
        let (here, redirected) = figures.decisions;
        Self {
            nodes: figures.plan.nodes,
            streams: figures.plan.streams,
            viewers: figures.plan.viewers,
            messages: Spread::of(figures.messages.iter().copied()),
            beats: Spread::of(figures.beats.iter().copied()),
            pulls_from: whole(&figures.pulls_from),
            pulls_to: whole(&figures.pulls_to),
            viewers_of_node: whole(&figures.viewers),
            path_max: figures.path_max,
            redirected_ratio: redirected as f64 / (here + redirected).max(1) as f64,
            turned_away: figures.turned_away,
            broken: figures.broken.len(),
        }
    }
}

/// Runs plans one after the other, then `chaos_seeds` seeds on `jobs` threads. `progress` hears
/// what is running and its share; `None` if `stop` was set.
pub fn run(
    plans: &[Plan],
    chaos_seeds: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: impl Fn(&str, f64) + Sync,
) -> Option<Report> {
    let mut report = Report {
        started: timestamp::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: plans.first().map_or(0, |it| it.seed),
        sizes: Vec::new(),
        chaos_seeds,
        chaos_broken: Vec::new(),
    };
    for plan in plans {
        let title = format!("{} nodes", plan.nodes);
        let figures = scale::run(*plan, |share| {
            progress(&title, share);
            !stop.load(Ordering::Relaxed)
        });
        report.sizes.push(Row::from(&figures?));
    }
    report.chaos_broken = chaos_of(chaos_seeds, jobs, stop, &progress)?;
    Some(report)
}

fn chaos_of(
    seeds: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(impl Fn(&str, f64) + Sync),
) -> Option<Vec<String>> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut broken = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds || stop.load(Ordering::Relaxed) {
                return broken;
            }
            let outcome = chaos::run(seed);
            broken.extend(outcome.broken.first().map(|it| (seed, it.clone())));
            progress("random faults", seed as f64 / seeds as f64);
        }
    };
    let mut broken: Vec<(u64, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(broken) => broken,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    broken.sort_unstable();
    broken.truncate(20);
    let lines = broken
        .into_iter()
        .map(|(seed, it)| format!("seed {seed}: {it}"));
    (!stop.load(Ordering::Relaxed)).then(|| lines.collect())
}

impl Report {
    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: a head, then a line for each size.
    pub fn to_csv(&self) -> String {
        let mut out = "nodes,streams,viewers,messages_p50,messages_p99,messages_max,beats_p50,\
                       pulls_from_p50,pulls_from_p99,pulls_from_max,pulls_to_p50,pulls_to_max,\
                       viewers_of_node_p50,viewers_of_node_max,path_max,redirected_ratio,\
                       turned_away,broken\n"
            .to_owned();
        for row in &self.sizes {
            let (messages, from) = (row.messages, row.pulls_from);
            writeln!(
                out,
                "{},{},{},{:.1},{:.1},{:.1},{:.1},{},{},{},{},{},{},{},{},{:.4},{},{}",
                row.nodes,
                row.streams,
                row.viewers,
                messages.p50,
                messages.p99,
                messages.max,
                row.beats.p50,
                from.p50,
                from.p99,
                from.max,
                row.pulls_to.p50,
                row.pulls_to.max,
                row.viewers_of_node.p50,
                row.viewers_of_node.max,
                row.path_max,
                row.redirected_ratio,
                row.turned_away,
                row.broken,
            )
            .expect("a string takes everything");
        }
        out
    }

    /// The report as a table for people.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let mut put = |line: String| {
            out += line.trim_end();
            out.push('\n');
        };
        if !self.sizes.is_empty() {
            put("             messages/s a node      pulls from a node   pulls to a node  path  redirected".to_owned());
            put("nodes viewers     p50   p99   max     p50   p99   max     p50   max".to_owned());
        }
        for row in &self.sizes {
            put(format!(
                "{:>5} {:>7}  {:>6.1} {:>5.1} {:>5.1}  {:>6} {:>5} {:>5}  {:>6} {:>5}  {:>4}  {:>8.1} %",
                row.nodes,
                row.viewers,
                row.messages.p50,
                row.messages.p99,
                row.messages.max,
                row.pulls_from.p50,
                row.pulls_from.p99,
                row.pulls_from.max,
                row.pulls_to.p50,
                row.pulls_to.max,
                row.path_max,
                row.redirected_ratio * 100.0,
            ));
        }
        if self.chaos_seeds > 0 {
            let broken = self.chaos_broken.len();
            put(format!(
                "{} seeds under random faults, {broken} broke a rule",
                self.chaos_seeds
            ));
            self.chaos_broken.iter().for_each(|it| put(it.clone()));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Report {
        let plans = [2, 5].map(|nodes| Plan {
            streams: 20,
            viewers: 200,
            ramp: std::time::Duration::from_secs(4),
            measure: std::time::Duration::from_secs(4),
            ..Plan::of_nodes(nodes)
        });
        let stop = AtomicBool::new(false);
        run(&plans, 3, 2, &stop, |_, _| {}).expect("nobody stops it")
    }

    #[test]
    fn every_form_has_every_size() {
        let report = small();
        assert_eq!(report.chaos_broken, Vec::<String>::new());
        assert_eq!(report.to_csv().lines().count(), 3);
        let fields = |line: &str| line.split(',').count();
        let csv = report.to_csv();
        let mut lines = csv.lines();
        let head = lines.next().map(fields);
        assert!(lines.all(|line| Some(fields(line)) == head), "{csv}");
        assert!(
            report.to_table().contains("3 seeds"),
            "{}",
            report.to_table()
        );
        let read: Report = serde_json::from_str(&report.to_json()).expect("its own JSON");
        assert_eq!(read.sizes.len(), 2);
        crate::plot::assert_well_formed(&draw(&report));
        let beats: Vec<f64> = report.sizes.iter().map(|it| it.beats.p50).collect();
        assert!(
            (1.5..2.5).contains(&beats[0]) && (4.0..6.0).contains(&beats[1]),
            "{beats:?}"
        );
    }

    #[test]
    fn a_run_that_is_stopped_has_no_report() {
        let stop = AtomicBool::new(true);
        assert!(run(&[Plan::of_nodes(2)], 0, 1, &stop, |_, _| {}).is_none());
    }
}
