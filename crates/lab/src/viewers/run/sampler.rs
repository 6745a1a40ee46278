//! Samples once a second: figures for the terminal, rows for the CSV file, and histograms that
//! must not be lost between the edges of a window.

use std::time::{Duration, Instant};

use glassline_media::{Histogram, Summary};

use super::clocks::{Clocks, Moment};
use super::mark::{Mark, SAMPLE_READINGS};
use super::viewer_group::ViewerGroup;
use crate::viewers::report::{csv, table};
use crate::viewers::timing::{Delay, Gap};

const INTERVAL: Duration = Duration::from_secs(1);

/// Figures of one sample.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) running: table::Running,
    /// CSV row with every third sample, without the time of day.
    pub(super) row: Option<csv::Row>,
}

/// Takes the samples of a run.
#[derive(Debug)]
pub(super) struct Sampler {
    /// 95th percentile of the step's join times so far, in ms.
    pub(super) join_p95_ms: Option<f64>,
    viewers: usize,
    step_began: Instant,
    last: Moment,
    row: Span,
    window: Option<Span>,
    delays: Histogram,
}

/// Figures that are summed up from a start on.
#[derive(Debug)]
struct Span {
    mark: Mark,
    clocks: Moment,
    gaps: Histogram,
}

impl Span {
    fn new(mark: Mark, clocks: Moment) -> Self {
        Self {
            mark,
            clocks,
            gaps: Histogram::new(),
        }
    }
}

impl Sampler {
    pub(super) fn new(clocks: &mut Clocks) -> Self {
        let now = clocks.look();
        Self {
            join_p95_ms: None,
            viewers: 0,
            step_began: now.at,
            row: Span::new(Mark::nobody(now.at), now.clone()),
            window: None,
            delays: Histogram::new(),
            last: now,
        }
    }

    pub(super) fn begin_step(&mut self, viewers: usize) {
        self.viewers = viewers;
        self.step_began = Instant::now();
        self.join_p95_ms = None;
        self.window = None;
    }

    /// Begin of the current step.
    pub(super) const fn step_began(&self) -> Instant {
        self.step_began
    }

    /// Starts a window at `begin`: gaps and delays count for the step from now on.
    pub(super) fn begin_window(&mut self, group: &ViewerGroup, begin: &Mark) {
        self.row.gaps.merge(&group.take_gaps());
        group.take_delays();
        self.delays.clear();
        self.window = Some(Span::new(begin.clone(), self.last.clone()));
    }

    /// Ends the window; returns the step's gaps and delays.
    pub(super) fn end_window(&mut self, group: &ViewerGroup) -> (Gap, Option<Delay>) {
        self.take(group);
        let gaps = self
            .window
            .take()
            .map(|window| window.gaps.summary())
            .unwrap_or_default();
        (gap(&gaps), delay(&self.delays.summary()))
    }

    /// Takes a sample if a second is over since the last one.
    pub(super) fn tick(&mut self, group: &mut ViewerGroup, clocks: &mut Clocks) -> Option<Sample> {
        if self.last.at.elapsed() < INTERVAL {
            return None;
        }
        let mark = group.mark(SAMPLE_READINGS);
        let now = clocks.look();
        self.take(group);
        let used = now.since(&self.last);
        let percent = |share: f64| share * 100.0;
        let mut running = table::Running {
            viewers: self.viewers,
            connected: mark.playing(),
            join_p95_ms: self.join_p95_ms,
            server_cpu_percent: used.server.as_ref().map(|server| percent(server.cpu)),
            server_rss_bytes: now.server_rss_bytes(),
            generator_cpu_percent: Some(percent(used.generator)),
            ..table::Running::default()
        };
        if let Some(window) = &self.window {
            let account = mark.since(&window.mark);
            running.delivered_ratio = account.delivered_ratio();
            running.loss_ratio = account.loss_ratio();
            running.gap_p99_ms = gap(&window.gaps.summary()).p99;
        }
        // Seconds may end a little early, but three of them must make a row.
        let is_row_due = now.at - self.row.clocks.at + INTERVAL / 4 >= csv::INTERVAL;
        let row = is_row_due.then(|| self.row(mark, &now));
        self.last = now;
        Some(Sample { running, row })
    }

    fn row(&mut self, mark: Mark, now: &Moment) -> csv::Row {
        let used = now.since(&self.row.clocks);
        let account = mark.since(&self.row.mark);
        let gaps = gap(&self.row.gaps.summary());
        let row = csv::Row {
            unix_s: 0,
            connected: account.connected,
            machine_cpu_percent: (1.0 - used.machine_idle) * 100.0,
            viewers: self.viewers,
            server_cpu_percent: used.server.as_ref().map(|server| server.cpu * 100.0),
            server_rss_bytes: now.server_rss_bytes(),
            generator_cpu_percent: used.generator * 100.0,
            packets_per_second: account.packets_per_second(),
            received_mbps: account.mbps(),
            delivered_ratio: account.delivered_ratio(),
            loss_ratio: account.loss_ratio(),
            gap_p99_ms: gaps.p99,
            gap_max_ms: gaps.max,
        };
        self.row = Span::new(mark, now.clone());
        row
    }

    /// Moves histograms from the pool to the current sums.
    fn take(&mut self, group: &ViewerGroup) {
        let gaps = group.take_gaps();
        self.row.gaps.merge(&gaps);
        if let Some(window) = &mut self.window {
            window.gaps.merge(&gaps);
            self.delays.merge(&group.take_delays());
        }
    }
}

fn gap(summary: &Summary) -> Gap {
    let ms = |time: Duration| (summary.count > 0).then_some(time.as_secs_f64() * 1e3);
    Gap {
        p99: ms(summary.p99),
        max: ms(summary.max),
    }
}

fn delay(summary: &Summary) -> Option<Delay> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    (summary.count > 0).then(|| Delay {
        p50: ms(summary.p50),
        p95: ms(summary.p95),
        p99: ms(summary.p99),
    })
}
