use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::result_table::{commit, today};

/// State of libFuzzer, from its output.
pub(super) struct Progress {
    target: String,
    started: Instant,
    shown: Option<Instant>,
    runs: u64,
    coverage_first: u64,
    coverage: u64,
    corpus: u64,
    artifact: Option<String>,
    /// CPU time that the target has used; `None` where the system does not say.
    cpu_time: Option<Duration>,
    /// The last lines, shown after a crash.
    tail: Vec<String>,
    /// Whether the line is redrawn on a terminal, as only one target at a time can.
    redraws: bool,
}

impl Progress {
    pub(super) fn start(target: &str, alone: bool) -> Progress {
        Progress {
            target: target.to_owned(),
            started: Instant::now(),
            shown: None,
            runs: 0,
            coverage_first: 0,
            coverage: 0,
            corpus: 0,
            artifact: None,
            cpu_time: None,
            tail: Vec::new(),
            redraws: alone && std::io::stdout().is_terminal(),
        }
    }

    /// Reads a line of libFuzzer: `#1907 NEW cov: 10 ft: 10 corp: 3/15b …`, the name of an
    /// artifact, or other text.
    pub(super) fn read_line(&mut self, line: &str) {
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
        let on_terminal = self.redraws;
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
    pub(super) fn verdict(self, succeeded: bool, again: &str) -> Result<String, String> {
        if self.redraws {
            println!();
        }
        if !succeeded {
            return Err(self.breakage(again));
        }
        if self.coverage == 0 {
            return Err(format!("{}: no coverage was measured", self.target));
        }
        Ok(self.counts())
    }

    /// The breakage, after the last lines of the target were printed.
    pub(super) fn breakage(&self, again: &str) -> String {
        println!("{}", self.tail.join("\n"));
        let target = &self.target;
        match &self.artifact {
            Some(path) => format!("{target} broke: {path}\n    again: {again} {path}"),
            None => format!("{target} broke and left no input"),
        }
    }

    /// Sets the number of inputs that are kept after the corpus was minimized.
    pub(super) fn set_corpus(&mut self, inputs: u64) {
        self.corpus = inputs;
    }

    /// Sets the CPU time that the target has used so far.
    pub(super) fn set_cpu_time(&mut self, used: Option<Duration>) {
        self.cpu_time = used.or(self.cpu_time);
    }

    /// Row of the table for a run that took `took`.
    pub(super) fn row(&self, took: Duration, findings: u64) -> Vec<String> {
        // A machine that does other things as well gives a target less than a second of a core for
        // each second.
        let cpu_seconds = self.cpu_time.unwrap_or(took).as_secs_f64().max(0.01);
        let per_second = (self.runs as f64 / cpu_seconds) as u64;
        let numbers = [self.runs, per_second, self.coverage, self.corpus, findings];
        let mut row = vec![self.target.clone()];
        row.extend(numbers.map(|it| it.to_string()));
        let minutes = format!("{:.1}", took.as_secs_f64() / 60.0);
        row.extend([minutes, today(), commit()]);
        row
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

    #[test]
    fn growth_of_coverage_is_reported() {
        let mut progress = Progress::start("toy", false);
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
    fn a_row_has_the_minutes_that_the_target_ran() {
        let mut progress = Progress::start("toy", false);
        progress.read_line("#5000\tDONE   cov: 12 ft: 12 corp: 5/29b lim: 4096");
        for (seconds, minutes) in [(30, "0.5"), (62, "1.0"), (122, "2.0"), (600, "10.0")] {
            let row = progress.row(Duration::from_secs(seconds), 0);
            assert_eq!(row[6], minutes, "{seconds} s");
        }
        progress.set_cpu_time(Some(Duration::from_millis(2_500)));
        progress.set_cpu_time(None);
        let row = progress.row(Duration::from_secs(60), 0);
        assert_eq!(row[1..3], ["5000", "2000"], "runs, per CPU second");
    }

    #[test]
    fn a_crash_names_its_artefact() {
        let mut progress = Progress::start("toy", false);
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
        assert!(Progress::start("toy", false).verdict(true, "toy").is_err());
    }
}
