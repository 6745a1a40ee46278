//! Summary of a recipe: its steps, their results and durations.

use std::time::{Duration, Instant};

use crate::test::report::{self, Report, Verdict};

/// Result of one step.
pub(crate) enum Outcome {
    Passed,
    /// The step passed, with a remark.
    PassedWith(String),
    /// The step failed, for this reason.
    Failed(String),
    /// The step was skipped; the text says what is missing and how to get it.
    Skipped(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Outcome {
        match result {
            Ok(()) => Outcome::Passed,
            Err(reason) => Outcome::Failed(reason),
        }
    }
}

impl Outcome {
    fn text(&self) -> &str {
        match self {
            Outcome::Passed => "",
            Outcome::PassedWith(text) | Outcome::Failed(text) | Outcome::Skipped(text) => text,
        }
    }
}

/// Counts of single tests, added up over all test programs of a step.
#[derive(Default)]
pub(crate) struct Tests {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
    skips: Vec<String>,
    /// Number of long forms, which `cargo xtask soak` runs.
    long: usize,
    flaky: Vec<Flaky>,
}

/// A test that failed, and passed when it was tried once more.
pub(crate) struct Flaky {
    pub(crate) name: String,
    /// Seed of the property tests of the run in which the test failed.
    pub(crate) seed: u64,
    /// Output of the failed run.
    pub(crate) output: String,
}

/// Steps of a recipe so far.
pub(crate) struct Summary {
    started: Instant,
    steps: Vec<Step>,
}

struct Step {
    name: String,
    outcome: Outcome,
    tests: Tests,
    took: Duration,
}

impl Summary {
    pub(crate) fn start() -> Summary {
        Summary {
            started: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Runs one step and keeps its result; a failed step does not stop the next.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce(&mut Tests) -> Outcome) {
        println!("\n── {name}");
        let begun = Instant::now();
        let mut tests = Tests::default();
        let outcome = work(&mut tests);
        if !outcome.text().is_empty() {
            println!("{}", outcome.text());
        }
        self.steps.push(Step {
            name: name.to_owned(),
            outcome,
            tests,
            took: begun.elapsed(),
        });
    }

    /// Prints all steps and the total.
    ///
    /// # Errors
    /// Something failed; the text names the steps.
    pub(crate) fn finish(self) -> Result<(), String> {
        println!("\n── summary");
        for step in &self.steps {
            step.print();
        }
        let (passed, failed, skipped) = self.totals();
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
        println!("took {}", spell(self.started.elapsed()));
        let broken: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Failed(_)))
            .map(|step| step.name.as_str())
            .collect();
        if broken.is_empty() {
            Ok(())
        } else {
            Err(format!("failed: {}", broken.join(", ")))
        }
    }

    /// Numbers of passed, failed and skipped items: the tests of a step that counted tests, else
    /// the step itself. A step that failed without a failed test (it did not compile) counts too.
    fn totals(&self) -> (usize, usize, usize) {
        let mut totals = (0, 0, 0);
        for step in &self.steps {
            let tests = &step.tests;
            totals.0 += tests.passed;
            totals.1 += tests.failed.len();
            totals.2 += tests.skipped;
            match step.outcome {
                Outcome::Passed | Outcome::PassedWith(_) if tests.is_empty() => totals.0 += 1,
                Outcome::Failed(_) if tests.failed.is_empty() => totals.1 += 1,
                Outcome::Skipped(_) => totals.2 += 1,
                _ => {}
            }
        }
        totals
    }
}

impl Step {
    fn print(&self) {
        let word = match &self.outcome {
            Outcome::Passed | Outcome::PassedWith(_) => "ok",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        let reason = self.outcome.text();
        let counts = match &self.tests {
            tests if tests.is_empty() => String::new(),
            tests => format!(
                "{} passed, {} failed, {} skipped",
                tests.passed,
                tests.failed.len(),
                tests.skipped
            ),
        };
        let took = spell(self.took);
        println!("  {word:<8} {:<14} {took:>10}   {counts}", self.name);
        if !reason.is_empty() {
            println!("    {reason}");
        }
        for name in &self.tests.failed {
            println!("    FAILED   {name}");
        }
        for flaky in &self.tests.flaky {
            flaky.print();
        }
        for name in &self.tests.skips {
            println!("    skipped  {name}");
        }
        if self.tests.long > 0 {
            println!(
                "    {} long forms are left to `cargo xtask soak`",
                self.tests.long
            );
        }
    }
}

impl Flaky {
    /// Lines of the output that the summary repeats; the first ones name the place.
    const LINES: usize = 40;

