//! Performs a recipe: its turns, with a deadline and a log, and the values of each.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};

use super::build::{Built, LAB};
use super::machine::MASK;
use super::quiet::{self, Ticks};
use super::recipe::{Need, Recipe, Work, words};
use super::record::{Load, Measurement, Outcome, State, merged};
use super::report;
use crate::process;

/// A turn may take this many times the expected time, and some minutes more, until it is ended.
const PATIENCE: f64 = 4.0;
const PATIENCE_MORE: Duration = Duration::from_secs(300);

/// Most lines of a failed program that are repeated as the reason.
const LINES_REPEATED: usize = 6;

/// How recipes are performed.
pub(super) struct Stage<'a> {
    pub(super) built: &'a Built,
    pub(super) is_quick: bool,
    /// Whether wide AES is kept from the cipher library.
    pub(super) is_masked: bool,
    /// Whether the machine is known to have other work, so that nothing waits for a quiet moment.
    pub(super) is_busy: bool,
    /// Copy of this program, which is not replaced while the night goes on.
    pub(super) own: PathBuf,
    /// Folder of logs and reports.
    pub(super) folder: PathBuf,
}

/// The findings of one turn.
struct Turn {
    values: Vec<Measurement>,
    /// The faults of values that are missing.
    missing: Vec<String>,
    /// The remark about the values.
    note: Option<String>,
}

