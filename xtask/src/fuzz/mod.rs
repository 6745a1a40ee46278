//! `cargo xtask fuzz`: runs each fuzz target for some time, on stable Rust.
//!
//! libFuzzer needs to know which edges of the code an input reaches. The compiler's coverage pass
//! provides that on stable, too (`-Cpasses=sancov-module`); only the memory sanitizers need a
//! nightly, and these targets have no `unsafe` code. An explicit `--target` keeps the pass away
//! from build scripts and macros.
//!
//! A long run (`--long`) gives each target ten minutes, two targets at a time. It minimizes the
//! corpus of each target and writes its row into a table, whose rows for other targets stay.

mod progress;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::result_table::{Page, Table};
use crate::summary::{Outcome, Summary};
use crate::{Failure, install, process};
use progress::Progress;

/// The crate of the targets.
const PACKAGE: &str = "glassline-fuzz";

const SECONDS_DEFAULT: u64 = 60;

/// Table of the last long runs.
pub(crate) static PAGE: Page = Page {
    name: "fuzzing",
    columns: &[
        "target",
        "executions",
        "per CPU second",
        "edges",
        "inputs kept",
        "findings",
        "minutes",
        "date",
        "commit",
    ],
};

/// Time that a long run gives each target.
const LONG_MINUTES: u64 = 10;

/// Targets that a long run runs at a time.
const LONG_AT_A_TIME: usize = 2;

const COVERAGE_FLAGS: [&str; 7] = [
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The request of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Targets to run; empty for all.
    wanted: Vec<String>,
    seconds: u64,
    long: bool,
}

/// Runs the named targets, or all.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments)?;
    // Printed paths are short, and can be typed there.
    std::env::set_current_dir(process::root())
        .map_err(|error| format!("{}: {error}", process::root().display()))?;
    let targets = targets()?;
    let mut wanted = request.wanted.iter();
    if let Some(unknown) = wanted.find(|name| !targets.contains(name)) {
        let known = targets.join(", ");
        return Err(Failure::usage(format!(
            "no fuzz target `{unknown}`; there are: {known}"
        )));
    }
    let chosen = match request.wanted.is_empty() {
        true => targets.clone(),
        false => request.wanted,
    };
    install::fuzz_tools()?;
    let folder = build(&chosen)?;
    if request.long {
        return Ok(run_long(&folder, &targets, &chosen, request.seconds)?);
    }
    let mut summary = Summary::start();
    for target in &chosen {
        summary.step(target, |_| fuzz(&folder, target, request.seconds));
    }
    Ok(summary.finish()?)
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Request, Failure> {
        let mut request = Request {
            wanted: Vec::new(),
            seconds: SECONDS_DEFAULT,
            long: false,
        };
        let mut words = arguments.iter();
        let number = |words: &mut std::slice::Iter<'_, String>, name: &str| {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            let value = value.filter(|value| (1..=100_000).contains(value));
            value.ok_or_else(|| Failure::usage(format!("{name} takes a whole number from 1")))
        };
        let mut time = None;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--long" => request.long = true,
                "--seconds" => time = Some(number(&mut words, word)?),
                "--minutes" => time = Some(60 * number(&mut words, word)?),
                option if option.starts_with('-') => {
                    return Err(Failure::usage(format!("fuzz takes no `{option}`")));
                }
                target => request.wanted.push(target.to_owned()),
            }
        }
        let usual = match request.long {
            true => 60 * LONG_MINUTES,
            false => SECONDS_DEFAULT,
        };
        request.seconds = time.unwrap_or(usual);
        Ok(request)
    }
}