    fn print(&self) {
        println!("    FLAKY    {} (seed {})", self.name, self.seed);
        println!(
            "             passed when tried once more, alone; mend this test next. Its output:"
        );
        for line in self.output.lines().take(Self::LINES) {
            println!("               {line}");
        }
    }
}

impl Tests {
    /// Adds what a program has printed, but not its failures: each is judged, by [`Tests::fail`] or
    /// [`Tests::pass_at_second_try`].
    pub(crate) fn add(&mut self, report: &Report) {
        self.passed += report.passed();
        for skip in &report.skips {
            // A program that runs its tests in several parts tells of its skips each time.
            if !self.skips.contains(skip) {
                self.skips.push(skip.clone());
            }
        }
        for (name, verdict) in &report.verdicts {
            let Verdict::Ignored(reason) = verdict else {
                continue;
            };
            if report::is_long(name) {
                self.long += 1;
                continue;
            }
            self.skipped += 1;
            if !reason.is_empty() {
                self.skips.push(format!("{name}: {reason}"));
            }
        }
    }

    /// Counts a test that failed for good.
    pub(crate) fn fail(&mut self, name: String) {
        self.failed.push(name);
    }

    /// Counts a test that passed when it was tried once more.
    pub(crate) fn pass_at_second_try(&mut self, flaky: Flaky) {
        self.passed += 1;
        self.flaky.push(flaky);
    }

    /// Returns the tests that passed at their second try only.
    pub(crate) fn flaky(&self) -> &[Flaky] {
        &self.flaky
    }

    fn is_empty(&self) -> bool {
        self.passed + self.failed.len() + self.skipped == 0
    }
}

fn spell(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        let whole = duration.as_secs();
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Report {
        Report::read(&lines.join("\n"))
    }

    #[test]
    fn counts_add_up_over_test_programs() {
        let mut tests = Tests::default();
        tests.add(&report(&[
            "test units::a ... ok",
            "test units::b ... FAILED",
            "test units::c ... ignored, needs a camera",
            "test units::soak::d ... ignored, ten minutes",
        ]));
        tests.add(&report(&[
            "skipped browser::plays: chromium is not installed",
            "test browser::plays ... ignored",
            "test browser::opens ... ok",
            "test soak::browser::plays ... ignored",
        ]));
        tests.fail("units::b".to_owned());
        let flaky = Flaky {
            name: "units::e".to_owned(),
            seed: 7,
            output: "no".to_owned(),
        };
        tests.pass_at_second_try(flaky);
        assert_eq!((tests.passed, tests.skipped, tests.long), (3, 2, 2));
        assert_eq!(tests.failed, ["units::b"]);
        assert_eq!(
            tests.skips,
            [
                "units::c: needs a camera",
                "browser::plays: chromium is not installed"
            ]
        );
    }

    #[test]
    fn a_step_that_does_not_compile_counts_as_one_failure() {
        let mut summary = Summary::start();
        summary.step("formatting", |_| Outcome::Passed);
        summary.step("tests", |_| Outcome::Failed("does not compile".to_owned()));
        summary.step("deny", |_| Outcome::Skipped("not installed".to_owned()));
        assert_eq!(summary.totals(), (1, 1, 1));
        assert!(summary.finish().is_err());
    }

    #[test]
    fn a_step_with_tests_is_counted_by_its_tests() {
        let mut summary = Summary::start();
        summary.step("tests", |tests| {
            tests.add(&report(&[
                "test a ... ok",
                "test b ... ok",
                "test c ... ignored",
            ]));
            tests.fail("d".to_owned());
            Outcome::Failed("cargo test ended with 101".to_owned())
        });
        assert_eq!(summary.totals(), (2, 1, 1));
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(spell(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(spell(Duration::from_secs(372)), "6 min 12 s");
    }
}