impl Stage<'_> {
    /// Performs all turns. A turn that fails ends the recipe.
    pub(super) fn perform(&self, recipe: &Recipe, started: String) -> Outcome {
        let began = Instant::now();
        let mut load = Load {
            average_before: quiet::load_average(),
            ..Load::default()
        };
        let needs_quiet = recipe.needs.contains(&Need::Quiet);
        let count = if self.is_quick { 1 } else { recipe.turns };
        let mut turns = Vec::new();
        let (mut failure, mut notes) = (None, Vec::new());
        let mut is_whole = true;
        for number in 1..=count {
            let cores = match (needs_quiet, self.is_busy) {
                (false, _) => 0.0,
                (true, true) => quiet::cores_in_use(),
                (true, false) => quiet::wait(),
            };
            if !quiet::is_quiet(cores) {
                println!("    others use {cores:.2} cores: the values are going to be marked");
            }
            let (before, turn_began) = (Ticks::now(), Instant::now());
            match self.turn(recipe, number) {
                Ok(turn) => {
                    is_whole &= turn.missing.is_empty();
                    notes.extend(turn.missing);
                    notes.extend(turn.note);
                    turns.push(turn.values);
                }
                Err(reason) => failure = Some(reason),
            }
            let seconds = turn_began.elapsed().as_secs_f64();
            load.add_turn(cores, &before, seconds, leaves_orphans(recipe));
            if failure.is_some() {
                break;
            }
        }
        // Other work does not move what is simulated.
        load.is_disturbed &= needs_quiet;
        notes.sort();
        notes.dedup();
        let values = merged(&turns);
        // Each turn may lack other values than the others.
        let failure = failure.or_else(|| values.is_empty().then(|| notes.join("; ")));
        let (state, reason) = match failure {
            Some(reason) => (State::Failed, Some(reason)),
            None if is_whole => (
                State::Measured,
                (!notes.is_empty()).then(|| notes.join("; ")),
            ),
            None => (State::Partial, Some(notes.join("; "))),
        };
        Outcome {
            command: recipe.command(self.is_quick),
            state,
            values: match state {
                State::Failed => Vec::new(),
                _ => values,
            },
            reason,
            started,
            seconds: began.elapsed().as_secs_f64(),
            load,
        }
    }

    /// Performs the work once, and reads its values.
    fn turn(&self, recipe: &Recipe, number: usize) -> Result<Turn, String> {
        let mask = if self.is_masked { "-masked" } else { "" };
        let stem = format!("{}{mask}-{number}", recipe.name);
        let log = self.folder.join(format!("{stem}.log"));
        let report = self.folder.join(format!("{stem}.json"));
        let work = recipe.work(self.is_quick);
        let reports = self.reports(work, &report);
        for (_, path) in &reports {
            // A report of an earlier run must not be read as this run's.
            let _ = fs::remove_file(path);
        }
        let mut command = self.command(work, &report)?;
        if self.is_masked {
            command.env(MASK.0, MASK.1);
        }
        let (_, quick_minutes) = recipe.minutes;
        let minutes = if self.is_quick {
            quick_minutes
        } else {
            recipe.minutes.0
        };
        let patience = Duration::from_secs_f64(60.0 * minutes * PATIENCE) + PATIENCE_MORE;
        let note = run(command, &log, patience)?;
        let at_log = |error: String| format!("{error}; log: {}", named(&log).display());
        let values = if reports.is_empty() {
            let text = fs::read(&log).map_err(|error| at_log(error.to_string()))?;
            let values = report::from_lines(&String::from_utf8_lossy(&text), recipe.noise);
            values.map(|it| (it, Vec::new()))
        } else {
            joined(&reports).and_then(|report| report::from_json(&report, &recipe.values))
        };
        let (values, missing) = values.map_err(at_log)?;
        Ok(Turn {
            values,
            missing,
            note,
        })
    }

    /// Reports that the work writes, by key; without a key where it is the only one.
    fn reports(&self, work: &Work, report: &Path) -> Vec<(Option<&'static str>, PathBuf)> {
        let bench = process::target_directory().join("bench");
        match work {
            Work::Program(_) | Work::Scene(_) => vec![(None, report.to_owned())],
            Work::Lab(name) => vec![(None, bench.join(format!("{name}.json")))],
            Work::Peers { reports, .. } => {
                let path = |name: &&'static str| bench.join(format!("peers/{name}.json"));
                reports.iter().map(|it| (Some(*it), path(it))).collect()
            }
            Work::Bench { .. } | Work::Test { .. } => Vec::new(),
        }
    }

    fn command(&self, work: &Work, report: &Path) -> Result<Command, String> {
        let glassline = &self.built.glassline;
        let of_target = |package: &str, target: &str| -> Result<Command, String> {
            let executable = self.built.executable(package, target)?;
            let mut command = Command::new(&executable.path);
            command.current_dir(&executable.folder);
            Ok(command)
        };
        Ok(match work {
            Work::Program(arguments) => {
                let mut command = Command::new(glassline);
                command.args(words(arguments)).arg("--json").arg(report);
                command.current_dir(process::root());
                command
            }
            Work::Lab(name) => {
                let mut command = of_target(LAB.0, LAB.1)?;
                command.args([name, "--bench"]);
                if let Some(mediamtx) = &self.built.mediamtx {
                    command.env("MEDIAMTX", mediamtx);
                }
                command
            }
            Work::Bench {
                package,
                target,
                arguments,
            } => {
                let mut command = of_target(package, target)?;
                command.args(words(arguments)).arg("--bench");
                command
            }
            Work::Test { package, filter } => {
                let mut command = of_target(package, "tests")?;
                command.args(["--ignored", "--nocapture", "--test-threads", "1", filter]);
                command
            }
            Work::Scene(name) => {
                let mut command = Command::new(&self.own);
                command
                    .args(["figures", "--scene", name, "--json"])
                    .arg(report);
                command.arg("--binary").arg(glassline);
                command
            }
            Work::Peers { arguments, .. } => {
                let mut command = Command::new(&self.own);
                command.arg("bench-peers").args(words(arguments));
                command.arg("--binary").arg(glassline);
                command
            }
        })
    }
}

/// Whether processes of the recipe end without anybody who waits for them, so that their time cannot
/// be told from that of others: browsers do.
fn leaves_orphans(recipe: &Recipe) -> bool {
    recipe.needs.contains(&Need::Peer("Chromium"))
}

