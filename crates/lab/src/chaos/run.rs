//! A run: starts everything, performs the schedule, and hands what was seen to the report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::account::GroupSamples;
use super::action::{Action, Kind};
use super::attack::{self, Outcome};
use super::clock::{seconds, unix_ms};
use super::deployment::{Deployment, LogTarget};
use super::error::Error;
use super::monitor::{Monitor, Observation, Observed};
use super::plan::{Plan, Strength, cool_down, warm_up};
use super::record::{Performed, Record};
use super::report::Report;
use super::schedule::Schedule;
use crate::meter::Machine;

/// Watches a run for the user.
pub trait Watcher {
    /// A line of the log: seconds since the first action, and what happened.
    fn on_line(&mut self, at_s: f64, text: &str);

    /// State of the run, a few times a second.
    fn on_progress(&mut self, progress: &Progress);
}

/// State of a run.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Name of the action in progress; `None` between actions.
    pub action: Option<&'static str>,
    /// Share of the run that is over, 0–1.
    pub done: f64,
    /// Viewers without video at this time.
    pub frozen: usize,
    /// Number of good viewers, with and without video.
    pub viewers: usize,
    /// Newest observation of the server.
    pub observation: Observation,
}

/// Longest wait for viewers to have video again.
const BACK_MAX: Duration = Duration::from_secs(15);

/// Time after which publishers whose stream nobody receives are started again, so that one fault
/// does not hide those of later actions.
const PUBLISHER_MAX: Duration = Duration::from_secs(6);

/// Longest time that the server has to end by SIGTERM.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// Words of a panic in the server's log, and on standard error before there is a log.
const PANIC_MARKS: [&str; 2] = ["panic, which is a bug", "panicked at"];

/// Performs the plan, and returns the report.
///
/// # Errors
/// The run could not be made, or was interrupted. What the server does wrong is in the report.
pub fn run(plan: &Plan, watcher: &mut dyn Watcher, stop: &AtomicBool) -> Result<Report, Error> {
    let mut deployment = Deployment::start(plan)?;
    let monitor = Monitor::start(deployment.server_id(), deployment.probes())?;
    let mut run = Run {
        plan,
        watcher,
        stop,
        monitor,
        schedule: Schedule::new(plan),
        actions: 0,
        record: Record {
            began_ms: unix_ms(),
            warm_ms: unix_ms(),
            ended_ms: unix_ms(),
            cores: Machine::now().cores().max(1),
            performed: Vec::new(),
            observed: Observed::default(),
            groups: Vec::new(),
            misses: Vec::new(),
            restarts_ms: Vec::new(),
        },
        begun: Instant::now(),
    };
    run.actions = run.schedule.left().unwrap_or(0);
    run.perform(&mut deployment)?;
    Ok(Report::new(plan, &run.finish(deployment)))
}

struct Run<'a> {
    plan: &'a Plan,
    watcher: &'a mut dyn Watcher,
    stop: &'a AtomicBool,
    monitor: Monitor,
    schedule: Schedule,
    /// Number of actions of a finite schedule.
    actions: usize,
    record: Record,
    begun: Instant,
}

