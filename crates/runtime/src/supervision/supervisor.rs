//! The state of all threads and tasks of one server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::task::JoinError;

#[cfg(debug_assertions)]
use super::fault::{Fault, PointFaults};
use super::fault_point::FaultPoint;
use super::heartbeat::{Heartbeat, Pulse, ThreadProgress};
use super::panicked::{Panicked, catch};
use super::part::{Part, PartCounters};
use crate::Counter;

/// Watches the threads and tasks of one server.
#[derive(Debug)]
pub struct Supervisor {
    pulses: Mutex<Vec<Arc<Pulse>>>,
    counters: [PartCounters; Part::ALL.len()],
    /// The reason why the server cannot go on; `None` while all is well.
    failure: watch::Sender<Option<String>>,
    #[cfg(debug_assertions)]
    point_faults: PointFaults,
}

impl Supervisor {
    pub(super) fn new() -> Self {
        Self {
            pulses: Mutex::default(),
            counters: std::array::from_fn(|_| PartCounters::default()),
            failure: watch::Sender::new(None),
            #[cfg(debug_assertions)]
            point_faults: PointFaults::default(),
        }
    }

    /// Returns the heartbeat of a new thread. The thread counts as running until the heartbeat is
    /// dropped.
    pub fn register(&self, part: Part, thread: &str) -> Heartbeat {
        let (heartbeat, pulse) = Heartbeat::new(part, thread);
        self.lock().push(pulse);
        heartbeat
    }

    /// Shows the progress of a thread that is not the server's own: each of its turns raises `turns`.
    /// Must be called once for each thread.
    pub fn register_counted(&self, part: Part, thread: &str, turns: &'static Counter) {
        self.lock().push(Pulse::counted(part, thread, turns));
    }

    /// Calls `work`, and counts a panic of it for `part`.
    ///
    /// # Errors
    /// Returns [`Panicked`]. The state that `work` changed may then be half changed: the caller must
    /// discard it.
    pub fn catch<T>(&self, part: Part, work: impl FnOnce() -> T) -> Result<T, Panicked> {
        catch(work).inspect_err(|Panicked| self.count_panic(part))
    }

    /// Waits for `work`, and counts a panic of it for `part`.
    ///
    /// # Errors
    /// Returns [`Panicked`], as [`Self::catch`] does.
    pub async fn catch_task<F: Future>(&self, part: Part, work: F) -> Result<F::Output, Panicked> {
        let caught = AssertUnwindSafe(work).catch_unwind().await;
        caught.map_err(|_payload| {
            self.count_panic(part);
            Panicked
        })
    }

    /// Counts the panic of a task of tokio, if it ended in one. What the task served is gone with it.
    pub fn note_end<T>(&self, part: Part, ended: &Result<T, JoinError>) {
        if ended.as_ref().is_err_and(JoinError::is_panic) {
            self.count_panic(part);
        }
    }

    /// Counts a panic that was caught elsewhere, for example by tokio in a task.
    pub fn count_panic(&self, part: Part) {
        self.counters(part).panics.add(1);
    }

    /// Returns the counters of `part`.
    pub(super) fn counters(&self, part: Part) -> &PartCounters {
        &self.counters[part as usize]
    }

    /// Iterates over all parts with their counters.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &PartCounters)> {
        Part::ALL.into_iter().zip(&self.counters)
    }

    /// Returns the progress of every thread.
    pub fn threads(&self) -> Vec<ThreadProgress> {
        self.lock().iter().map(|pulse| pulse.progress()).collect()
    }

    /// Returns the first thread of `part` that makes no progress, or of any part that does not wait
    /// for disks or readers if `part` is `None`.
    pub fn stuck(&self, part: Option<Part>) -> Option<ThreadProgress> {
        let pulses = self.lock();
        let mut pulses = pulses.iter().filter(|pulse| match part {
            Some(part) => part == pulse.part,
            None => !pulse.part.waits_for_others(),
        });
        pulses.find_map(|pulse| Some(pulse.progress()).filter(|progress| progress.is_stuck))
    }

    /// Notes that the server cannot go on. Only the first reason is kept.
    pub fn fail(&self, reason: String) {
        tracing::error!(reason, "the server cannot go on: the process ends");
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert(reason);
            is_first
        });
    }

    /// Returns why the server cannot go on; `None` while all is well.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// Waits until the server cannot go on, and returns the reason.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(reason) = failure.borrow_and_update().clone() {
                return reason;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Fails in the way that a test has requested for `point`. Does nothing in a build without
    /// debug assertions.
    #[inline(always)]
    pub fn fault_point(&self, point: FaultPoint) {
        #[cfg(debug_assertions)]
        self.point_faults.strike(point);
        #[cfg(not(debug_assertions))]
        let _ = point;
    }

    /// Makes the next task that reaches `point` fail in the way that `fault` says.
    #[cfg(debug_assertions)]
    pub fn inject_at(&self, point: FaultPoint, fault: Fault) {
        self.point_faults.inject(point, fault);
    }

    /// Makes the thread `thread` fail in the way that `fault` says. Returns false if there is no
    /// thread of this name.
    #[cfg(debug_assertions)]
    pub fn inject(&self, thread: &str, fault: Fault) -> bool {
        let pulses = self.lock();
        // A thread that has begun anew may be listed twice until the watchdog looks.
        let pulse = pulses
            .iter()
            .find(|pulse| pulse.thread == thread && !pulse.has_ended());
        if let Some(pulse) = pulse {
            pulse.faults.inject(fault);
        }
        pulse.is_some()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Arc<Pulse>>> {
        self.pulses.lock()
    }
}
