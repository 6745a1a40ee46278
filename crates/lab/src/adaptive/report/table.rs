//! The report as text: a table for people, and CSV.

use std::fmt::Write as _;

use super::{Report, RunReport, Verdict};

/// Columns of the table.
const HEAD: &str = "case      arm     use   sent  queue  loss   shown  stall  freezes  torn  switches  delay  padding   fit  best";
/// Units of the columns.
const UNITS: &str = "                  %  Mbit/s    ms     %       %     ms        n     n         n     ms        %     s     s";

/// Columns of the CSV file.
const CSV: &str = "case,arm,seed,viewer,use_ratio,fitting_ratio,sent_mbps,received_mbps,layer_ratio,queue_ms_p95,loss_ratio,loss_late_ratio,wait_ms_p99,fps_min,shown_ratio,stall_ms_max,freezes,frozen_s,torn,abandoned,delay_ms_p50,delay_ms_p95,switches,keyframes_asked,padding_ratio,first_frame_ms,fit_s,rise_s\n";

impl Report {
    /// Returns the table, and the targets that were missed.
    ///
    /// # Panics
    /// Never: a string takes all that is written.
    pub fn to_table(&self) -> String {
        let mut out = format!("{HEAD}\n{UNITS}\n");
        for case in &self.cases {
            for (place, arm) in case.arms.iter().enumerate() {
                let name = if place == 0 { case.name } else { "" };
                let mean = &arm.mean;
                writeln!(
                    out,
                    "{name:<9} {:<6} {:>4.0}  {:>5.2} {:>6.0}  {:>4.1}   {:>5.1} {:>6.0} {:>8.1} {:>5.1} {:>9.1}  {:>5.0} {:>8.1} {:>5} {:>5}",
                    arm.arm,
                    mean.use_ratio * 100.0,
                    mean.sent_mbps,
                    mean.queue_ms_p95,
                    mean.loss_ratio * 100.0,
                    mean.shown_ratio * 100.0,
                    arm.stall_ms_max,
                    mean.freezes,
                    mean.torn,
                    mean.switches,
                    mean.delay_ms_p95,
                    mean.padding_ratio * 100.0,
                    seconds(mean.fit_s),
                    seconds(mean.rise_s),
                )
                .expect("a string takes everything");
            }
        }
        out + &self.missed()
    }

    /// Returns a line for each target that was missed, and their number.
    fn missed(&self) -> String {
        let all: usize = self.cases.iter().map(|case| case.targets.len()).sum();
        if all == 0 {
            return String::new();
        }
        let (mut lines, mut count) = (String::new(), 0);
        for case in &self.cases {
            for verdict in case.targets.iter().filter(|it| !it.is_kept) {
                count += 1;
                writeln!(lines, "  {:<9} {}", case.name, verdict.text())
                    .expect("a string takes everything");
            }
        }
        format!("\n{} of {all} targets kept; missed:\n{lines}", all - count)
    }

    /// Returns a row for each viewer of each run.
    ///
    /// # Panics
    /// Never: a string takes all that is written.
    pub fn to_csv(&self) -> String {
        let mut out = CSV.to_owned();
        for case in &self.cases {
            for arm in &case.arms {
                for run in &arm.runs {
                    writeln!(out, "{},{},{}", case.name, arm.arm, run.csv())
                        .expect("a string takes everything");
                }
            }
        }
        out
    }
}

impl Verdict {
    fn text(&self) -> String {
        let side = if self.is_most { "at most" } else { "at least" };
        let worst = match self.worst.is_finite() {
            true => format!("{:.2}", self.worst),
            false => "never".to_owned(),
        };
        format!("{}: {worst}, {side} {} wanted", self.figure, self.bound)
    }
}

impl RunReport {
    fn csv(&self) -> String {
        let it = &self.figures;
        let optional = |value: Option<f64>| value.map(|it| format!("{it:.2}")).unwrap_or_default();
        format!(
            "{},{},{:.4},{:.4},{:.3},{:.3},{:.4},{:.1},{:.5},{:.5},{:.1},{:.1},{:.4},{:.0},{},{:.2},{},{},{:.1},{:.1},{},{},{:.5},{},{},{}",
            self.seed,
            self.viewer,
            it.use_ratio,
            it.fitting_ratio,
            it.sent_mbps,
            it.received_mbps,
            it.layer_ratio,
            it.queue_ms_p95,
            it.loss_ratio,
            it.loss_late_ratio,
            it.wait_ms_p99,
            it.fps_min,
            it.shown_ratio,
            it.stall_ms_max,
            it.freezes,
            it.frozen_s,
            it.torn,
            it.abandoned,
            it.delay_ms_p50,
            it.delay_ms_p95,
            it.switches,
            it.keyframes_asked,
            it.padding_ratio,
            optional(it.first_frame_ms),
            optional(it.fit_s),
            optional(it.rise_s),
        )
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |it| format!("{it:.1}"))
}
