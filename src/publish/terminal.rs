//! Display of a published stream: notes in the log, and on a terminal one line that is redrawn.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use glassline_client::publish::session::{Figures, Watcher};
use indicatif::{ProgressBar, ProgressStyle};

use super::report::Report;

/// Watches a stream for the user: writes the report, redraws the line.
pub(super) struct Terminal {
    line: Option<ProgressBar>,
    report: Report,
    last: Figures,
    /// Goodput, smoothed over about a second.
    rate_mbps: f64,
}

impl Terminal {
    pub(super) fn new(quiet: bool, report: Report) -> Self {
        let wanted = std::io::stderr().is_terminal() && !quiet;
        // CSV rows on the same terminal would be overwritten by the line.
        let taken = report.is_on_stdout() && std::io::stdout().is_terminal();
        let line = (wanted && !taken).then(|| {
            let style = ProgressStyle::with_template("{wide_msg}").expect("a template of ours");
            ProgressBar::new_spinner().with_style(style)
        });
        Self {
            line,
            report,
            last: Figures::default(),
            rate_mbps: 0.0,
        }
    }

    /// Clears the redrawn line, and returns the report.
    pub(super) fn end(self) -> Report {
        if let Some(line) = self.line {
            line.finish_and_clear();
        }
        self.report
    }
}

impl Watcher for Terminal {
    fn note(&mut self, text: &str) {
        let print = || tracing::info!("{text}");
        match &self.line {
            Some(line) => line.suspend(print),
            None => print(),
        }
    }

    fn figures(&mut self, figures: &Figures) {
        self.report.take(figures);
        let elapsed = figures.elapsed.saturating_sub(self.last.elapsed);
        let handed = figures.handed_bytes.saturating_sub(self.last.handed_bytes);
        if !elapsed.is_zero() {
            let rate = handed as f64 * 8e-6 / elapsed.as_secs_f64();
            self.rate_mbps += (rate - self.rate_mbps) * 0.3;
        }
        self.last = figures.clone();
        if let Some(line) = &self.line {
            line.set_message(describe(figures, self.rate_mbps));
        }
    }
}

/// The line, as `0:42  1.92 Mbit/s of 2.10, path 2.44  rtt 23 ms, app 61 ms  waiting 3 kB, 12
/// ms`.
fn describe(figures: &Figures, rate_mbps: f64) -> String {
    let seconds = figures.elapsed.as_secs();
    let mut out = format!("{}:{:02}  ", seconds / 60, seconds % 60);
    let mut add = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a string takes everything");
    };
    if !figures.connected {
        add(format_args!("not connected"));
    } else if !figures.path.is_wanted {
        add(format_args!("connected, the server has not subscribed yet"));
    } else {
        add(format_args!(
            "{rate_mbps:.2} Mbit/s of {:.2}",
            figures.target.mbps()
        ));
        if let Some(deliverable) = figures.deliverable {
            add(format_args!(", path {:.2}", deliverable.mbps()));
        }
    }
    if let Some(rtt) = figures.path.transport_rtt {
        add(format_args!("  rtt {}", millis(rtt)));
    }
    if let Some(rtt) = figures.path.app_rtt {
        add(format_args!(", app {}", millis(rtt)));
    }
    let backlog = figures.backlog_bytes.div_ceil(1000);
    let delay = millis(figures.queue_delay);
    add(format_args!("  waiting {backlog} kB, {delay}"));
    let dropped = figures.dropped.units();
    for (count, what) in [
        (dropped, "dropped"),
        (figures.raw_dropped, "raw dropped"),
        (figures.skipped, "skipped"),
    ] {
        if count > 0 {
            add(format_args!("  {what} {count}"));
        }
    }
    out
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Bitrate;

    #[test]
    fn the_line_says_what_is_known_and_nothing_else() {
        let mut figures = Figures::default();
        figures.elapsed = Duration::from_secs(62);
        assert_eq!(
            describe(&figures, 0.0),
            "1:02  not connected  waiting 0 kB, 0 ms"
        );
        figures.connected = true;
        figures.path.is_wanted = true;
        figures.target = Bitrate::from_bps(2_100_000);
        figures.deliverable = Some(Bitrate::from_bps(2_440_000));
        figures.path.transport_rtt = Some(Duration::from_millis(23));
        figures.path.app_rtt = Some(Duration::from_millis(61));
        figures.backlog_bytes = 2500;
        figures.queue_delay = Duration::from_millis(12);
        figures.dropped.late_units = 4;
        let expected = "1:02  1.92 Mbit/s of 2.10, path 2.44  rtt 23 ms, app 61 ms  \
                        waiting 3 kB, 12 ms  dropped 4";
        assert_eq!(describe(&figures, 1.92), expected);
    }
}
