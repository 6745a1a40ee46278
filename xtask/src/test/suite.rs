//! Runs the tests of all crates.
//!
//! ```text
//!  crates with clocks and sockets ─► two programs at a time, the longest first
//!                                   │
//!                                   ▼
//!  tests that need the machine for themselves ─► one at a time ──────┐
//!  the other crates, documentation ─► beside them, at idle priority ─┴─► second tries, each alone
//! ```
//!
//! Tests with clocks and sockets keep the cores busy together, and those that need the machine for
//! themselves leave them idle for most of their time. The tests of the other crates only compute, no
//! clock tells them how long that takes, and at idle priority they give way at once.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::build::TestBuild;
use super::change::Change;
use super::program::{self, Conditions, Ran, at_idle_priority};
use super::report::Verdict;
use crate::executables::Executable;
use crate::summary::{Flaky, Tests};

/// Crates whose tests read no clock and open no socket, as the crates themselves.
const COMPUTING: [&str; 16] = [
    "glassline-cluster",
    "glassline-cluster-sim",
    "glassline-congestion",
    "glassline-demux",
    "glassline-fuzz",
    "glassline-hub",
    "glassline-media",
    "glassline-random",
    "glassline-rtp",
    "glassline-rtsp",
    "glassline-sctp",
    "glassline-sim",
    "glassline-transcode",
    "glassline-voice",
    "glassline-webrtc",
    "xtask",
];

/// Module of the tests that observe levels, losses or delays in real time, and have the machine for
/// themselves.
const ALONE: &str = "alone::";

/// Programs with clocks and sockets that run at a time. Each runs several tests at a time.
const AT_A_TIME: usize = 2;

/// Tests that may pass at their second try; more than these are no chance.
const FLAKY_MAX: usize = 3;

/// Failed tests above which there is no second try: the cause is one, and not chance.
const SECOND_TRIES_MAX: usize = 10;

/// A test that failed.
struct Failure<'a> {
    program: &'a Executable,
    name: String,
    output: String,
}

/// Counts and failures of the programs that have run so far.
#[derive(Default)]
struct Results<'a> {
    tests: Tests,
    failures: Vec<Failure<'a>>,
    /// Programs that did not come to their end; none of their tests is counted.
    died: Vec<Failure<'a>>,
    /// Failures that fail the run, each with its reason.
    problems: Vec<String>,
}

