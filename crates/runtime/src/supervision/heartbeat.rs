//! A sign of life that each turn of a thread gives.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(debug_assertions)]
use super::fault::Faults;
use super::part::Part;
use crate::Counter;

/// Interval at which the watchdog looks at every thread.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// Number of looks in a row without progress after which a thread counts as stuck: five seconds.
pub(super) const STUCK_LOOKS: u32 = 10;

/// The sign of life of one thread, which the thread owns.
#[derive(Debug)]
pub struct Heartbeat(Arc<Pulse>);

/// A thread as the watchdog sees it.
#[derive(Debug)]
pub(super) struct Pulse {
    pub(super) part: Part,
    pub(super) thread: String,
    /// Number of turns of the thread. No clock is read for it: the watchdog has one.
    turns: AtomicU64,
    /// The number of turns of a thread that counts them elsewhere.
    counted: Option<&'static Counter>,
    /// The value of `turns` at the watchdog's last look.
    seen: AtomicU64,
    /// Looks in a row at which `turns` had not changed.
    quiet_looks: AtomicU32,
    has_ended: AtomicBool,
    #[cfg(debug_assertions)]
    pub(super) faults: Faults,
}

/// The progress of one thread, for health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadProgress {
    /// Name of the thread, such as `shard-0`.
    pub thread: String,
    /// Time since the thread was last seen to make progress, in steps of half a second.
    pub quiet: Duration,
    /// Whether the thread made no progress for five seconds.
    pub is_stuck: bool,
}

impl fmt::Display for ThreadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, seconds) = (&self.thread, self.quiet.as_secs());
        write!(f, "{thread} has made no progress for {seconds} s")
    }
}

/// The change that a look of the watchdog found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing that the log should tell has changed.
    Same,
    /// The thread has just begun to count as stuck.
    Stuck,
    /// The thread makes progress again.
    Recovered,
}

impl Heartbeat {
    pub(super) fn new(part: Part, thread: &str) -> (Self, Arc<Pulse>) {
        let pulse = Arc::new(Pulse::new(part, thread, None));
        (Self(Arc::clone(&pulse)), pulse)
    }

    /// Notes that the thread makes progress. Must be called at least once a second, by one thread.
    #[inline]
    pub fn beat(&self) {
        // Only this thread writes, so no atomic addition is needed.
        let turns = self.0.turns.load(Ordering::Relaxed);
        self.0.turns.store(turns.wrapping_add(1), Ordering::Relaxed);
        #[cfg(debug_assertions)]
        self.0.faults.strike();
    }

    /// Returns the part that the thread belongs to.
    pub(super) fn part(&self) -> Part {
        self.0.part
    }

    /// Returns the thread's name.
    pub(super) fn thread(&self) -> &str {
        &self.0.thread
    }

    #[cfg(debug_assertions)]
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.0
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Pulse {
    fn new(part: Part, thread: &str, counted: Option<&'static Counter>) -> Self {
        Self {
            part,
            thread: thread.to_owned(),
            turns: AtomicU64::new(0),
            counted,
            seen: AtomicU64::new(0),
            quiet_looks: AtomicU32::new(0),
            has_ended: AtomicBool::new(false),
            #[cfg(debug_assertions)]
            faults: Faults::default(),
        }
    }

    /// Creates the pulse of a thread whose turns raise `turns`.
    pub(super) fn counted(part: Part, thread: &str, turns: &'static Counter) -> Arc<Self> {
        Arc::new(Self::new(part, thread, Some(turns)))
    }

    /// Compares the number of turns with that of the last look.
    ///
    /// Looks are counted, and not time: a process that was paused as a whole is not stuck.
    pub(super) fn look(&self) -> Look {
        let own = || self.turns.load(Ordering::Relaxed);
        let turns = self.counted.map_or_else(own, Counter::get);
        if self.seen.swap(turns, Ordering::Relaxed) != turns {
            let quiet = self.quiet_looks.swap(0, Ordering::Relaxed);
            return if quiet >= STUCK_LOOKS {
                Look::Recovered
            } else {
                Look::Same
            };
        }
        let quiet = self.quiet_looks.load(Ordering::Relaxed).saturating_add(1);
        self.quiet_looks.store(quiet, Ordering::Relaxed);
        if quiet == STUCK_LOOKS {
            Look::Stuck
        } else {
            Look::Same
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> ThreadProgress {
        let quiet = self.quiet_looks.load(Ordering::Relaxed);
        ThreadProgress {
            thread: self.thread.clone(),
            quiet: LOOK * quiet,
            is_stuck: quiet >= STUCK_LOOKS,
        }
    }
}
