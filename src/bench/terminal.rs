//! Display of a run of `bench viewers`: finished steps are lines of a table. On a terminal, the
//! running step and the time left are shown below them.

use std::io::IsTerminal as _;
use std::time::Duration;

use glassline_lab::viewers::plan::Plan;
use glassline_lab::viewers::report::table::{Running, Style};
use glassline_lab::viewers::report::{Report, csv};
use glassline_lab::viewers::run::{Progress, Watcher};
use glassline_lab::viewers::step::Step;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::files::Output;
use crate::exit::Failure;
use crate::{logging, output};

/// Watches a run for the user: prints the table, writes the CSV file, shows the progress.
pub(super) struct Terminal {
    lines: Lines,
    style: Style,
    live: Option<Live>,
    csv: Option<Output>,
    /// First failure of a write. The run goes on; the failure is reported at its end.
    failure: Option<Failure>,
}

/// Destination of the table's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Stdout,
    /// Stderr, because stdout carries a file.
    Stderr,
    Nowhere,
}

/// The part of the display that is redrawn, on stderr.
struct Live {
    all: MultiProgress,
    step: ProgressBar,
    ramp: ProgressBar,
}

impl Terminal {
    /// `stdout_is_taken`: one of the run's files is written to stdout.
    pub(super) fn new(quiet: bool, stdout_is_taken: bool, csv: Option<Output>) -> Self {
        let stderr_is_terminal = std::io::stderr().is_terminal();
        let lines = match (quiet, stdout_is_taken) {
            (true, _) => Lines::Nowhere,
            (false, false) => Lines::Stdout,
            (false, true) if stderr_is_terminal => Lines::Stderr,
            (false, true) => Lines::Nowhere,
        };
        let color = match lines {
            Lines::Stdout => logging::color(&std::io::stdout()),
            _ => logging::color(&std::io::stderr()),
        };
        Self {
            lines,
            style: Style { color },
            live: (stderr_is_terminal && !quiet).then(|| Live::new(color)),
            csv,
            failure: None,
        }
    }

    /// Prints what will be measured, and the table's head.
    pub(super) fn begin(&mut self, plan: &Plan) {
        let steps = plan.ramp.steps().len();
        self.line(&format!(
            "{} ({}), {steps} {} up to {} viewers",
            plan.endpoint,
            plan.protocol(),
            if steps == 1 { "step" } else { "steps" },
            plan.ramp.end()
        ));
        self.line(&self.style.head());
        self.write_csv(csv::HEADER);
    }

    /// Clears the part of the display that is redrawn.
    pub(super) fn end(&mut self) {
        if let Some(live) = self.live.take() {
            live.step.finish_and_clear();
            live.ramp.finish_and_clear();
        }
    }

    /// Prints the floor, if it was measured, and the verdict.
    pub(super) fn conclude(&mut self, report: &Report) {
        if let Some(floor) = &report.floor {
            self.line("");
            self.line(&self.style.floor(floor, &report.steps));
        }
        self.line("");
        self.line(&self.style.verdict(&report.verdict));
    }

    /// Returns the first failure of a write, if there was one.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }

    fn line(&mut self, text: &str) {
        let text = format!("{text}\n");
        let lines = self.lines;
        let print = || match lines {
            Lines::Stdout => output::print_styled(&text),
            Lines::Stderr => {
                eprint!("{}", output::styled(&text));
                Ok(())
            }
            Lines::Nowhere => Ok(()),
        };
        let printed = match &self.live {
            Some(live) => live.all.suspend(print),
            None => print(),
        };
        self.note(printed);
    }

    fn write_csv(&mut self, text: &str) {
        if let Some(csv) = &mut self.csv {
            let written = csv.write(text);
            self.note(written);
        }
    }

    /// Keeps the first failure, to report it at the end.
    fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }
}

impl Watcher for Terminal {
    fn running(&mut self, now: &Running, progress: Progress) {
        if let Some(live) = &self.live {
            live.step.set_message(self.style.running(now));
            let step = format!("step {} of {}", progress.steps_done + 1, progress.steps);
            live.show(progress, &step);
        }
    }

    fn row(&mut self, row: &csv::Row) {
        self.write_csv(&row.line());
    }

    fn step(&mut self, step: &Step) {
        self.line(&self.style.step(step));
        if let Some(line) = self.style.hindrance(step) {
            self.line(&line);
        }
    }

    fn floor(&mut self, viewers: usize, progress: Progress) {
        if let Some(live) = &self.live {
            let text = format!("the floor for {viewers} viewers");
            live.step.set_message(text);
            let step = format!("floor {} of {}", progress.steps_done + 1, progress.steps);
            live.show(progress, &step);
        }
    }
}

/// A progress bar on stderr; `None` when `quiet`, or where stderr is no terminal.
pub(super) fn bar(quiet: bool) -> Option<ProgressBar> {
    let stderr = std::io::stderr();
    (!quiet && stderr.is_terminal())
        .then(|| ProgressBar::new(1).with_style(bar_style(logging::color(&stderr))))
}

/// Shows on the bar how many runs of all are done.
pub(super) fn show_runs(bar: Option<&ProgressBar>, done: usize, all: usize) {
    if let Some(bar) = bar {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{done} of {all} runs"));
    }
}

fn bar_style(color: bool) -> ProgressStyle {
    drawn(if color {
        "{bar:46.cyan/dim} {msg}"
    } else {
        "{bar:46} {msg}"
    })
}

fn drawn(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("a template of ours")
        .progress_chars("━╸─")
}

/// Resolution of the bar: tenths of a second, so that it moves with time and not by steps.
const TICKS_PER_SECOND: u128 = 10;

impl Live {
    fn new(color: bool) -> Self {
        let all = MultiProgress::new();
        let add = |style| all.add(ProgressBar::new(1).with_style(style));
        let step = add(drawn("{msg}"));
        let ramp = add(bar_style(color));
        Self { all, step, ramp }
    }

    fn show(&self, progress: Progress, step: &str) {
        let ticks = |time: Duration| {
            let ticks = time.as_millis() * TICKS_PER_SECOND / 1000;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        self.ramp
            .set_length(ticks(progress.elapsed + progress.left).max(1));
        self.ramp.set_position(ticks(progress.elapsed));
        let left = progress.left.as_secs();
        self.ramp
            .set_message(format!("{step}, {}:{:02} left", left / 60, left % 60));
    }
}