/// Runs all tests of `programs`, counts them in `tests`, and goes on after a failure. A failed test is
/// tried once more, alone, unless `change` touches it.
///
/// # Errors A test failed twice, or too many failed once; the text names all of them.
pub(super) fn run(
    build: &TestBuild,
    programs: &[Executable],
    conditions: Conditions,
    change: &Change,
    tests: &mut Tests,
) -> Result<(), String> {
    let programs = programs.iter().filter(|it| !it.is_bench);
    let (computing, waiting): (Vec<_>, Vec<_>) =
        programs.partition(|it| COMPUTING.contains(&it.package.as_str()));
    let results = Mutex::new(Results::default());
    let take = |program, ran| lock(&results).take(program, ran);
    let progress = Progress::default();
    together(&waiting, |program| {
        let command = program::command(program, &["--skip", ALONE], conditions);
        take(program, program::run(command, |line| progress.note(line)));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for program in computing {
                let command = at_idle_priority(&program::command(program, &[], conditions));
                take(program, program::run(command, |line| progress.note(line)));
            }
            let doc = build.cargo(&["test", "--workspace", "--no-fail-fast", "--doc"]);
            let ran = program::run(at_idle_priority(&doc), |line| progress.note(line));
            lock(&results).take_documentation(&ran);
        });
        for program in &waiting {
            for name in program::list(program, &[ALONE]).unwrap_or_default() {
                let command = program::command(program, &[&name, "--exact"], conditions);
                take(program, program::run(command, |_| ()));
            }
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.try_again(conditions, change);
    *tests = results.tests;
    match results.problems.is_empty() {
        true => Ok(()),
        false => Err(results.problems.join("\n    ")),
    }
}

/// Calls `run` for each program, a few at a time.
fn together<'a>(programs: &[&'a Executable], run: impl Fn(&'a Executable) + Sync) {
    let mut programs = programs.to_vec();
    // The product's own tests take longest, and the server's come next.
    let order = |it: &Executable| match (it.package.as_str(), it.is_unit) {
        ("glassline", false) => 0,
        ("glassline-server", _) => 1,
        _ => 2,
    };
    programs.sort_by_key(|it| (order(it), program::name(it)));
    let programs = Mutex::new(VecDeque::from(programs));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let next = || lock(&programs).pop_front();
                while let Some(program) = next() {
                    run(program);
                }
            });
        }
    });
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Results<'a> {
    /// Prints what a program printed, in one piece, so that lines of two programs do not mix.
    fn show(ran: &Ran) {
        println!("$ {}\n{}({:.1?})", ran.line, ran.printed, ran.took);
    }

    fn take(&mut self, program: &'a Executable, ran: Ran) {
        Self::show(&ran);
        if let Some(problem) = ran.problem {
            let name = program::name(program);
            println!("{name} {problem}");
            let output = problem;
            self.died.push(Failure {
                program,
                name,
                output,
            });
            return;
        }
        self.tests.add(&ran.report);
        self.failures
            .extend(ran.report.failed().map(|name| Failure {
                program,
                name: name.to_owned(),
                output: ran.report.output(name).to_owned(),
            }));
    }

    fn take_documentation(&mut self, ran: &Ran) {
        Self::show(ran);
        self.tests.add(&ran.report);
        for name in ran.report.failed() {
            self.tests.fail(name.to_owned());
            self.problems.push(format!("documentation: {name}"));
        }
        if let Some(problem) = &ran.problem {
            self.problems.push(format!("documentation: {problem}"));
        }
    }

    /// Tries failed tests once more, each alone on the machine, with other random cases.
    fn try_again(&mut self, conditions: Conditions, change: &Change) {
        let other = Conditions {
            seed: conditions.seed.wrapping_add(1),
            ..conditions
        };
        let too_many = self.failures.len() + self.died.len() > SECOND_TRIES_MAX;
        for failure in std::mem::take(&mut self.failures) {
            let name = &failure.name;
            let refusal = match (change.touches(name), too_many) {
                (true, _) => Some("this change touches it, so that it has no second try"),
                (_, true) => Some("too many failed for a second try"),
                _ => None,
            };
            let refusal = refusal.map(str::to_owned).or_else(|| {
                let ran = again(failure.program, &[name, "--exact"], other);
                let has_passed = ran.report.verdicts.get(name) == Some(&Verdict::Passed);
                (!has_passed).then(|| format!("failed twice:\n{}", ran.report.output(name)))
            });
            self.judge(failure, refusal, conditions.seed);
        }
        for failure in std::mem::take(&mut self.died) {
            let refusal = match too_many {
                true => Some("too many failed for a second try".to_owned()),
                false => {
                    let ran = again(failure.program, &["--skip", ALONE], other);
                    self.tests.add(&ran.report);
                    let failed = ran.report.failed().map(str::to_owned);
                    let why: Vec<String> = ran.problem.into_iter().chain(failed).collect();
                    (!why.is_empty()).then(|| format!("failed twice: {}", why.join(", ")))
                }
            };
            self.judge(failure, refusal, conditions.seed);
        }
        if self.tests.flaky().len() > FLAKY_MAX {
            let count = self.tests.flaky().len();
            self.problems.push(format!(
                "{count} tests passed at their second try only, and {FLAKY_MAX} may"
            ));
        }
    }

    /// Counts a failure as flaky, or as final for the reason `refusal`.
    fn judge(&mut self, failure: Failure<'_>, refusal: Option<String>, seed: u64) {
        let (name, output) = (failure.name, failure.output);
        match refusal {
            Some(reason) => {
                self.problems.push(format!("{name}: {reason}"));
                self.tests.fail(name);
            }
            None => self.tests.pass_at_second_try(Flaky { name, seed, output }),
        }
    }
}

/// Runs a part of a program again, and prints what it prints.
fn again(program: &Executable, arguments: &[&str], conditions: Conditions) -> Ran {
    println!("once more, alone:");
    let ran = program::run(program::command(program, arguments, conditions), |_| ());
    Results::show(&ran);
    ran
}

/// A line on a terminal that says how many tests are done.
#[derive(Default)]
struct Progress {
    done: Mutex<[u32; 2]>,
}

