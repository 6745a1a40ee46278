//! Runs a plan: viewers join step by step and are measured, which gives the figures of each step.
//!
//! ```text
//! for each step:  join (at most 50 in progress) ─► settle ─► measure ─► Step
//! all the time:   once a second: progress, gaps, processor clocks ─► Watcher
//! afterwards:     viewers leave ─► floor ─► verdict ─► Report
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine;
use crate::statistics::quantile;
use crate::timestamp;
use crate::viewers::error::Error;
use crate::viewers::floor::{self, Floor, Traffic};
use crate::viewers::plan::{FloorSource, Plan};
use crate::viewers::report::{Baseline, Report, csv, table};
use crate::viewers::step::{self, Step};
use crate::viewers::timing::Join;
use crate::viewers::trouble::{self, Hol};
use crate::viewers::verdict;

mod clocks;
mod describe;
mod mark;
mod sampler;
mod stages;
mod viewer_group;

use clocks::Clocks;
use describe::Probe;
use sampler::Sampler;
use stages::Stages;
use viewer_group::{Joined, ViewerGroup};

/// Receives the progress of a run.
pub trait Watcher {
    /// Called about once a second with the step's figures so far, and the progress of the ramp.
    fn running(&mut self, _now: &table::Running, _progress: Progress) {}
    /// Called every three seconds with a CSV row.
    fn row(&mut self, _row: &csv::Row) {}
    /// Called when a step is finished.
    fn step(&mut self, _step: &Step) {}
    /// Called when the floor for this number of viewers is measured.
    fn floor(&mut self, _viewers: usize, _progress: Progress) {}
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of finished steps.
    pub steps_done: usize,
    /// Number of steps of the ramp.
    pub steps: usize,
    /// Time since the run began.
    pub elapsed: Duration,
    /// Estimated time until the run ends.
    pub left: Duration,
}

/// Pause after the last join, since handshakes and first keyframes are no load of the step.
const SETTLE: Duration = Duration::from_millis(1000);

/// Time that the server without viewers is measured for.
const BASELINE: Duration = Duration::from_millis(1000);

/// Time that the floor is measured for, at each step.
const FLOOR: Duration = Duration::from_secs(3);

/// Estimated time of a step's joins, for the time left only.
const JOIN_GUESS: Duration = Duration::from_millis(800);

/// Runs `plan` to its end, or until `stop` becomes true; the report has what was measured by
/// then. [`Plan::check`] must succeed first.
pub fn run(plan: &Plan, watcher: &mut dyn Watcher, stop: &AtomicBool) -> Result<Report, Error> {
    let machine = machine::describe();
    let started = unix_now();
    // Wrong files are found before the load.
    let traffic = match &plan.floor {
        Some(FloorSource::Files(files)) => Some(Traffic::of_files(files)?),
        _ => None,
    };
    let mut ramp = Ramping::start(plan, watcher, stop)?;
    ramp.run_steps()?;
    let Ramping {
        group,
        steps,
        shape,
        baseline,
        stopped,
        began,
        ..
    } = ramp;
    // All viewers leave before the floor is measured.
    drop(group);
    let mut report = Report {
        label: plan.label.clone().unwrap_or_else(|| label(plan)),
        url: plan.endpoint.to_string(),
        protocol: plan.protocol().to_owned(),
        started: timestamp::rfc3339(started.as_secs()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine,
        baseline,
        steps,
        floor: None,
        stopped,
        verdict: String::new(),
    };
    if plan.floor.is_some() && !report.steps.is_empty() && !stop.load(Ordering::Relaxed) {
        let traffic = match traffic {
            Some(traffic) => traffic,
            None => Traffic::like(&shape.unwrap_or_default())?,
        };
        measure_floor(&mut report, plan, &traffic, watcher, stop, began)?;
    }
    report.verdict = verdict::summary(&report.steps, report.stopped.as_deref());
    Ok(report)
}

/// Host and path, which tell runs apart.
fn label(plan: &Plan) -> String {
    let url = plan.url();
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    format!("{}{port}{}", url.host_str().unwrap_or_default(), url.path())
}

fn unix_now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Measures the floor for the viewers of each step, and compares the steps with it.
fn measure_floor(
    report: &mut Report,
    plan: &Plan,
    traffic: &Traffic,
    watcher: &mut dyn Watcher,
    stop: &AtomicBool,
    began: Instant,
) -> Result<(), Error> {
    let source = match plan.floor {
        Some(FloorSource::Files(_)) => "files",
        _ => "run",
    };
    let mut floor = Floor {
        source: source.to_owned(),
        packets_per_viewer_second: traffic.packets_per_second(),
        datagram_bytes_mean: traffic.datagram_bytes(),
        segmentation: floor::segmentation(),
        steps: Vec::new(),
    };
    let steps = report.steps.len();
    for (index, step) in report.steps.iter_mut().enumerate() {
        let progress = Progress {
            steps_done: index,
            steps,
            elapsed: began.elapsed(),
            left: (FLOOR + SETTLE) * u32::try_from(steps - index).unwrap_or(u32::MAX),
        };
        watcher.floor(step.viewers, progress);
        let Some(cost) = floor::measure(traffic, step.viewers, plan.server, FLOOR, stop)? else {
            break;
        };
        step.server_cpu_to_floor_ratio = step
            .server_cpu_ms_per_viewer_second
            .filter(|_| cost.cpu_ms_per_viewer_second > 0.0)
            .map(|server| server / cost.cpu_ms_per_viewer_second);
        let is_beyond = cost.delivered_ratio < Step::DELIVERED_MIN;
        floor.steps.push(cost);
        if is_beyond {
            // With more viewers, even less would be delivered.
            break;
        }
    }
    report.floor = Some(floor);
    Ok(())
}

/// State of a ramp in progress.
struct Ramping<'a> {
    plan: &'a Plan,
    watcher: &'a mut dyn Watcher,
    stop: &'a AtomicBool,
    began: Instant,
    group: ViewerGroup,
    clocks: Clocks,
    sampler: Sampler,
    stages: Option<Stages>,
    baseline: Option<Baseline>,
    steps: Vec<Step>,
    steps_planned: usize,
    /// Traffic of the last step that was delivered.
    shape: Option<floor::Shape>,
    stopped: Option<String>,
}