/// Runs `chosen` two at a time, minimizes each corpus, and writes the table. `all`: the targets
/// that there are, whose earlier rows stay.
///
/// # Errors
/// A target broke, or the table cannot be written; each finding has been printed.
fn run_long(folder: &Path, all: &[String], chosen: &[String], seconds: u64) -> Result<(), String> {
    let at_a_time = LONG_AT_A_TIME.min(chosen.len());
    let rounds = chosen.len().div_ceil(at_a_time.max(1));
    let minutes = rounds as u64 * seconds / 60;
    println!(
        "{} targets, {seconds} s each, {at_a_time} at a time: about {minutes} min",
        chosen.len()
    );
    let waiting: Mutex<VecDeque<&String>> = Mutex::new(chosen.iter().collect());
    let done = Mutex::new(LongResults::default());
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let next = waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(target) = next else { return };
                    let (row, problem) = run_one_long(folder, target, seconds);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.add(row, problem, all);
                    println!("  {} of {} targets done", done.targets, chosen.len());
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("{}", Table::read(&PAGE)?.text());
    match done.problems.is_empty() {
        true => Ok(()),
        false => Err(done.problems.join("\n    ")),
    }
}

/// The results of a long run so far.
#[derive(Debug, Default)]
struct LongResults {
    /// Number of targets that have run.
    targets: usize,
    problems: Vec<String>,
}

impl LongResults {
    /// Notes a target's result and writes its row, so that a run which ends early leaves those of
    /// the targets that it has run. `all`: the targets that there are.
    fn add(&mut self, row: Vec<String>, problem: Option<String>, all: &[String]) {
        self.targets += 1;
        self.problems.extend(problem);
        let written = Table::read(&PAGE).and_then(|mut table| {
            table.put(row);
            table.keep(all);
            table.write()
        });
        self.problems.extend(written.err());
    }
}

/// Runs one target and minimizes its corpus. Returns its row, and what went wrong.
fn run_one_long(folder: &Path, target: &str, seconds: u64) -> (Vec<String>, Option<String>) {
    let began = Instant::now();
    let mut progress = Progress::start(target, false);
    let mut problem = match watch(folder, target, seconds, &mut progress) {
        Ok(true) => None,
        Ok(false) => Some(progress.breakage(&folder.join(target).display().to_string())),
        Err(reason) => Some(reason),
    };
    let crashes = u64::from(problem.is_some());
    let took = began.elapsed();
    match minimize(folder, target) {
        Ok(inputs) => progress.set_corpus(inputs),
        Err(reason) => problem = problem.or(Some(reason)),
    }
    if let Some(problem) = &problem {
        println!("{problem}");
    }
    (progress.row(took, crashes), problem)
}

/// Keeps the smallest inputs that together reach everything that the corpus reaches. Returns
/// their number.
fn minimize(folder: &Path, target: &str) -> Result<u64, String> {
    let corpus = Path::new("fuzz/corpus").join(target);
    let smaller = Path::new("fuzz/corpus").join(format!("{target}.minimized"));
    let failed = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
    let _ = fs::remove_dir_all(&smaller);
    fs::create_dir_all(&smaller).map_err(|error| failed(&smaller, error))?;
    let mut merge = Command::new(folder.join(target));
    merge
        .args(["-merge=1", "-timeout=10", "-rss_limit_mb=1024"])
        .args([&smaller, &corpus])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = merge
        .status()
        .map_err(|error| failed(&folder.join(target), error))?;
    let inputs = fs::read_dir(&smaller).map_err(|error| failed(&smaller, error))?;
    let inputs = inputs.count() as u64;
    if !status.success() || inputs == 0 {
        // The corpus as it was is better than none.
        let _ = fs::remove_dir_all(&smaller);
        return Err(format!("{target}: the corpus could not be minimized"));
    }
    fs::remove_dir_all(&corpus).map_err(|error| failed(&corpus, error))?;
    fs::rename(&smaller, &corpus).map_err(|error| failed(&smaller, error))?;
    Ok(inputs)
}

