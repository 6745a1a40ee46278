//! Flags of `bench cluster`, and the writing of its report.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_lab::cluster;
use glassline_lab::cluster::Plan;
use glassline_lab::condition::Condition;

use super::files::{OutputPaths, Outputs};
use super::{interrupt, quantity, terminal};
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Numbers of nodes; 0 for none.
    #[arg(long, value_name = "N,…", default_value = "3,10,30,100", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=2_000))]
    nodes: Vec<u32>,
    /// Viewers for each node.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    viewers: u32,
    /// Streams for each node.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    streams: u32,
    /// Nodes in each region.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    region: u32,
    /// Redirect viewers within their region only.
    #[arg(long)]
    near: bool,
    /// Time that is measured.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::time)]
    time: Duration,
    /// Seed of all chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seeds under random faults.
    #[arg(long, value_name = "N", default_value_t = 200)]
    chaos: u64,
    /// Number of threads for random faults [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    files: OutputPaths,
    /// Exit with 3 if a figure of the JSON report meets this condition, as
    /// sizes.0.messages.max>40. Repeatable.
    #[arg(long, value_name = "PATH>VALUE")]
    fail_if: Vec<Condition>,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.map_or(cores, usize::from);
    let bar = terminal::bar(quiet);
    let report = cluster::run(
        &options.plans(),
        options.chaos,
        jobs,
        &stop,
        |title, share| {
            if let Some(bar) = &bar {
                bar.set_length(1_000);
                bar.set_position((share * 1_000.0) as u64);
                bar.set_message(title.to_owned());
            }
        },
    );
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let Some(report) = report else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if !quiet {
        outputs.print(|_| report.to_table())?;
    }
    outputs.write(
        || report.to_json(),
        || report.to_csv(),
        || cluster::draw(&report),
    )?;
    let misses = options.fail_if.iter().filter_map(|it| it.miss(&report));
    let misses: Vec<String> = misses.collect();
    for miss in misses.iter().chain(&report.chaos_broken) {
        eprintln!("{miss}");
    }
    let is_broken = !report.chaos_broken.is_empty() || !misses.is_empty();
    Ok(match is_broken {
        true => ExitCode::from(THRESHOLD_MISSED),
        false => ExitCode::SUCCESS,
    })
}

impl Options {
    fn plans(&self) -> Vec<Plan> {
        let sizes = self.nodes.iter().filter(|nodes| **nodes > 0);
        let plans = sizes.map(|nodes| {
            let nodes = *nodes as usize;
            Plan {
                per_region: self.region as usize,
                streams: nodes * self.streams as usize,
                viewers: nodes * self.viewers as usize,
                measure: self.time,
                redirects_far: !self.near,
                seed: self.seed,
                ..Plan::of_nodes(nodes)
            }
        });
        plans.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    #[test]
    fn sizes_are_multiplied_by_what_a_node_has() {
        let flags = ["--nodes", "3,0,100", "--streams", "10", "--near"];
        let options: Options = test_flags::parse(&flags).expect("right flags");
        let plans = options.plans();
        let sizes: Vec<_> = plans
            .iter()
            .map(|it| (it.nodes, it.streams, it.viewers))
            .collect();
        assert_eq!(sizes, [(3, 30, 3_000), (100, 1_000, 100_000)]);
        assert!(!plans[0].redirects_far);
        for wrong in [["--nodes", "2001"], ["--viewers", "0"], ["--fail-if", "x"]] {
            assert!(test_flags::parse::<Options>(&wrong).is_err(), "{wrong:?}");
        }
    }
}
