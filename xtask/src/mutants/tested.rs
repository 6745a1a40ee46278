//! Runs test programs with one mutant switched on.
//!
//! A first run without a mutant notes which tests reach which mutants. A mutant that no test
//! reaches is missed without a run, and another one is tested only by the tests that reach it: a
//! test that never comes to the place of a fault cannot notice the fault.
//!
//! Only a hang ends a run early: the deadline counts the time of the processor, so that a busy
//! machine lets no mutant look caught.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::built::Program;
use crate::process;

/// Memory that a run of tests may reserve, in KiB: a fault may allocate without end.
const MEMORY_KIB: u64 = 12 << 20;

/// Deadline of the processor's time: this many times that of all tests, and at least the second.
const PROCESSOR_TIMES: u64 = 6;
const PROCESSOR_SECONDS_MIN: u64 = 30;

/// Deadline of the wall's time, for a fault that waits forever.
const WALL_TIMES: u32 = 10;
const WALL_MIN: Duration = Duration::from_secs(120);

/// A program's tests without a mutant.
#[derive(Debug)]
pub(super) struct Baseline {
    program: PathBuf,
    /// Folder of the package, where cargo runs its tests.
    folder: PathBuf,
    /// Names of tests, or parts of them, that are run; empty for all.
    filters: Vec<String>,
    processor_seconds: u64,
    wall: Duration,
    tests: BTreeSet<String>,
    /// Names of the threads that reached each mutant: those of tests, or others.
    reached: BTreeMap<u32, BTreeSet<String>>,
}

/// How tests took a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// By a test, or by the end of the program.
    Caught(String),
    Hung,
    Missed,
    /// No test reaches the place.
    Unreached,
}

impl Baseline {
    /// Runs the tests of `program` that `filters` name, without a mutant.
    ///
    /// # Errors
    /// A test failed, so that nothing can be said about mutants.
    pub(super) fn run(program: &Program, folder: &Path, filters: &[&str]) -> Result<Self, String> {
        let list = super::build_directory().join("reached.txt");
        let _ = fs::remove_file(&list);
        let mut baseline = Self {
            program: program.path.clone(),
            folder: folder.to_owned(),
            filters: filters.iter().map(|it| (*it).to_owned()).collect(),
            processor_seconds: 3_600,
            wall: Duration::from_secs(3_600),
            tests: BTreeSet::new(),
            reached: BTreeMap::new(),
        };
        let (start, before) = (Instant::now(), processor_seconds_of_children());
        let mut command = baseline.command(&baseline.filters, false);
        command.env("MUTANTS_REACHED", &list);
        let run = Run::watch(command, baseline.wall, false)?;
        if run.end != End::Passed {
            return Err(format!(
                "tests of {} fail without a mutant: {:?}",
                program.path.display(),
                run.end
            ));
        }
        baseline.tests = run.tests;
        let processor_seconds = processor_seconds_of_children() - before;
        baseline.processor_seconds =
            (PROCESSOR_TIMES * (processor_seconds + 1)).max(PROCESSOR_SECONDS_MIN);
        baseline.wall = (WALL_TIMES * start.elapsed()).max(WALL_MIN);
        for line in fs::read_to_string(&list).unwrap_or_default().lines() {
            if let Some((number, thread)) = line.split_once(' ')
                && let Ok(number) = number.parse()
            {
                let threads: &mut BTreeSet<_> = baseline.reached.entry(number).or_default();
                threads.insert(thread.to_owned());
            }
        }
        println!(
            "{} tests of {} take {processor_seconds} s of a processor and {} s",
            baseline.tests.len(),
            program.path.display(),
            start.elapsed().as_secs()
        );
        Ok(baseline)
    }

    /// Runs the tests that reach `mutant` with the mutant switched on.
    pub(super) fn test(&self, mutant: u32) -> Result<Taken, String> {
        let Some(threads) = self.reached.get(&mutant) else {
            return Ok(Taken::Unreached);
        };
        // A thread that a test started may belong to any of them.
        let known: Vec<_> = threads.intersection(&self.tests).cloned().collect();
        let mut command = if known.len() == threads.len() {
            self.command(&known, true)
        } else {
            self.command(&self.filters, false)
        };
        command.env("MUTANT_ACTIVE", mutant.to_string());
        let run = Run::watch(command, self.wall, true)?;
        Ok(match run.end {
            End::Passed => Taken::Missed,
            End::Failed(by) => Taken::Caught(by),
            End::Late => Taken::Hung,
        })
    }