/// The names of all fuzz targets, which are those of their files.
fn targets() -> Result<Vec<String>, String> {
    let folder = Path::new("fuzz/src/targets");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().and_then(|it| it.to_str());
        names.extend(name.filter(|it| *it != "mod").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Builds the targets with coverage; returns the folder of the binaries.
///
/// The program is compiled once a target, which takes seconds: everything below it is built once.
fn build(targets: &[String]) -> Result<PathBuf, String> {
    let host = host()?;
    let built = Path::new("fuzz/target").join(&host).join("fuzz");
    let binaries = built.join("targets");
    let failed = |error: std::io::Error| format!("{}: {error}", binaries.display());
    fs::create_dir_all(&binaries).map_err(failed)?;
    for target in targets {
        let mut cargo = process::cargo(&["build", "--profile", "fuzz", "--package", PACKAGE]);
        cargo
            .args(["--features", "linked", "--bin", "fuzz"])
            .args(["--target", &host, "--target-dir", "fuzz/target"])
            .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE_FLAGS.join("\x1f"))
            .env("GLASSLINE_FUZZ_TARGET", target);
        process::run(&mut cargo)?;
        fs::copy(built.join("fuzz"), binaries.join(target)).map_err(failed)?;
    }
    Ok(binaries)
}

/// Platform of this machine, as cargo names it.
fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    process::output_of(Command::new(rustc).arg("-vV"))
        .and_then(|text| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        })
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

fn fuzz(binaries: &Path, target: &str, seconds: u64) -> Outcome {
    match try_fuzz(binaries, target, seconds) {
        Ok(report) => Outcome::PassedWith(report),
        Err(reason) => Outcome::Failed(reason),
    }
}

fn try_fuzz(binaries: &Path, target: &str, seconds: u64) -> Result<String, String> {
    let mut progress = Progress::start(target, true);
    let succeeded = watch(binaries, target, seconds, &mut progress)?;
    progress.verdict(succeeded, &binaries.join(target).display().to_string())
}

/// Runs a target and passes what it prints to `progress`. Returns whether it found nothing.
fn watch(
    binaries: &Path,
    target: &str,
    seconds: u64,
    progress: &mut Progress,
) -> Result<bool, String> {
    let corpus = Path::new("fuzz/corpus").join(target);
    let artifacts = Path::new("fuzz/artifacts").join(target);
    let seeds = Path::new("fuzz/seeds").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    }
    let mut command = Command::new(binaries.join(target));
    command
        .arg(format!("-max_total_time={seconds}"))
        // A single input that takes this long, or this much memory, is a finding.
        .args(["-timeout=10", "-rss_limit_mb=1024"])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&corpus);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", process::line(&command)))?;
    let output = child.stderr.take().expect("standard error is piped");
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        progress.read_line(&String::from_utf8_lossy(&line));
        progress.set_cpu_time(cpu_time(child.id()));
    }
    let status = child
        .wait()
        .map_err(|error| format!("waiting for {target}: {error}"))?;
    Ok(status.success())
}

/// Returns the CPU time that a process has used so far; `None` where the system has no `/proc`.
fn cpu_time(process: u32) -> Option<Duration> {
    // The kernel counts in these units whatever its own clock is (proc(5), `USER_HZ`).
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, system) = (ticks()?, ticks()?);
    let seconds = (f64::from(user) + f64::from(system)) / TICKS_PER_SECOND;
    Some(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_of_a_process_grows_with_its_work() {
        let own = || cpu_time(std::process::id()).expect("this process runs");
        let before = own();
        let mut sum = 0_u64;
        while own() <= before {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        assert!(cpu_time(u32::MAX).is_none(), "no such process, {sum}");
    }

    fn parse(line: &str) -> Option<Request> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words).ok()
    }

    fn request(wanted: &[&str], seconds: u64, long: bool) -> Option<Request> {
        let wanted = wanted.iter().map(|name| (*name).to_owned()).collect();
        Some(Request {
            wanted,
            seconds,
            long,
        })
    }

    #[test]
    fn targets_and_times_come_in_any_order() {
        assert_eq!(parse(""), request(&[], 60, false));
        let named = request(&["sdp", "rtp"], 5, false);
        assert_eq!(parse("sdp --seconds 5 rtp"), named);
        assert_eq!(parse("--long"), request(&[], 600, true));
        let long = request(&["sdp"], 180, true);
        assert_eq!(parse("sdp --minutes 3 --long"), long);
        for wrong in ["--seconds soon", "--seconds 0", "--hours 1", "--minutes"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