impl Progress {
    fn note(&self, line: &str) {
        if !line.starts_with("test ") || !std::io::stdout().is_terminal() {
            return;
        }
        let mut done = lock(&self.done);
        let [ended, failed] = &mut *done;
        *ended += u32::from(line.contains(" ... "));
        *failed += u32::from(line.ends_with("FAILED"));
        print!("\r{ended} tests, {failed} failed\x1b[K\r");
        let _ = std::io::stdout().flush();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use super::*;

    const CONDITIONS: Conditions = Conditions {
        with_peers: true,
        seed: 7,
    };

    /// A folder with a program whose only test, `a::NAME`, fails at its first runs. Removed when dropped.
    struct Unsteady {
        folder: PathBuf,
        program: Executable,
    }

    impl Unsteady {
        fn new(name: &str, failures: u32) -> Self {
            let id = std::process::id();
            let folder =
                std::env::temp_dir().join(format!("xtask-unsteady-{id}-{name}-{failures}"));
            fs::create_dir_all(&folder).expect("a folder");
            let script = format!(
                "#!/bin/sh\n\
                 runs=$(cat runs 2>/dev/null || echo 0); echo $((runs + 1)) > runs\n\
                 if [ $runs -ge {failures} ]; then\n\
                 echo 'test a::{name} ... ok'; echo 'test result: ok.'; exit\n\
                 fi\n\
                 echo 'test a::{name} ... FAILED'\n\
                 printf 'failures:\\n\\n---- a::{name} stdout ----\\nno camera\\n\\n'\n\
                 echo 'test result: FAILED.'; exit 101\n"
            );
            let path = folder.join("program");
            fs::write(&path, script).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
            let program = Executable {
                package: "unsteady".to_owned(),
                target: "unsteady".to_owned(),
                is_bench: false,
                is_unit: true,
                path,
                folder: folder.clone(),
            };
            Self { folder, program }
        }
    }

    impl Drop for Unsteady {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    /// Runs the programs and tries again what failed; returns the problems and the flaky tests.
    fn judged(programs: &[Unsteady], change: &Change) -> (Vec<String>, Vec<String>) {
        let mut results = Results::default();
        for unsteady in programs {
            let command = program::command(&unsteady.program, &[], CONDITIONS);
            results.take(&unsteady.program, program::run(command, |_| ()));
        }
        results.try_again(CONDITIONS, change);
        let flaky = results.tests.flaky();
        let flaky = flaky
            .iter()
            .map(|it| format!("{} {} {}", it.name, it.seed, it.output));
        (results.problems, flaky.collect())
    }

    #[test]
    fn a_test_that_passes_at_its_second_try_is_listed_with_seed_and_output() {
        let (problems, flaky) = judged(&[Unsteady::new("once", 1)], &Change::default());
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(flaky, ["a::once 7 no camera"]);
    }

    #[test]
    fn a_test_that_fails_twice_fails_the_run() {
        let (problems, flaky) = judged(&[Unsteady::new("never", 2)], &Change::default());
        assert_eq!(problems, ["a::never: failed twice:\nno camera"]);
        assert!(flaky.is_empty());
    }

    #[test]
    fn a_test_that_the_change_touches_has_no_second_try() {
        let unsteady = Unsteady::new("touched", 1);
        let (problems, _) = judged(&[unsteady], &Change::of(&["touched"]));
        assert!(problems[0].contains("no second try"), "{problems:?}");
    }

    #[test]
    fn more_than_three_second_tries_fail_the_run() {
        let programs = ["b", "c", "d", "e"].map(|name| Unsteady::new(name, 1));
        let (problems, flaky) = judged(&programs[..3], &Change::default());
        assert!(problems.is_empty() && flaky.len() == 3, "{problems:?}");
        let programs = ["f", "g", "h", "i"].map(|name| Unsteady::new(name, 1));
        let (problems, flaky) = judged(&programs, &Change::default());
        assert_eq!((problems.len(), flaky.len()), (1, 4), "{problems:?}");
    }

    #[test]
    fn a_program_that_dies_is_run_again() {
        let unsteady = Unsteady::new("dies", 0);
        let path: &Path = &unsteady.program.path;
        let script = "#!/bin/sh\nif [ -e ran ]; then echo 'test a ... ok'; echo 'test result: ok.'\n\
                      else touch ran; kill -9 $$; fi\n";
        fs::write(path, script).expect("a file");
        let (problems, flaky) = judged(&[unsteady], &Change::default());
        assert_eq!(problems, Vec::<String>::new());
        assert!(flaky[0].contains("signal: 9"), "{flaky:?}");
    }
}
