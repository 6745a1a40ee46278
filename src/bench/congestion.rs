//! Flags of `bench congestion`, and the writing of its report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_lab::condition::Condition;
use glassline_lab::congestion::anchors::{self, Agreement};
use glassline_lab::congestion::arm::{self, arm};
use glassline_lab::congestion::experiment::{Plan, Progress};
use glassline_lab::congestion::log::{Head, Log};
use glassline_lab::congestion::outcome::Outcome;
use glassline_lab::congestion::populations;
use glassline_lab::congestion::report::{self, About, Report};
use glassline_lab::congestion::sensitivity::{self, Sensitivity};
use glassline_lab::congestion::session::{Arm, Scenario, Sessions};
use glassline_lab::timestamp;
use glassline_runtime::small_file;
use glassline_sim::{Population, Sample};
use indicatif::ProgressBar;

use super::files::{Output, OutputPaths, Outputs};
use super::{interrupt, quantity, terminal};
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};
use crate::output;

/// Most bytes of a file that describes a population.
const POPULATION_BYTES_MAX: u64 = 1 << 20;

/// Time between two samples of a session in `--session`.
const SAMPLES: Duration = Duration::from_millis(100);

/// Default arms: those of the study, and Glide with either rule of adaptation.
const ARMS: &str = "cubic,bbr,copa,copa-competitive,glide,glide-coupled";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Population of networks: built in (study2019, anchors), or a TOML file.
    #[arg(long, default_value = "study2019", value_name = "NAME|FILE")]
    population: String,
    /// Arms to compare, separated by commas: cubic, bbr, bbr-lt, bbr-loss-tolerant, copa,
    /// copa-competitive, glide, rfc9260-reno, or oracle, which knows the link. The suffix -coupled lets the encoder follow the
    /// controller instead of the study's rule; :DELTA behind a Copa arm sets its delta; :20ms
    /// behind a glide arm sets the queueing delay that it aims at, and :CONSTANT=VALUE one of its
    /// constants, as glide:queue.least_window=20000ms; + stands between several settings.
    #[arg(long, default_value = ARMS, value_name = "A,B,…", value_delimiter = ',')]
    arms: Vec<String>,
    /// Delta of Copa arms [default: 0.04, in competitive mode 0.5].
    #[arg(long, value_name = "0.02..2")]
    delta: Option<String>,
    /// Add Copa arms for a range of deltas from 0.02 to 2.
    #[arg(long)]
    dial: bool,
    /// Halve every constant of glide or glide-coupled, and make it half as large again, instead of
    /// comparing --arms; ratios to CUBIC's. More than 150 arms run: give --resume.
    #[arg(long, value_name = "ARM", conflicts_with_all = ["arms", "delta", "dial", "relay", "session"])]
    sensitivity: Option<String>,
    /// Number of sessions; each runs under every arm.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sessions: u64,
    /// Draw at least N sessions of one kind of network, as policed=1000; weights stay. Repeatable.
    #[arg(long, value_name = "KIND=N")]
    at_least: Vec<String>,
    /// Virtual time of each session [default: as the population says].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    time: Option<Duration>,
    /// Run the anchor links, for each arm 36 sessions in virtual time and one over sockets; exit
    /// with 3 where the latter is outside of the range of the former. Needs an idle machine.
    #[arg(long)]
    relay: bool,
    /// Run one session of a kind of network, as policed or policed:3, and show it over time.
    #[arg(long, value_name = "KIND[:N]", conflicts_with = "relay")]
    session: Option<String>,
    /// Seed of the sessions.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Draw sessions that nothing was tuned on.
    #[arg(long)]
    hold_out: bool,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Store outcomes in FILE, and skip those that it has.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    files: OutputPaths,
    /// Exit with 3 if a figure of the JSON report meets this condition, as
    /// versus_cubic.glide.transport_rtt_ms.P75.ratio>0.6. Repeatable.
    #[arg(long, value_name = "PATH>VALUE")]
    fail_if: Vec<Condition>,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.relay {
        return options.relay(quiet);
    }
    if let Some(which) = &options.session {
        return options.timeline(which, quiet);
    }
    let plan = options.plan()?;
    let mut outputs = Outputs::open(&options.files)?;
    let (mut log, mut outcomes) = options.open_log(&plan)?;
    let stop = interrupt::listen()?;
    let started = timestamp::now();
    let bar = Bar::new(quiet);
    let mut failure = None;
    let jobs = options.jobs.map_or_else(cores, usize::from);
    let known = outcomes.clone();
    let progress = plan.run(&known, jobs, &stop, |outcome, progress| {
        bar.show(progress);
        if let Some(log) = &mut log
            && let Err(error) = log.add(&outcome)
        {
            failure.get_or_insert(error);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        outcomes.push(outcome);
    });
    bar.end();
    if let Some(error) = failure {
        return Err(Failure::runtime(error));
    }
    let outcomes = of_arms(outcomes, &plan);
    let report = Report::new(options.about(&plan, progress, started), &outcomes);
    if let Some(of) = &options.sensitivity {
        let found = Sensitivity::new(&report, of);
        if !quiet {
            outputs.print(|_| head(&report) + &found.table())?;
        }
        outputs.write(
            || report.to_json(),
            || found.csv(),
            || sensitivity::draw(&found, &report, of),
        )?;
    } else {
        if !quiet {
            outputs.print(|color| head(&report) + &report::table::draw(&report, color))?;
        }
        outputs.write(
            || report.to_json(),
            || report::csv(&outcomes),
            || report::svg::draw(&report, &outcomes),
        )?;
    }
    if interrupt::is_stopped(&stop) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let misses = options.fail_if.iter().filter_map(|it| it.miss(&report));
    let misses: Vec<String> = misses.collect();
    for miss in &misses {
        eprintln!("{miss}");
    }
    Ok(match misses.as_slice() {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(THRESHOLD_MISSED),
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the outcomes of the plan's arms, ordered by session and arm. A log may hold more arms
/// than this run compares, in the order in which they finished.
fn of_arms(outcomes: Vec<Outcome>, plan: &Plan) -> Vec<Outcome> {
    let is_asked = |it: &Outcome| plan.arms.iter().any(|arm| arm.name == it.arm);
    let mut kept: Vec<Outcome> = outcomes.into_iter().filter(is_asked).collect();
    kept.sort_by(|a, b| (a.session(), &a.arm).cmp(&(b.session(), &b.arm)));
    kept
}

/// The line above a table: what ran.
fn head(report: &Report) -> String {
    let drawn = if report.held_out { " (held out)" } else { "" };
    let speed = match report.virtual_s_per_cpu_s {
        0.0 => String::new(),
        speed => format!(", {speed:.0} virtual seconds per processor second"),
    };
    format!(
        "{} {}: {} sessions of {:.0} s, seed {}{drawn}{speed}\n",
        report.population,
        report.population_version,
        report.sessions,
        report.duration_s,
        report.seed
    )
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut population = self.population()?;
        if let Some(time) = self.time {
            population = population.lasting(time);
        }
        let mut at_least = BTreeMap::new();
        for text in &self.at_least {
            let (stratum, least) = at_least_of(text, &population)?;
            at_least.insert(stratum, least);
        }
        Ok(Plan {
            population,
            sample: match self.hold_out {
                true => Sample::HoldOut(self.seed),
                false => Sample::Tuning(self.seed),
            },
            arms: self.arms()?,
            sessions: self.sessions,
            at_least,
        })
    }

    fn population(&self) -> Result<Population, Failure> {
        if let Some(text) = populations::built_in(&self.population) {
            return Population::parse(text).map_err(Failure::runtime);
        }
        let path = Path::new(&self.population);
        let text = small_file::read_text_or_pipe(path, POPULATION_BYTES_MAX).map_err(|error| {
            Failure::usage(format_args!(
                "--population {}: {error}; give a TOML file, or the name of a built-in population: {}",
                self.population,
                populations::NAMES.join(", ")
            ))
        })?;
        Population::parse(&text)
            .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
    }

    fn arms(&self) -> Result<Vec<Arm>, Failure> {
        if let Some(of) = &self.sensitivity {
            return sensitivity::arms(of)
                .map_err(|error| Failure::usage(format_args!("--sensitivity: {error}")));
        }
        let delta = self.delta.as_deref().map(arm::parse_delta).transpose();
        let delta = delta.map_err(|error| Failure::usage(format_args!("--delta: {error}")))?;
        let mut names = self.arms.clone();
        if self.dial {
            names.extend(arm::DIAL.map(|delta| format!("copa:{delta}")));
        }
        let mut arms: Vec<Arm> = Vec::new();
        for name in &names {
            let found = arm(name, delta)
                .map_err(|error| Failure::usage(format_args!("--arms: {error}")))?;
            if arms.iter().all(|known| known.name != found.name) {
                arms.push(found);
            }
        }
        Ok(arms)
    }

    fn relay(&self, quiet: bool) -> Result<ExitCode, Failure> {
        let population = populations::built_in("anchors").expect("it comes with the program");
        let population = Population::parse(population).map_err(Failure::runtime)?;
        let time = self.time.unwrap_or(population.duration());
        let mut json = self.files.json.as_deref().map(Output::open).transpose()?;
        let (sessions, mut agreements) = (Sessions::new(), Vec::new());
        for arm in self.arms()? {
            for link in anchors::LINKS {
                let found = Agreement::measure(&sessions, &population, link, &arm, time);
                agreements.extend(found.map_err(Failure::runtime)?);
                if !quiet && let Some(last) = agreements.last() {
                    output::print(&anchors::table(agreements.len() == 1, last))?;
                }
            }
        }
        if let Some(json) = &mut json {
            let text = serde_json::to_string_pretty(&agreements).map_err(Failure::runtime)?;
            json.write(&(text + "\n"))?;
        }
        Ok(match agreements.iter().all(Agreement::holds) {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(THRESHOLD_MISSED),
        })
    }

    fn timeline(&self, which: &str, quiet: bool) -> Result<ExitCode, Failure> {
        let plan = self.plan()?;
        let (name, rank) = which.split_once(':').unwrap_or((which, "0"));
        let stratum = plan.population.strata().position(|it| it.name == name);
        let session = stratum.zip(rank.parse().ok());
        let (stratum, rank) = session.ok_or_else(|| {
            let names: Vec<&str> = plan.population.strata().map(|it| it.name).collect();
            Failure::usage(format_args!(
                "--session '{which}': give KIND or KIND:N, where KIND is one of {}",
                names.join(", ")
            ))
        })?;
        let drawn = plan.population.session_of(plan.sample, stratum, rank);
        let drawn = drawn.expect("the stratum is the population's");
        let mut json = self.files.json.as_deref().map(Output::open).transpose()?;
        let mut svg = self.files.svg.as_deref().map(Output::open).transpose()?;
        let (sessions, scenario) = (Sessions::new(), Scenario::from(&drawn));
        let mut lines = Vec::new();
        for arm in &plan.arms {
            let (measured, samples) =
                sessions.trace(&scenario, arm, drawn.seed, drawn.duration, SAMPLES);
            if !quiet {
                output::print(&format!(
                    "{:<17} goodput {:.2} Mbit/s, app RTT {:.0} ms, transport RTT {:.0} ms, RTX {:.2} %\n",
                    arm.name,
                    measured.goodput_mbps,
                    measured.app_rtt_ms,
                    measured.transport_rtt_ms.mean,
                    measured.rtx_overhead * 100.0
                ))?;
            }
            lines.push((arm.name.clone(), samples));
        }
        if let Some(json) = &mut json {
            let by_arm: BTreeMap<_, _> = lines.iter().cloned().collect();
            let text = serde_json::to_string(&by_arm).map_err(Failure::runtime)?;
            json.write(&(text + "\n"))?;
        }
        if let Some(svg) = &mut svg {
            let title = format!("{}, {name} {rank}", plan.population.name());
            svg.write(&report::svg::timeline(&title, &lines))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open_log(&self, plan: &Plan) -> Result<(Option<Log>, Vec<Outcome>), Failure> {
        let Some(path) = &self.resume else {
            return Ok((None, Vec::new()));
        };
        let program = std::env::current_exe().and_then(std::fs::read);
        let program = program.map_err(|error| {
            Failure::runtime(format_args!("cannot read this program itself: {error}"))
        })?;
        let millis = plan.population.duration().as_millis();
        let head = Head {
            population: plan.population.name().to_owned(),
            population_version: plan.population.version(),
            population_digest: format!("{:016x}", plan.population.digest()),
            seed: self.seed,
            held_out: self.hold_out,
            duration_ms: u64::try_from(millis).unwrap_or(u64::MAX),
            program: format!("{:016x}", glassline_lab::congestion::log::digest(&program)),
        };
        let (log, outcomes) = Log::open(path, &head).map_err(Failure::runtime)?;
        Ok((Some(log), outcomes))
    }

    fn about(&self, plan: &Plan, progress: Progress, started: String) -> About {
        About {
            population: plan.population.name().to_owned(),
            population_version: plan.population.version(),
            seed: self.seed,
            held_out: self.hold_out,
            duration_s: plan.population.duration().as_secs_f64(),
            virtual_s_per_cpu_s: progress.speed(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shares: plan.shares(),
        }
    }
}

fn at_least_of(text: &str, population: &Population) -> Result<(usize, u64), Failure> {
    let wrong = || {
        let names: Vec<&str> = population.strata().map(|it| it.name).collect();
        Failure::usage(format_args!(
            "--at-least '{text}': give KIND=N, where KIND is one of {}",
            names.join(", ")
        ))
    };
    let (name, least) = text.split_once('=').ok_or_else(wrong)?;
    let stratum = population.strata().position(|it| it.name == name);
    let least = least.parse().ok().filter(|least| *least <= 1_000_000);
    stratum.zip(least).ok_or_else(wrong)
}

/// Progress bar on stderr; `None` where stderr is no terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new(quiet: bool) -> Self {
        Self(terminal::bar(quiet))
    }

    fn show(&self, progress: Progress) {
        let Some(bar) = &self.0 else { return };
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
        let elapsed = progress.elapsed.as_secs_f64();
        // Outcomes from the log took no time in this run.
        let ran = progress.ran.max(1) as f64;
        let left = elapsed / ran * (progress.of - progress.done) as f64;
        let left = left as u64;
        bar.set_message(format!(
            "{} of {}, about {}:{:02} left",
            progress.done,
            progress.of,
            left / 60,
            left % 60
        ));
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn plan(flags: &[&str]) -> Result<Plan, String> {
        let options: Options = test_flags::parse(flags)?;
        options.plan().map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_defaults_are_the_study_and_ours() {
        let plan = plan(&[]).expect("defaults");
        assert_eq!(plan.population.name(), "study2019");
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names.join(","), ARMS);
        assert_eq!((plan.sessions, plan.sample), (60, Sample::Tuning(1)));
    }

    #[test]
    fn the_dial_adds_deltas_and_arms_are_run_once() {
        let flags = ["--arms", "cubic,copa:0.02,cubic", "--dial", "--hold-out"];
        let plan = plan(&flags).expect("an experiment");
        assert_eq!(plan.arms.len(), 1 + arm::DIAL.len());
        assert_eq!(plan.sample, Sample::HoldOut(1));
    }

    #[test]
    fn a_sensitivity_study_has_cubic_the_arm_and_two_arms_a_constant() {
        let plan = plan(&["--sensitivity", "glide"]).expect("a study");
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names[..3], ["cubic", "glide", "glide:30ms"]);
        assert!(names.len() > 150, "{}", names.len());
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let cases: [(&[&str], &str); 9] = [
            (&["--sensitivity", "cubic"], "'cubic' takes nothing"),
            (&["--sensitivity", "glide", "--dial"], "--dial"),
            (&["--arms", "glide:moon=1"], "'moon' is no constant"),
            (&["--arms", "reno"], "'reno'"),
            (&["--delta", "7"], "'7' is no delta"),
            (&["--population", "/no/such.toml"], "study2019"),
            (&["--at-least", "policed"], "KIND=N"),
            (&["--at-least", "moon=3"], "policed"),
            (&["--fail-if", "loss"], "is no condition"),
        ];
        for (flags, reason) in cases {
            let error = plan(flags).expect_err("wrong flags");
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
    }
}