impl Run<'_> {
    fn perform(&mut self, deployment: &mut Deployment) -> Result<(), Error> {
        self.wait(deployment, warm_up(self.plan.strength))?;
        self.record.began_ms = unix_ms();
        self.begun = Instant::now();
        while self.has_time()
            && let Some(action) = self.schedule.next()
        {
            self.perform_action(deployment, action)?;
        }
        // Whatever the last action caused shows now, and goes.
        self.wait(deployment, cool_down(self.plan.strength))
    }

    /// Whether another action may begin.
    fn has_time(&self) -> bool {
        self.plan.strength == Strength::Target || self.begun.elapsed() < self.plan.time
    }

    fn perform_action(&mut self, deployment: &mut Deployment, action: Action) -> Result<(), Error> {
        self.line(&describe(&action));
        let from_ms = unix_ms();
        let done = self.done();
        let (monitor, watcher) = (&self.monitor, &mut *self.watcher);
        let mut shown = Instant::now();
        let mut tick = |deployment: &mut Deployment| {
            if shown.elapsed() >= Duration::from_millis(200) {
                shown = Instant::now();
                let name = Some(action.kind.name());
                watcher.on_progress(&progress(monitor, deployment, name, done));
            }
        };
        let outcome = attack::perform(deployment, action, self.stop, &mut tick)?;
        if action.kind.starts_anew() && outcome.skipped.is_none() {
            self.record.restarts_ms.push(unix_ms());
        }
        self.revive(deployment, action.kind)?;
        deployment.restart_ended_publishers()?;
        self.wait_for_video(deployment, !outcome.interruptions.is_empty())?;
        let to_ms = unix_ms();
        let result = result(&outcome);
        self.record.performed.push(Performed {
            action,
            from_ms,
            to_ms,
            outcome,
        });
        self.line(&format!("  {result}"));
        let pause = self.schedule.pause();
        self.wait(deployment, pause)
    }

    /// Starts a server again that ended by itself, which is a fault.
    fn revive(&mut self, deployment: &mut Deployment, kind: Kind) -> Result<(), Error> {
        if let Some(how) = deployment.server_ended() {
            self.record.misses.push(format!("{how}, during {kind}"));
            self.line(&format!("  {how}"));
            deployment.kill_server();
            deployment.start_server(LogTarget::File)?;
            self.record.restarts_ms.push(unix_ms());
        }
        Ok(())
    }

    /// Waits until every viewer has video; after an interruption, in a sample that began later.
    fn wait_for_video(
        &mut self,
        deployment: &mut Deployment,
        was_interrupted: bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let since_ms = if was_interrupted { unix_ms() } else { 0 };
        let mut has_restarted = false;
        while begun.elapsed() < BACK_MAX
            && !deployment.groups.iter().all(|it| it.has_video(since_ms))
        {
            deployment.restart_ended_publishers()?;
            if begun.elapsed() > PUBLISHER_MAX && !has_restarted {
                has_restarted = true;
                for name in deployment.restart_unseen_publishers(since_ms)? {
                    self.line(&format!(
                        "  {name} did not come back by itself; started again"
                    ));
                }
            }
            self.wait(deployment, Duration::from_millis(100))?;
        }
        Ok(())
    }

    fn wait(&mut self, deployment: &mut Deployment, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(100));
            let done = self.done();
            let now = progress(&self.monitor, deployment, None, done);
            self.watcher.on_progress(&now);
        }
        Ok(())
    }

    fn done(&self) -> f64 {
        match self.schedule.left() {
            Some(left) => 1.0 - left as f64 / self.actions.max(1) as f64,
            None => self.begun.elapsed().as_secs_f64() / self.plan.time.as_secs_f64().max(1e-3),
        }
    }

    fn line(&mut self, text: &str) {
        self.watcher
            .on_line(seconds(self.record.began_ms, unix_ms()), text);
    }

    /// Stops everything; returns what was seen.
    fn finish(self, mut deployment: Deployment) -> Record {
        let mut record = self.record;
        record.ended_ms = unix_ms();
        record.observed = self.monitor.observed();
        let groups = deployment.groups.iter();
        record.groups = groups
            .map(|group| GroupSamples {
                name: group.name.to_owned(),
                origin: group.origin,
                frame_rate: group.frame_rate,
                viewers: group.viewers,
                samples: group.samples(),
            })
            .collect();
        drop(self.monitor);
        deployment.fleet = None;
        deployment.groups.clear();
        deployment.publishers.clear();
        let shutdown_max = self.plan.patience(SHUTDOWN_MAX);
        if !deployment.stop_server(shutdown_max) {
            let patience = shutdown_max.as_secs();
            let text = format!("the server did not end within {patience} s of SIGTERM");
            record.misses.push(text);
        }
        let log = std::fs::read_to_string(deployment.server_log()).unwrap_or_default();
        let has_panicked = record
            .performed
            .iter()
            .any(|it| it.action.kind == Kind::Panic && it.outcome.skipped.is_none());
        let is_panic = |line: &&str| PANIC_MARKS.iter().any(|mark| line.contains(mark));
        if let Some(line) = log.lines().find(is_panic)
            && !has_panicked
        {
            record.misses.push(format!("the server's log says: {line}"));
        }
        record
    }
}

fn progress(
    monitor: &Monitor,
    deployment: &Deployment,
    action: Option<&'static str>,
    done: f64,
) -> Progress {
    let frozen = |group: &super::group::ViewerGroup| group.last().map_or(0, |last| last.frozen);
    Progress {
        action,
        done: done.clamp(0.0, 1.0),
        frozen: deployment.groups.iter().map(frozen).sum(),
        viewers: deployment.groups.iter().map(|group| group.viewers).sum(),
        observation: monitor.last(),
    }
}

/// An action in a few words.
fn describe(action: &Action) -> String {
    let mut text = format!("{}, {:.1} s", action.kind, action.time.as_secs_f64());
    if action.rate > 0 {
        text += &format!(", {}/s", action.rate);
    }
    if action.count > 0 {
        text += &format!(", {} at most", action.count);
    }
    text
}

fn result(outcome: &Outcome) -> String {
    if let Some(reason) = &outcome.skipped {
        return format!("skipped: {reason}");
    }
    let mut text = format!("{} sent", outcome.sent);
    if outcome.answered > 0 {
        text += &format!(", {} answered", outcome.answered);
    }
    if outcome.refused > 0 {
        text += &format!(", {} refused", outcome.refused);
    }
    let faults = outcome.misses.iter().chain(&outcome.late);
    for note in outcome.notes.iter().chain(faults) {
        text += "; ";
        text += note;
    }
    text
}
