//! What a test program printed: a verdict for each test, and the output of those that failed.

use std::collections::BTreeMap;

/// Verdicts of one run of a test program.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) verdicts: BTreeMap<String, Verdict>,
    /// Output of each failed test, as far as the program printed it.
    outputs: BTreeMap<String, String>,
    /// Tests that the program itself left out, each with the reason.
    pub(crate) skips: Vec<String>,
    /// Whether the program came to its end, and printed its result.
    pub(crate) has_ended: bool,
}

/// The verdict on a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// The test did not run; the reason is empty if the program gave none.
    Ignored(String),
}

impl Report {
    /// Reads what a program printed: that of the standard harness, or of libtest-mimic.
    pub(crate) fn read(printed: &str) -> Self {
        let mut report = Self::default();
        let mut of_output: Option<String> = None;
        for line in printed.lines() {
            if let Some(name) = header(line) {
                of_output = Some(name.to_owned());
            } else if line == "failures:" || line.starts_with("test result: ") {
                of_output = None;
                report.has_ended |= line.starts_with("test result: ");
            } else if let Some(name) = &of_output {
                let output = report.outputs.entry(name.clone()).or_default();
                output.push_str(line);
                output.push('\n');
            } else if let Some(skip) = line.strip_prefix("skipped ") {
                report.skips.push(skip.to_owned());
            } else if let Some((name, verdict)) = verdict(line) {
                report.verdicts.insert(name, verdict);
            }
        }
        report
    }

    /// Names of the tests that failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &str> {
        let failed = |it: &(&String, &Verdict)| *it.1 == Verdict::Failed;
        let failed = self.verdicts.iter().filter(failed);
        failed.map(|(name, _)| name.as_str())
    }

    /// Number of tests that passed.
    pub(crate) fn passed(&self) -> usize {
        let passed = |it: &&Verdict| **it == Verdict::Passed;
        self.verdicts.values().filter(passed).count()
    }

    /// Output of a failed test.
    pub(crate) fn output(&self, name: &str) -> &str {
        self.outputs.get(name).map_or("", |it| it.trim())
    }
}

/// Whether a test is the long form of another, which only `cargo xtask soak` runs: those are ignored,
/// and in a module `soak`.
pub(crate) fn is_long(name: &str) -> bool {
    name.split("::").any(|it| it == "soak")
}

/// The test whose output begins: `---- NAME stdout ----`, or without the word.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

/// A line such as `test NAME ... ok`, in which names may be padded.
fn verdict(line: &str) -> Option<(String, Verdict)> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let verdict = match verdict {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        "ignored" => Verdict::Ignored(String::new()),
        other => Verdict::Ignored(other.strip_prefix("ignored, ")?.to_owned()),
    };
    let name = name.trim_end();
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((name.to_owned(), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the standard harness prints it.
    const STANDARD: &str = "\
running 4 tests
test units::a ... ok
test units::b ... FAILED
test units::c ... ignored, needs a camera
test units::d - should panic ... ok

failures:

---- units::b stdout ----
thread 'units::b' panicked at src/units.rs:7:9:
test of lines ... ok
no unit

failures:
    units::b

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
";

    /// As libtest-mimic prints it.
    const MIMIC: &str = "\
skipped browser::plays: chromium is not installed

running 3 tests
test browser::plays     ... ignored
test files::play        ... ok
test files::are_refused ... FAILED

failures:

---- files::are_refused ----
404 instead of 400

failures:
    files::are_refused

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s
";

    #[test]
    fn verdicts_and_outputs_of_both_harnesses_are_read() {
        let report = Report::read(STANDARD);
        assert!(report.has_ended);
        assert_eq!(report.passed(), 2);
        assert_eq!(report.failed().collect::<Vec<_>>(), ["units::b"]);
        assert!(report.output("units::b").ends_with("... ok\nno unit"));
        let ignored = Verdict::Ignored("needs a camera".to_owned());
        assert_eq!(report.verdicts["units::c"], ignored);
        assert!(report.verdicts.contains_key("units::d"));

        let report = Report::read(MIMIC);
        assert!(report.has_ended);
        assert_eq!(report.verdicts["files::play"], Verdict::Passed);
        assert_eq!(report.output("files::are_refused"), "404 instead of 400");
        assert_eq!(report.skips, ["browser::plays: chromium is not installed"]);
    }

    #[test]
    fn a_program_that_died_has_no_end() {
        let (begin, _) = STANDARD.split_once("\nfailures").expect("failures");
        assert!(!Report::read(begin).has_ended);
        assert!(!Report::read("").has_ended);
    }
}