/// Joins reports into one object by key.
fn joined(reports: &[(Option<&'static str>, PathBuf)]) -> Result<Json, String> {
    let mut all = Map::new();
    for (key, path) in reports {
        let at = |error: String| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
        let report: Json = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
        match key {
            None => return Ok(report),
            Some(key) => all.insert((*key).to_owned(), report),
        };
    }
    Ok(all.into())
}

/// Returns the path of a log as results name it: without the place of the checkout.
fn named(log: &Path) -> &Path {
    log.strip_prefix(process::root()).unwrap_or(log)
}

/// Runs `command` with its output in `log`, and ends it with all its processes after `patience`, and
/// when this program ends. Returns a note where the program has measured and missed a demand.
///
/// # Errors The command failed or was ended; the text has its last lines.
fn run(command: Command, log: &Path, patience: Duration) -> Result<Option<String>, String> {
    let failed = |what: String| format!("{what}; log: {}", named(log).display());
    let file = File::create(log).map_err(|error| failed(error.to_string()))?;
    let errors = file
        .try_clone()
        .map_err(|error| failed(error.to_string()))?;
    let mut bounded = bounded(command, patience);
    bounded.stdin(Stdio::null()).stdout(file).stderr(errors);
    let status = bounded
        .status()
        .map_err(|error| failed(format!("cannot start {}: {error}", process::line(&bounded))))?;
    if status.success() {
        return Ok(None);
    }
    if status.code() == Some(MISSED) {
        return Ok(Some(failed("a demand was missed".to_owned())));
    }
    if status.code() == Some(TIMED_OUT) {
        let minutes = patience.as_secs().div_ceil(60);
        return Err(failed(format!("ended after {minutes} minutes")));
    }
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES_REPEATED)..].join(" / ");
    Err(failed(format!("{status}: {last}")))
}

/// Exit code of our programs where a demand on the figures was missed: the report has been written.
const MISSED: i32 = 3;

/// Exit code of `timeout` where it ended the program.
const TIMED_OUT: i32 = 124;

/// The command behind `setpriv`, which ends it when we end, and `timeout`, which ends all of its
/// processes at the deadline. What is missing of both is left out.
fn bounded(command: Command, patience: Duration) -> Command {
    let seconds = patience.as_secs().to_string();
    let mut words: Vec<&str> = Vec::new();
    if process::find("setpriv").is_some() {
        words.extend(["setpriv", "--pdeathsig", "TERM"]);
    }
    if process::find("timeout").is_some() {
        words.extend(["timeout", "--kill-after", "20", &seconds]);
    }
    let Some((first, rest)) = words.split_first() else {
        return command;
    };
    let mut bounded = Command::new(first);
    bounded.args(rest).arg(command.get_program());
    bounded.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> PathBuf {
        let name = format!("glassline-figures-{name}-{}.log", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]).env("GREETING", "good morning");
        command
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let log = log("fails");
        let minute = Duration::from_secs(60);
        let outcome = run(
            shell("echo $GREETING; echo no peer >&2; exit 4"),
            &log,
            minute,
        );
        let reason = outcome.expect_err("exit code 4");
        assert!(reason.contains("good morning / no peer"), "{reason}");
        assert!(reason.contains(&log.display().to_string()), "{reason}");
        assert_eq!(run(shell("true"), &log, minute), Ok(None));
        let missed = run(shell("exit 3"), &log, minute).expect("it has measured");
        assert!(missed.is_some_and(|it| it.starts_with("a demand was missed")));
        let _ = fs::remove_file(log);
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        if process::find("timeout").is_none() {
            return;
        }
        let log = log("hangs");
        let began = Instant::now();
        let outcome = run(shell("sleep 300 & wait"), &log, Duration::from_secs(1));
        assert!(outcome.is_err_and(|it| it.contains("ended after")));
        assert!(began.elapsed() < Duration::from_secs(60));
        let _ = fs::remove_file(log);
    }

    #[test]
    fn reports_of_several_programs_become_one() {
        let path = log("joined");
        fs::write(&path, "{\"a\": 1}").expect("a temporary file");
        let one = joined(&[(None, path.clone())]).expect("there");
        assert_eq!(one["a"], 1);
        let two = joined(&[(Some("x"), path.clone())]).expect("there");
        assert_eq!(two["x"]["a"], 1);
        let _ = fs::remove_file(&path);
        let missing = joined(&[(None, path)]).expect_err("gone");
        assert!(missing.contains("joined"), "{missing}");
    }
}