impl<'a> Ramping<'a> {
    /// Measures the server without viewers, then joins one viewer; if that fails, there is no
    /// stream to load.
    fn start(
        plan: &'a Plan,
        watcher: &'a mut dyn Watcher,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let mut clocks = Clocks::new(plan.server)?;
        let baseline = if plan.server.is_some() {
            let before = clocks.look();
            std::thread::sleep(BASELINE);
            clocks.look().baseline_since(&before)
        } else {
            None
        };
        let group = ViewerGroup::start(plan).map_err(Error::Pool)?;
        let sampler = Sampler::new(&mut clocks);
        Ok(Self {
            plan,
            watcher,
            stop,
            began,
            group,
            clocks,
            sampler,
            stages: Stages::of(&plan.endpoint, plan.token.as_deref()),
            baseline,
            steps: Vec::new(),
            steps_planned: plan.ramp.steps().len(),
            shape: None,
            stopped: None,
        })
    }

    /// Runs all steps, until one of them is a reason to stop.
    fn run_steps(&mut self) -> Result<(), Error> {
        for viewers in self.plan.ramp.steps() {
            let is_last = viewers == self.plan.ramp.end();
            let watched = if is_last {
                self.plan.hold
            } else {
                self.plan.every
            };
            self.run_step(viewers, watched)?;
            if self.stopped.is_some() || self.is_stopped() {
                break;
            }
        }
        if self.is_stopped() {
            self.stopped = Some("interrupted".to_owned());
        }
        Ok(())
    }

    fn run_step(&mut self, viewers: usize, watched: Duration) -> Result<(), Error> {
        self.sampler.begin_step(viewers);
        let joined = self.join(viewers)?;
        if self.is_stopped() {
            return Ok(());
        }
        self.wait(SETTLE, "settling");
        let begin = self.group.mark(mark::EDGE_READINGS);
        let clocks_before = self.clocks.look();
        self.sampler.begin_window(&self.group, &begin);
        let probe = self
            .plan
            .describe_probe
            .then(|| Probe::start(self.plan.url()));
        self.wait(watched, "measuring");
        let describe = probe.map(Probe::finish);
        let end = self.group.mark(mark::EDGE_READINGS);
        let clocks_after = self.clocks.look();
        let took = clocks_after.at - clocks_before.at;
        if took < Duration::from_millis(900) {
            // Interrupted before anything was measured.
            return Ok(());
        }
        let (gaps, delays) = self.sampler.end_window(&self.group);
        let account = end.since(&begin);
        let used = clocks_after.since(&clocks_before);
        let mut step = Step {
            join_ms: joined.figures(),
            first_failure: self.group.first_failure().map(str::to_owned),
            bad_clients: self.plan.bad_clients(viewers),
            stages: self.stages.as_ref().and_then(Stages::now),
            ..used.step(viewers, &account, self.baseline.as_ref())
        };
        step.gap_ms = gaps;
        step.delay_ms = delays;
        step.describe_ms = describe;
        let first = self.steps.first().unwrap_or(&step).delivered_ratio;
        step.rtp_clock_ratio = step::rtp_clock_ratio(first);
        self.judge(&mut step, &used);
        if self.shape.is_none() || step.is_delivered() {
            self.shape = Some(account.shape());
        }
        self.note_end(&step, &joined);
        if !self.plan.trouble.is_none() && !self.is_stopped() {
            step.hol = self.measure_hindered(watched, &step);
        }
        self.watcher.step(&step);
        self.steps.push(step);
        Ok(())
    }

