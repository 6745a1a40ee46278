//! Flags of `bench adaptive`, and the writing of its report and pictures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use glassline_lab::adaptive::{self, Arm, Case, Plan, Played, Report};
use glassline_lab::timestamp;

use super::files::Output;
use super::{interrupt, terminal};
use crate::exit::{Failure, INTERRUPTED};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Case to play, as drop or 5.1. Repeatable [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Sender to play the cases with: ours, none (no congestion control, always the best layer), gcc
    /// (libwebrtc's congestion control), oracle (knows the path). Repeatable [default: all].
    #[arg(long, value_name = "ours|none|gcc|oracle")]
    arm: Vec<Arm>,
    /// Number of seeds; each case is played with each arm and seed.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Seed of the first run; the others follow.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    seed: u64,
    /// Write report.json, report.csv and a picture of each case, as drop.svg, to this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// List the cases, and play none.
    #[arg(long)]
    list: bool,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let plan = options.plan()?;
    if options.list {
        let line = |case: &Case| format!("{:<9} {}\n", case.name, case.about);
        let lines: String = plan.cases.iter().map(line).collect();
        output::print(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut files = options.out.as_deref().map(Files::open).transpose()?;
    let stop = interrupt::listen()?;
    let started = timestamp::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.map_or(cores, usize::from);
    let bar = terminal::bar(quiet);
    let played = plan.play(jobs, &stop, |done, all| {
        terminal::show_runs(bar.as_ref(), done, all);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = Report::new(started, &plan, &played);
    if !quiet {
        output::print(&report.to_table())?;
    }
    if let Some(files) = &mut files {
        files.write(&report, &plan, &played)?;
    }
    if interrupt::is_stopped(&stop) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let cases = self.case.iter().map(|name| adaptive::named(name));
        let cases: Vec<Case> = cases
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::usage(format_args!("--case: {error}")))?;
        Ok(Plan {
            cases: match cases.is_empty() {
                true => adaptive::all(),
                false => cases,
            },
            arms: match self.arm.is_empty() {
                true => Arm::ALL.to_vec(),
                false => self.arm.clone(),
            },
            seeds: self.seed..self.seed + self.seeds,
        })
    }
}

/// The files of a run.
struct Files {
    folder: PathBuf,
    json: Output,
    csv: Output,
}

impl Files {
    /// Makes the folder, and opens the files before the run.
    fn open(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::runtime(format_args!("{}: {error}", folder.display())))?;
        Ok(Self {
            json: Output::open(&folder.join("report.json"))?,
            csv: Output::open(&folder.join("report.csv"))?,
            folder: folder.to_owned(),
        })
    }

    fn write(&mut self, report: &Report, plan: &Plan, played: &[Played]) -> Result<(), Failure> {
        self.json.write(&report.to_json())?;
        self.csv.write(&report.to_csv())?;
        for (place, case) in plan.cases.iter().enumerate() {
            let of_case = played
                .iter()
                .filter(|it| it.case == place && it.seed == plan.seeds.start);
            let runs: Vec<_> = of_case.map(|it| (it.arm, &it.run)).collect();
            if !runs.is_empty() {
                let path = self.folder.join(format!("{}.svg", case.name));
                Output::open(&path)?.write(&adaptive::draw(case, &runs))?;
            }
        }
        Ok(())
    }
}
