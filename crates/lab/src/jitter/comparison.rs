//! Runs all jitter buffers on one stream, on several threads, and builds the report.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;

use super::report::svg::TIMELINE_S;
use super::report::{Curve, Figures, Named, Point, Report, Timeline};
use super::{Contender, Fixed, Moment, NetEq, Oracle, Ours, Outcome, Pace, Stream, Version};

/// Settings of our buffer for its curve: largest share of the time that may be concealed.
const LATE_SHARES: [f64; 7] = [0.000_1, 0.000_3, 0.000_6, 0.001, 0.002, 0.004, 0.008];

/// Settings of NetEq for its curve: quantile of the delays that it aims for.
const QUANTILES: [f64; 6] = [0.50, 0.70, 0.85, 0.95, 0.98, 0.995];

/// Settings of the fixed delay for its curve: share of packets that come late. The table has one
/// in a thousand.
const FIXED: [f64; 7] = [0.000_1, 0.000_3, 0.001, 0.002, 0.004, 0.008, 0.016];

/// Jitter buffers to compare, and the stream.
pub struct Comparison<'a> {
    /// Name of the trace: its file, or family and seed.
    pub trace: String,
    /// The stream of packets that every buffer receives.
    pub stream: Stream<'a>,
    /// Our buffer with its configuration.
    pub ours: Ours,
    /// Whether every buffer runs at several settings, for the chart.
    pub has_curves: bool,
}

/// A run of one buffer.
struct Run {
    contender: Box<dyn Contender + Send>,
    /// The setting, if the run is part of a curve; `None` for the run in the table.
    setting: Option<f64>,
}

/// Result of a comparison: the report, and the waits over time.
pub type ComparisonResult = (Report, Vec<Timeline>);

impl Comparison<'_> {
    /// Runs every buffer on the stream, `jobs` at a time. Calls `progress` with the number of
    /// runs that are done and of all runs. `None` if `stop` became true.
    pub fn run(
        &self,
        jobs: usize,
        stop: &AtomicBool,
        mut progress: impl FnMut(usize, usize),
    ) -> Option<ComparisonResult> {
        let started = crate::timestamp::now();
        let runs = self.runs();
        let all = runs.len();
        let open: Mutex<VecDeque<(usize, Run)>> =
            Mutex::new(runs.into_iter().enumerate().collect());
        let (sender, done) = mpsc::channel();
        let mut outcomes = Vec::with_capacity(all);
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, all) {
                let (open, sender) = (&open, sender.clone());
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let next = open.lock().pop_front();
                        let Some((place, run)) = next else { return };
                        let outcome = run.contender.play(&self.stream);
                        // The receiver is gone only after a panic.
                        let _ = sender.send((place, run, outcome));
                    }
                });
            }
            drop(sender);
            for found in done {
                outcomes.push(found);
                progress(outcomes.len(), all);
            }
        });
        outcomes.sort_by_key(|(place, ..)| *place);
        (outcomes.len() == all).then(|| self.report(started, &outcomes))
    }

    fn runs(&self) -> Vec<Run> {
        fn run(contender: impl Contender + Send + 'static, setting: Option<f64>) -> Run {
            Run {
                contender: Box::new(contender),
                setting,
            }
        }
        let neteq = |version| NetEq {
            version,
            ..NetEq::default()
        };
        let others = Pace::ALL
            .into_iter()
            .filter(|pace| *pace != self.ours.config.pace);
        let others = others.map(|pace| {
            let mut ours = self.ours;
            ours.config.pace = pace;
            run(ours, None)
        });
        let mut runs = vec![run(self.ours, None)];
        runs.extend([
            run(neteq(Version::M98), None),
            run(neteq(Version::Y2026), None),
            run(Fixed { late_share: 0.001 }, None),
            run(Oracle { stretch: 0.10 }, None),
            run(Oracle { stretch: 0.25 }, None),
        ]);
        // Runs of the curves come last, because the chart over time shows the first ones.
        runs.extend(others);
        if self.has_curves {
            runs.extend(LATE_SHARES.map(|late_share| {
                let mut ours = self.ours;
                ours.config.late_share = late_share;
                run(ours, Some(late_share))
            }));
            for version in [Version::M98, Version::Y2026] {
                runs.extend(
                    QUANTILES.map(|quantile| run(NetEq { version, quantile }, Some(quantile))),
                );
            }
            runs.extend(FIXED.map(|late_share| run(Fixed { late_share }, Some(late_share))));
        }
        runs
    }

    fn report(&self, started: String, outcomes: &[(usize, Run, Outcome)]) -> ComparisonResult {
        let mut contenders = Vec::new();
        let mut curves: Vec<Curve> = Vec::new();
        let mut timelines = Vec::new();
        for (_, run, outcome) in outcomes {
            let name = run.contender.name();
            match run.setting {
                None => {
                    if timelines.len() < 2 {
                        timelines.push(timeline(&name, outcome));
                    }
                    contenders.push(Named {
                        name,
                        figures: Figures::from(outcome),
                    });
                }
                Some(setting) => {
                    let point = Point::new(setting, outcome);
                    match curves.iter_mut().find(|it| it.name == name) {
                        Some(curve) => curve.points.push(point),
                        None => curves.push(Curve {
                            name,
                            points: vec![point],
                        }),
                    }
                }
            }
        }
        let report = Report {
            trace: self.trace.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            packets: self.stream.delays.packets().len() as u64,
            interval_ms: self.stream.interval.as_secs_f64() * 1e3,
            pull_ms: self.ours.pull.as_secs_f64() * 1e3,
            pace: self.ours.config.pace.to_string(),
            late_share: self.ours.config.late_share,
            glassline: contenders.first().map(|it| it.figures).unwrap_or_default(),
            contenders,
            curves,
        };
        (report, timelines)
    }
}

/// One minute of the waits, after the first minute if the stream is long enough, so that every
/// buffer has adapted.
fn timeline(name: &str, outcome: &Outcome) -> Timeline {
    let end = outcome.moments.last().map_or(0.0, |it| it.at_s);
    let from = if end > 2.0 * TIMELINE_S {
        TIMELINE_S
    } else {
        0.0
    };
    let within = |it: &&Moment| (from..from + TIMELINE_S).contains(&it.at_s);
    Timeline {
        name: name.to_owned(),
        moments: outcome.moments.iter().filter(within).copied().collect(),
    }
}