    /// Measures the viewers of `step` again, for the same time, with clients that do not read.
    fn measure_hindered(&mut self, watched: Duration, step: &Step) -> Option<Hol> {
        let begin = self.group.mark(mark::EDGE_READINGS);
        self.sampler.begin_window(&self.group, &begin);
        let troubles = self.group.join_trouble();
        self.wait(watched, "hindered");
        let end = self.group.mark(mark::EDGE_READINGS);
        let (gap_ms, _) = self.sampler.end_window(&self.group);
        let trouble_ended = self.group.leave_trouble(&troubles);
        let account = end.since(&begin);
        let clock = step.rtp_clock_ratio.max(1.0);
        // An interrupted measurement allows no comparison.
        (!self.is_stopped()).then(|| Hol {
            trouble: self.plan.trouble,
            trouble_ended,
            duration_s: account.seconds,
            baseline_gap_ms: step.gap_ms,
            gap_ms,
            extra_gap_ms: trouble::extra(step.gap_ms, gap_ms),
            delivered_ratio: account.delivered_ratio().unwrap_or(0.0) / clock,
            loss_ratio: account.loss_ratio().unwrap_or(0.0),
            failed: account.failed.saturating_sub(step.failed),
        })
    }

    fn judge(&self, step: &mut Step, used: &clocks::Used) {
        let judgement = verdict::judge(&used.evidence(step));
        step.bottleneck = judgement.bottleneck;
        step.reason = judgement.reason;
    }

    /// Notes the reason if the ramp must not go on.
    fn note_end(&mut self, step: &Step, joined: &Joined) {
        let limit = self.plan.cpu_max_percent;
        if let Some(reason) = self.clocks.server_gone() {
            self.stopped = Some(reason.to_owned());
        } else if joined.failed * 2 > joined.asked {
            let reason = step.first_failure.as_deref().unwrap_or("no media came");
            self.stopped = Some(format!(
                "{} of {} viewers could not join at {}: {reason}",
                joined.failed, joined.asked, step.viewers
            ));
        } else if limit < 100.0
            && step.machine_cpu_percent > limit
            && step.viewers < self.plan.ramp.end()
        {
            self.stopped = Some(format!(
                "the machine was {:.0} % busy, more than --max-cpu {limit}",
                step.machine_cpu_percent
            ));
        }
    }

    /// Joins viewers until there are `viewers`.
    fn join(&mut self, viewers: usize) -> Result<Joined, Error> {
        let mut joining = self.group.begin_joining(viewers, self.steps.is_empty());
        loop {
            let is_done = self.group.advance(&mut joining);
            self.sampler.join_p95_ms = joining.p95_ms();
            self.tick("joining");
            if let Some(reason) = joining.scout_failure() {
                let url = self.plan.endpoint.to_string();
                return Err(Error::Join(if reason.contains(&url) {
                    reason
                } else {
                    format!("{url}: {reason}")
                }));
            }
            if is_done || self.is_stopped() {
                break;
            }
            std::thread::sleep(viewer_group::LOOK);
        }
        Ok(joining.finish())
    }

    /// Waits and takes samples, until `time` is over or the run is stopped.
    fn wait(&mut self, time: Duration, doing: &'static str) {
        let end = Instant::now() + time;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
            // A sample at the very end would repeat the mark that follows.
            if left > Duration::from_millis(150) {
                self.tick(doing);
            }
        }
    }

    /// Takes a sample if a second is over.
    fn tick(&mut self, doing: &'static str) {
        let progress = self.progress();
        if let Some(sample) = self.sampler.tick(&mut self.group, &mut self.clocks) {
            let mut running = sample.running;
            running.doing = doing;
            self.watcher.running(&running, progress);
            if let Some(mut row) = sample.row {
                row.unix_s = unix_now().as_secs();
                self.watcher.row(&row);
            }
        }
    }

    fn progress(&self) -> Progress {
        let elapsed = self.began.elapsed();
        let again = if self.plan.trouble.is_none() {
            Duration::ZERO
        } else {
            self.plan.every
        };
        let each = self.plan.every + again + SETTLE + JOIN_GUESS;
        let whole = each * u32::try_from(self.steps_planned).unwrap_or(u32::MAX)
            + self.plan.hold.saturating_sub(self.plan.every)
            + if self.plan.server.is_some() {
                BASELINE
            } else {
                Duration::ZERO
            };
        // The time of finished steps is known; only the remaining ones are estimated.
        let done = each * u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let in_step = self.sampler.step_began().elapsed();
        Progress {
            steps_done: self.steps.len(),
            steps: self.steps_planned,
            elapsed,
            left: whole.saturating_sub(done + in_step.min(each)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Joined {
    fn figures(&self) -> Join {
        let at = |share| quantile(&self.times_ms, share);
        Join {
            p50: at(0.5),
            p95: at(0.95),
            max: at(1.0),
            all: (self.asked > 0).then_some(self.took.as_secs_f64() * 1e3),
        }
    }
}
