//! Summary of a recipe: its steps, their results and durations.

use std::time::{Duration, Instant};

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

/// Counts of single tests, added up over all test binaries of a step.
#[derive(Default)]
pub(crate) struct Tests {
    passed: u32,
    failed: u32,
    skipped: u32,
    failed_names: Vec<String>,
    skipped_names: Vec<String>,
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
    fn totals(&self) -> (u32, u32, u32) {
        let mut totals = (0, 0, 0);
        for step in &self.steps {
            let tests = &step.tests;
            totals.0 += tests.passed;
            totals.1 += tests.failed;
            totals.2 += tests.skipped;
            match step.outcome {
                Outcome::Passed | Outcome::PassedWith(_) if tests.is_empty() => totals.0 += 1,
                Outcome::Failed(_) if tests.failed == 0 => totals.1 += 1,
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
                tests.passed, tests.failed, tests.skipped
            ),
        };
        let took = spell(self.took);
        println!("  {word:<8} {:<14} {took:>10}   {counts}", self.name);
        if !reason.is_empty() {
            println!("    {reason}");
        }
        for name in &self.tests.failed_names {
            println!("    FAILED   {name}");
        }
        for name in &self.tests.skipped_names {
            println!("    skipped  {name}");
        }
    }
}

impl Tests {
    /// Reads one line that a test binary printed.
    ///
    /// Test binaries of this project announce a skip as `skipped NAME: REASON`;
    /// the standard harness says `test NAME ... ignored, REASON`.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count_before(result, " passed");
            self.failed += count_before(result, " failed");
            self.skipped += count_before(result, " ignored");
        } else if let Some(skip) = line.strip_prefix("skipped ") {
            self.skipped_names.push(skip.to_owned());
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.failed_names.push(name.trim_end().to_owned());
            } else if let Some((name, reason)) = test.split_once(" ... ignored, ") {
                self.skipped_names.push(format!("{name}: {reason}"));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.passed + self.failed + self.skipped == 0
    }
}

/// The number right before `word`: 4 in `ok. 4 passed; 0 failed`.
fn count_before(result: &str, word: &str) -> u32 {
    result
        .split_once(word)
        .and_then(|(before, _)| before.rsplit(' ').next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
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

    #[test]
    fn counts_add_up_over_test_binaries() {
        let mut tests = Tests::default();
        for line in [
            "running 3 tests",
            "test units::a ... ok",
            "test units::b ... FAILED",
            "test units::c ... ignored, needs a camera",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
            "skipped browser::plays: chromium is not installed",
            "test result: ok. 40 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
        ] {
            tests.read_line(line);
        }
        assert_eq!((tests.passed, tests.failed, tests.skipped), (41, 1, 2));
        assert_eq!(tests.failed_names, ["units::b"]);
        assert_eq!(
            tests.skipped_names,
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
            tests.read_line("test result: FAILED. 5 passed; 2 failed; 1 ignored");
            Outcome::Failed("cargo test ended with 101".to_owned())
        });
        assert_eq!(summary.totals(), (5, 2, 1));
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(spell(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(spell(Duration::from_secs(372)), "6 min 12 s");
    }
}
