//! `cargo xtask fuzz`: runs each fuzz target for some time, on stable Rust.
//!
//! libFuzzer needs to know which edges of the code an input reaches. The compiler's coverage pass
//! provides that on stable, too (`-Cpasses=sancov-module`); only the memory sanitizers need a
//! nightly, and these targets have no `unsafe` code. An explicit `--target` keeps the pass away
//! from build scripts and macros.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::summary::{Outcome, Summary};
use crate::{Failure, install, process};

/// The crate whose binaries are the targets.
const PACKAGE: &str = "glassline-fuzz";

const SECONDS_DEFAULT: u64 = 60;

const COVERAGE_FLAGS: [&str; 7] = [
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Runs the named targets, or all, one after another.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (wanted, seconds) = parse(arguments)?;
    // Printed paths are short, and can be typed there.
    std::env::set_current_dir(process::root())
        .map_err(|error| format!("{}: {error}", process::root().display()))?;
    let targets = targets()?;
    if let Some(unknown) = wanted.iter().find(|name| !targets.contains(name)) {
        let known = targets.join(", ");
        return Err(Failure::usage(format!(
            "no fuzz target `{unknown}`; there are: {known}"
        )));
    }
    let chosen = if wanted.is_empty() { targets } else { wanted };
    install::fuzz_tools()?;
    let folder = build(&chosen)?;
    let mut summary = Summary::start();
    for target in &chosen {
        summary.step(target, |_| fuzz(&folder, target, seconds));
    }
    Ok(summary.finish()?)
}

fn parse(arguments: &[String]) -> Result<(Vec<String>, u64), Failure> {
    let mut wanted = Vec::new();
    let mut seconds = SECONDS_DEFAULT;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            seconds = words
                .next()
                .and_then(|value| value.parse().ok())
                .filter(|seconds| *seconds > 0)
                .ok_or_else(|| Failure::usage("--seconds takes a whole number from 1"))?;
        } else if word.starts_with('-') {
            return Err(Failure::usage(format!("fuzz takes no `{word}`")));
        } else {
            wanted.push(word.clone());
        }
    }
    Ok((wanted, seconds))
}

/// The names of all fuzz targets, as `fuzz/Cargo.toml` has them.
fn targets() -> Result<Vec<String>, String> {
    let metadata = process::workspace_metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages
        .filter(|package| package["name"] == PACKAGE)
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
        .filter(|target| target["kind"][0] == "bin")
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect())
}

/// Builds the targets with coverage; returns the folder of the binaries.
fn build(targets: &[String]) -> Result<PathBuf, String> {
    let host = host()?;
    let mut cargo = process::cargo(&["build", "--profile", "fuzz", "--package", PACKAGE]);
    cargo
        .args(["--features", "glassline-fuzz/linked"])
        .args(["--target", &host, "--target-dir", "fuzz/target"])
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE_FLAGS.join("\x1f"));
    for target in targets {
        cargo.args(["--bin", target]);
    }
    process::run(&mut cargo)?;
    Ok(Path::new("fuzz/target").join(host).join("fuzz"))
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
    let corpus = Path::new("fuzz/corpus").join(target);
    let artifacts = Path::new("fuzz/artifacts").join(target);
    let seeds = Path::new("fuzz/seeds").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    }
    let binary = binaries.join(target);
    let mut command = Command::new(&binary);
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
    let mut progress = Progress::start(target);
    let output = child.stderr.take().expect("standard error is piped");
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        progress.read_line(&String::from_utf8_lossy(&line));
    }
    let status = child
        .wait()
        .map_err(|error| format!("waiting for {target}: {error}"))?;
    progress.verdict(status.success(), &binary.display().to_string())
}

/// State of libFuzzer, from its output.
struct Progress {
    target: String,
    started: Instant,
    shown: Option<Instant>,
    runs: u64,
    coverage_first: u64,
    coverage: u64,
    corpus: u64,
    artifact: Option<String>,
    /// The last lines, shown after a crash.
    tail: Vec<String>,
}

impl Progress {
    fn start(target: &str) -> Progress {
        Progress {
            target: target.to_owned(),
            started: Instant::now(),
            shown: None,
            runs: 0,
            coverage_first: 0,
            coverage: 0,
            corpus: 0,
            artifact: None,
            tail: Vec::new(),
        }
    }

