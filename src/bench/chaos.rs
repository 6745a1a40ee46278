//! Flags of `bench chaos`, and the writing of its report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_client::viewers::Endpoint;
use glassline_lab::chaos::{self, Audience, Error, Kind, Plan, Progress, Strength, Watcher};
use indicatif::ProgressBar;

use super::files::{OutputPaths, Outputs};
use super::{interrupt, quantity, terminal};
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seed of the schedule and of all random bytes.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Minutes from the first to the last action.
    #[arg(long, default_value_t = 10.0, value_name = "N", value_parser = minutes)]
    minutes: f64,
    /// Perform short and weak actions within a minute.
    #[arg(long)]
    smoke: bool,
    /// Perform only this action, once. Repeatable.
    #[arg(long, value_name = "ACTION")]
    only: Vec<Kind>,
    /// Events a second of each action.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Connections, joins or, in floods of datagrams, addresses of each action.
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Time of each action.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    time: Option<Duration>,
    /// Number of good viewers.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = viewers)]
    viewers: usize,
    /// Limit of the server's file descriptors.
    #[arg(long, value_name = "N")]
    descriptors: Option<u32>,
    /// Media folder of the server.
    #[arg(long, value_name = "FOLDER")]
    media_folder: Option<PathBuf>,
    /// The glassline under test [default: this program].
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Folder for configuration and logs [default: a new temporary one].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    files: OutputPaths,
}

/// Flags of the processes of good viewers, which `bench chaos` starts.
#[derive(Debug, Args)]
pub(crate) struct AudienceOptions {
    /// URLs of streams; each one has a viewer.
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Read token of the server.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let plan = options.plan()?;
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    let mut lines = Lines::new(quiet);
    lines.say(&format!(
        "seed {}, logs in {}",
        plan.seed,
        plan.folder.display()
    ));
    let outcome = chaos::run(&plan, &mut lines, &stop);
    lines.end();
    let report = match outcome {
        Err(Error::Interrupted) => return Ok(ExitCode::from(INTERRUPTED)),
        outcome => outcome.map_err(Failure::runtime)?,
    };
    if !quiet {
        outputs.print(|_| chaos::table(&report))?;
    }
    outputs.write(
        || report.to_json(),
        || chaos::to_csv(&report),
        || chaos::draw(&report),
    )?;
    for miss in &report.misses {
        eprintln!("glassline: missed: {miss}");
    }
    Ok(if report.misses.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(THRESHOLD_MISSED)
    })
}

/// Watches streams until standard input is closed, and prints what is seen once a second.
pub(crate) fn watch(options: &AudienceOptions) -> Result<ExitCode, Failure> {
    let endpoints = options.urls.iter().map(|url| Endpoint::parse(url));
    let audience = Audience {
        endpoints: endpoints
            .collect::<Result<_, _>>()
            .map_err(Failure::usage)?,
        token: options.token.clone(),
    };
    let mut out = std::io::stdout().lock();
    chaos::watch(&audience, &mut out).map_err(Failure::runtime)?;
    Ok(ExitCode::SUCCESS)
}

fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|it| (0.1..=1440.0).contains(it))
        .ok_or_else(|| "give a number of minutes from 0.1 to 1440".to_owned())
}

fn viewers(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|it| (4..=1000).contains(it))
        .ok_or_else(|| "give a number from 4 to 1000: each way to watch has a viewer".to_owned())
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let own = || std::env::current_exe().map_err(Failure::runtime);
        let strength = match (self.smoke, self.only.is_empty()) {
            (true, _) => Strength::Smoke,
            (false, true) => Strength::Mixed,
            (false, false) => Strength::Target,
        };
        let temporary = || {
            let name = format!("glassline-chaos-{}", std::process::id());
            std::env::temp_dir().join(name)
        };
        Ok(Plan {
            program: self.program.clone().map_or_else(own, Ok)?,
            folder: self.folder.clone().unwrap_or_else(temporary),
            seed: self.seed,
            time: Duration::from_secs_f64(match strength {
                Strength::Smoke => 52.0,
                Strength::Mixed | Strength::Target => self.minutes * 60.0,
            }),
            strength,
            only: self.only.clone(),
            rate: self.rate,
            count: self.count,
            action_time: self.time,
            viewers: self.viewers,
            media_folder: self.media_folder.clone(),
            descriptors: self.descriptors,
        })
    }
}

/// The log of the run on stderr, and a progress bar where stderr is a terminal.
struct Lines {
    is_quiet: bool,
    bar: Option<ProgressBar>,
}

/// Length of the progress bar, in steps.
const BAR: u64 = 1000;

impl Lines {
    fn new(is_quiet: bool) -> Self {
        let bar = terminal::bar(is_quiet);
        if let Some(bar) = &bar {
            bar.set_length(BAR);
        }
        Self { is_quiet, bar }
    }

    fn say(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Lines {
    fn on_line(&mut self, at_s: f64, text: &str) {
        self.say(&format!("{at_s:>7.1} s  {text}"));
    }

    fn on_progress(&mut self, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        bar.set_position((progress.done * BAR as f64) as u64);
        let seen = &progress.observation;
        let mib = seen.server_rss_bytes.unwrap_or(0) as f64 / 1048576.0;
        bar.set_message(format!(
            "{}, {} of {} without video, server {mib:.0} MiB, {:.0} %",
            progress.action.unwrap_or("quiet"),
            progress.frozen,
            progress.viewers,
            seen.server_cpu_percent.unwrap_or(0.0)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn plan(flags: &[&str]) -> Result<Plan, String> {
        let options: Options = test_flags::parse(flags)?;
        options.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_choose_the_strength() {
        let strength = |flags: &[&str]| plan(flags).expect("flags that clap takes").strength;
        assert_eq!(strength(&[]), Strength::Mixed);
        assert_eq!(strength(&["--smoke"]), Strength::Smoke);
        assert_eq!(strength(&["--only", "flood-stun"]), Strength::Target);
        assert_eq!(strength(&["--only", "reload", "--smoke"]), Strength::Smoke);
        let cases: [(&[&str], &str); 3] = [
            (&["--only", "flood"], "no action is called 'flood'"),
            (&["--minutes", "0"], "from 0.1 to 1440"),
            (&["--viewers", "1"], "from 4 to 1000"),
        ];
        for (flags, wanted) in cases {
            let error = plan(flags).expect_err("a usage error");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
