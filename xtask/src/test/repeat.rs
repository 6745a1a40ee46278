//! `cargo xtask repeat TEST`: runs the tests of a name many times, beside busy loops.

use std::time::Duration;

use super::build::TestBuild;
use super::load::Load;
use super::program::{self, Conditions, Ran};
use super::{drawn_seed, number};
use crate::executables::Executable;
use crate::{Failure, install};

/// Arguments of `cargo xtask repeat`.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Part of the names of the tests.
    test: String,
    /// Part of the names of the programs to look in; empty for all.
    package: String,
    times: u32,
    /// Number of busy loops.
    load: u32,
    seed: u64,
}

/// Runs the tests whose names contain a text a hundred times at load 8, unless asked for otherwise.
/// Prints the output of each run that fails, and how many did.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments)?;
    install::build_tools()?;
    let build = TestBuild::new(install::audio().is_ok())?;
    let built = build.compile()?;
    let chosen = chosen(&built.programs, &request)?;
    println!(
        "{} times beside {} busy loops, from seed {}",
        request.times, request.load, request.seed
    );
    let load = Load::start(request.load);
    let mut runs = Runs::default();
    for round in 0..request.times {
        let conditions = Conditions {
            with_peers: true,
            seed: request.seed.wrapping_add(round.into()),
        };
        for program in &chosen {
            let command = program::command(program, &[&request.test], conditions);
            let ran = program::run(command, |_| ());
            runs.take(&ran, conditions.seed);
        }
        println!("{} of {}: {}", round + 1, request.times, runs.text());
    }
    drop(load);
    match runs.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed", runs.took.len()).into()),
    }
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut request = Self {
            test: String::new(),
            package: String::new(),
            times: 100,
            load: 8,
            seed: drawn_seed(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--times" => request.times = number(word, words.next())?,
                "--load" => request.load = number(word, words.next())?,
                "--seed" => request.seed = number(word, words.next())?,
                "--package" => request.package = words.next().cloned().unwrap_or_default(),
                test if !test.starts_with('-') && request.test.is_empty() => {
                    request.test = test.to_owned();
                }
                other => return Err(Failure::usage(format!("repeat takes no `{other}`"))),
            }
        }
        match request.test.is_empty() {
            true => Err(Failure::usage("repeat takes the name of a test")),
            false => Ok(request),
        }
    }
}

/// The programs that have tests of this name; prints their number.
fn chosen<'a>(
    programs: &'a [Executable],
    request: &Request,
) -> Result<Vec<&'a Executable>, Failure> {
    let mut chosen = Vec::new();
    for program in programs.iter().filter(|it| !it.is_bench) {
        let name = program::name(program);
        if !name.contains(&request.package) {
            continue;
        }
        let mut tests = program::list(program, &[&request.test])?;
        // An ignored test would be counted as a run that did not fail.
        let ignored = program::list(program, &[&request.test, "--ignored"])?;
        tests.retain(|it| !ignored.contains(it));
        if !tests.is_empty() {
            println!("{name}: {}", Vec::from_iter(tests).join(", "));
            chosen.push(program);
        }
    }
    match chosen.is_empty() {
        true => Err(Failure::usage(format!(
            "no test is called `{}`",
            request.test
        ))),
        false => Ok(chosen),
    }
}

/// Number of failed runs, and time that each run took, shortest first.
#[derive(Default)]
struct Runs {
    failed: usize,
    took: Vec<Duration>,
}

impl Runs {
    fn take(&mut self, ran: &Ran, seed: u64) {
        let failed: Vec<&str> = ran.report.failed().collect();
        if ran.problem.is_some() || !failed.is_empty() {
            self.failed += 1;
            println!("$ {}\n{}", ran.line, ran.printed);
            let problem = ran.problem.as_deref().unwrap_or_default();
            println!("failed with seed {seed}: {} {problem}", failed.join(", "));
        }
        self.took.push(ran.took);
        self.took.sort();
    }

    fn text(&self) -> String {
        let middle = self.took.get(self.took.len() / 2);
        let longest = self.took.last();
        format!(
            "{} failed; a run takes {:.1?}, at most {:.1?}",
            self.failed,
            middle.copied().unwrap_or_default(),
            longest.copied().unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn parse(line: &str) -> Option<Request> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words).ok()
    }

    #[test]
    fn a_test_is_repeated_a_hundred_times_at_load_8() {
        let usual = parse("reload").expect("a test is named");
        assert_eq!((usual.times, usual.load), (100, 8));
        let asked = Request {
            test: "reload".to_owned(),
            package: "server".to_owned(),
            times: 3,
            load: 0,
            seed: 5,
        };
        let line = "--times 3 reload --seed 5 --load 0 --package server";
        assert_eq!(parse(line), Some(asked));
        for wrong in ["", "--times", "a b", "a --twice", "a --load much"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_failed_run_is_counted() {
        let ran = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            program::run(command, |_| ())
        };
        let mut runs = Runs::default();
        runs.take(&ran("echo test a ... ok"), 1);
        runs.take(
            &ran("echo test a ... FAILED; echo test result: FAILED.; exit 101"),
            2,
        );
        runs.take(&ran("kill -9 $$"), 3);
        assert_eq!((runs.failed, runs.took.len()), (2, 3));
    }
}