    /// Reads a line of libFuzzer: `#1907 NEW cov: 10 ft: 10 corp: 3/15b …`, the name of an
    /// artifact, or other text.
    fn read_line(&mut self, line: &str) {
        const TAIL_LINES: usize = 40;
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.artifact = Some(path.trim().to_owned());
        }
        let counted = line.strip_prefix('#').and_then(|rest| {
            let runs = rest.split_whitespace().next()?.parse().ok()?;
            Some((
                runs,
                number_after(line, "cov: ")?,
                number_after(line, "corp: ")?,
            ))
        });
        let Some((runs, coverage, corpus)) = counted else {
            self.tail.push(line.to_owned());
            if self.tail.len() > TAIL_LINES {
                self.tail.remove(0);
            }
            return;
        };
        if self.coverage_first == 0 {
            self.coverage_first = coverage;
        }
        (self.runs, self.coverage, self.corpus) = (runs, coverage, corpus);
        self.show();
    }

    /// Prints a line that is redrawn on a terminal; elsewhere one line from time to time.
    fn show(&mut self) {
        let on_terminal = std::io::stdout().is_terminal();
        let pause = Duration::from_millis(if on_terminal { 250 } else { 15_000 });
        if self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        let seconds = self.started.elapsed().as_secs();
        let line = format!("  {} {seconds:>4} s  {}", self.target, self.counts());
        if on_terminal {
            print!("\r{line}\x1b[K");
            // A failure affects the progress line only.
            let _ = std::io::stdout().flush();
        } else {
            println!("{line}");
        }
    }

    fn counts(&self) -> String {
        format!(
            "{} runs, coverage {} → {} edges, {} inputs kept",
            self.runs, self.coverage_first, self.coverage, self.corpus
        )
    }

    /// Result of the target. `again` is the command that repeats the failure with an artifact.
    fn verdict(self, succeeded: bool, again: &str) -> Result<String, String> {
        if std::io::stdout().is_terminal() {
            println!();
        }
        if !succeeded {
            println!("{}", self.tail.join("\n"));
            let target = &self.target;
            return Err(match self.artifact {
                Some(path) => {
                    format!("{target} broke: {path}\n    again: {again} {path}")
                }
                None => format!("{target} broke and left no input"),
            });
        }
        if self.coverage == 0 {
            return Err(format!("{}: no coverage was measured", self.target));
        }
        Ok(self.counts())
    }
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    let digits = rest.split(|character: char| !character.is_ascii_digit());
    digits.into_iter().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn targets_and_seconds_come_in_any_order() {
        let parsed = parse(&words("sdp --seconds 5 rtp")).ok();
        assert_eq!(parsed, Some((words("sdp rtp"), 5)));
        assert!(parse(&words("--seconds soon")).is_err());
        assert!(parse(&words("--seconds 0")).is_err());
        assert!(parse(&words("--minutes 1")).is_err());
    }

    #[test]
    fn growth_of_coverage_is_reported() {
        let mut progress = Progress::start("toy");
        progress.read_line("INFO: Seed: 478794479");
        progress.read_line("#2\tINITED cov: 8 ft: 8 corp: 1/1b exec/s: 0 rss: 27Mb");
        progress.read_line("#424\tNEW    cov: 9 ft: 9 corp: 2/9b lim: 8 exec/s: 0");
        progress.read_line("#5000\tDONE   cov: 12 ft: 12 corp: 5/29b lim: 4096");
        assert_eq!(
            progress.verdict(true, "toy"),
            Ok("5000 runs, coverage 8 → 12 edges, 5 inputs kept".to_owned())
        );
    }

    #[test]
    fn a_crash_names_its_artefact() {
        let mut progress = Progress::start("toy");
        progress.read_line("artifact_prefix='a/'; Test unit written to a/crash-da39a3");
        let report = progress
            .verdict(false, "target/toy")
            .expect_err("it crashed");
        assert!(report.contains("toy broke: a/crash-da39a3"), "{report}");
        assert!(
            report.contains("again: target/toy a/crash-da39a3"),
            "{report}"
        );
    }

    #[test]
    fn a_target_without_coverage_is_a_failure() {
        assert!(Progress::start("toy").verdict(true, "toy").is_err());
    }
}
