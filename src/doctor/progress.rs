//! The line on a terminal that shows what is being checked.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// Time between two positions of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// Names of the checks under way, redrawn on stderr; nothing where stderr is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    running: Mutex<Vec<&'static str>>,
}

impl Progress {
    pub(super) fn start(quiet: bool) -> Self {
        let is_shown = !quiet && std::io::stderr().is_terminal();
        let bar = is_shown.then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} checking {msg}");
            bar.set_style(style.expect("a valid template"));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            running: Mutex::default(),
        }
    }

    /// Shows the name of a check that begins.
    pub(super) fn begin(&self, name: &'static str) {
        self.change(|running| running.push(name));
    }

    /// Removes the name of a check that has ended.
    pub(super) fn end(&self, name: &'static str) {
        self.change(|running| running.retain(|it| *it != name));
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<&'static str>)) {
        let Some(bar) = &self.bar else {
            return;
        };
        let mut running = self.running.lock();
        change(&mut running);
        bar.set_message(running.join(", "));
    }
}