    fn command(&self, filters: &[String], exact: bool) -> Command {
        let mut command = Command::new("sh");
        let limits = format!(
            "ulimit -v {MEMORY_KIB}; ulimit -t {}; exec \"$0\" \"$@\"",
            self.processor_seconds
        );
        command.arg("-c").arg(limits).arg(&self.program);
        if exact {
            command.arg("--exact");
        }
        command
            .args(filters)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", "6")
            .env_remove("MUTANT_ACTIVE")
            .env_remove("MUTANTS_REACHED");
        command
    }
}

/// A run of a test program that has ended.
#[derive(Debug)]
struct Run {
    end: End,
    tests: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    /// The test that failed, or how the program ended.
    Failed(String),
    /// It used up its time.
    Late,
}

impl Run {
    /// Reads what the tests print until they end, or until the first failure if `is_hasty`.
    fn watch(mut command: Command, wall: Duration, is_hasty: bool) -> Result<Run, String> {
        let start = Instant::now();
        let told = |error| format!("{}: {error}", process::line(&Command::new("sh")));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(told)?;
        let output = child.stdout.take().expect("standard output is piped");
        let (sender, lines) = std::sync::mpsc::channel();
        // Not joined: what a test started may hold the pipe open.
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    break;
                }
            }
        });
        let (mut tests, mut failed) = (BTreeSet::new(), None);
        let late = loop {
            match lines.recv_timeout(wall.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    let Some((test, result)) = result(&line) else {
                        continue;
                    };
                    tests.insert(test.to_owned());
                    if result == "FAILED" {
                        failed.get_or_insert(test.to_owned());
                        if is_hasty {
                            break false;
                        }
                    }
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break true,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break false,
            }
        };
        let end = Self::end(&mut child, late, failed)?;
        drop(lines);
        Ok(Run { end, tests })
    }

    fn end(child: &mut Child, late: bool, failed: Option<String>) -> Result<End, String> {
        if late || failed.is_some() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        Ok(match failed {
            Some(test) => End::Failed(test),
            None if late || is_out_of_processor(status) => End::Late,
            None if status.success() => End::Passed,
            None => End::Failed(status.to_string()),
        })
    }
}

/// The name and the result of a test, from a line that a test program prints.
fn result(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((name, result.trim()))
}

#[cfg(unix)]
fn is_out_of_processor(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    // SIGXCPU; SIGKILL where both limits are the same.
    matches!(status.signal(), Some(24 | 9))
}

#[cfg(not(unix))]
fn is_out_of_processor(_: std::process::ExitStatus) -> bool {
    false
}

/// Time of the processor that ended children took, from `/proc`; 0 elsewhere.
fn processor_seconds_of_children() -> u64 {
    /// Linux tells every program 100 ticks a second.
    const TICKS: u64 = 100;
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name, which may have spaces, start with the third.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<_> = fields.split_whitespace().collect();
    let field = |number: usize| {
        let text = fields.get(number - 3);
        text.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
    };
    (field(16) + field(17)) / TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn the_first_failure_ends_a_run_and_names_its_test() {
        let script = "echo 'test a::b ... ok'; echo 'test a::c ... FAILED'; exec sleep 600";
        let run = Run::watch(shell(script), WALL_MIN, true).expect("sh runs");
        assert_eq!(run.end, End::Failed("a::c".to_owned()));
    }

    #[test]
    fn a_program_that_aborts_has_failed_and_one_that_spins_is_late() {
        let run = Run::watch(shell("kill -ABRT $$"), WALL_MIN, true).expect("sh runs");
        assert!(matches!(run.end, End::Failed(_)), "{run:?}");
        let spins = "ulimit -t 1; while :; do :; done";
        let run = Run::watch(shell(spins), WALL_MIN, true).expect("sh runs");
        assert_eq!(run.end, End::Late);
        let sleeps = Duration::from_millis(50);
        let run = Run::watch(shell("exec sleep 600"), sleeps, true).expect("sh runs");
        assert_eq!(run.end, End::Late);
    }

    #[test]
    fn results_are_read_from_lines_of_tests_only() {
        assert_eq!(result("test a::b ... ok"), Some(("a::b", "ok")));
        let panics = "test a - should panic ... FAILED";
        assert_eq!(result(panics), Some(("a", "FAILED")));
        assert_eq!(result("test result: ok. 3 passed"), None);
        assert_eq!(result("anything else"), None);
    }
}
