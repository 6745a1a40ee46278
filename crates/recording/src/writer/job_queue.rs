//! The queue of a folder's jobs: bounded in bytes and in time, so that a disk that is slow or hangs costs
//! frames of recordings and nothing else.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::job::Job;

/// Bound of a folder's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueBound {
    /// Most bytes that wait. It covers a disk that stops for a moment, at the bitrate of all streams.
    pub(crate) bytes: usize,
    /// Longest time that a fragment waits.
    pub(crate) span: Duration,
}

impl Default for QueueBound {
    fn default() -> Self {
        Self {
            bytes: 128 << 20,
            // A spinning disk that wakes up, or a network file system that fails over, takes less.
            span: Duration::from_secs(15),
        }
    }
}

/// Jobs that wait for the thread of a folder.
#[derive(Debug)]
pub(crate) struct JobQueue {
    bound: QueueBound,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<(Instant, Job)>,
    bytes: usize,
    /// Since when the thread has worked on the job that it took last; `None` while it waits.
    working_since: Option<Instant>,
    is_closed: bool,
}

impl Waiting {
    /// Returns since when the oldest job waits, or is worked on.
    fn oldest(&self) -> Option<Instant> {
        let front = self.jobs.front().map(|(since, _)| *since);
        self.working_since.into_iter().chain(front).min()
    }
}

impl JobQueue {
    pub(crate) fn new(bound: QueueBound) -> Self {
        Self {
            bound,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Puts a job into the queue at `now`. Beginnings and ends of files always have room: they are small,
    /// and a layer recording has at most one of each between two keyframes.
    ///
    /// # Errors
    /// Returns a fragment for which there is no room.
    pub(crate) fn push(&self, job: Job, now: Instant) -> Result<(), Job> {
        let bytes = job.bytes();
        let mut waiting = self.lock();
        let is_late = |since: Instant| now.saturating_duration_since(since) > self.bound.span;
        let is_full = waiting.bytes + bytes > self.bound.bytes;
        if matches!(job, Job::Append(_)) && (is_full || waiting.oldest().is_some_and(is_late)) {
            return Err(job);
        }
        waiting.bytes += bytes;
        waiting.jobs.push_back((now, job));
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Returns whether so little waits that a layer recording that lost frames may go on.
    pub(crate) fn has_recovered(&self, now: Instant) -> bool {
        let waiting = self.lock();
        let oldest = waiting.oldest();
        let age = oldest.map(|since| now.saturating_duration_since(since));
        waiting.bytes <= self.bound.bytes / 2 && age.is_none_or(|it| it < self.bound.span / 2)
    }

    /// Returns for how long the oldest job has waited or is worked on.
    pub(crate) fn lag(&self, now: Instant) -> Duration {
        let oldest = self.lock().oldest();
        oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Takes the next job, after waiting for one for at most `longest`. The job that was taken before is
    /// done.
    pub(crate) fn take(&self, longest: Duration) -> Option<Job> {
        let mut waiting = self.lock();
        waiting.working_since = None;
        if waiting.jobs.is_empty() && !waiting.is_closed {
            let waited = self.arrived.wait_timeout(waiting, longest);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (since, job) = waiting.jobs.pop_front()?;
        waiting.bytes -= job.bytes();
        waiting.working_since = Some(since);
        Some(job)
    }

    /// Lets the thread end when it has done all jobs.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Returns whether nothing comes any more.
    pub(crate) fn is_over(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed && waiting.jobs.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
