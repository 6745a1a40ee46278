//! The thread that deletes files whose time is over.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_runtime::{Counter, Part, Supervisor, calendar};

use super::Retention;
use crate::recorders::Plan;

/// Time from one round to the next.
const INTERVAL: Duration = Duration::from_secs(10);

/// Longest wait of the thread, so that it shows that it lives.
const TURN: Duration = Duration::from_millis(500);

/// The thread that deletes.
pub(crate) struct RetentionThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    deleted: DeletedCounters,
}

#[derive(Debug)]
struct Wanted {
    plan: Plan,
    is_over: bool,
}

/// The deletions since the server began.
#[derive(Debug, Default)]
pub(crate) struct DeletedCounters {
    pub(crate) files: Counter,
    pub(crate) bytes: Counter,
    /// Files that should have been copied before, and were not.
    pub(crate) uncopied_files: Counter,
}

impl RetentionThread {
    /// Starts the thread that deletes files.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give.
    pub(crate) fn start(retention: Retention, supervisor: &Arc<Supervisor>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            wanted: Mutex::new(Wanted {
                plan: Plan::nothing(),
                is_over: false,
            }),
            changed: Condvar::new(),
            deleted: DeletedCounters::default(),
        });
        let (watching, of_thread) = (Arc::clone(supervisor), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("retention".to_owned());
        let thread = thread.spawn(move || {
            let heartbeat = watching.register(Part::Recording, "retention");
            let mut next = Instant::now() + TURN;
            while let Some(plan) = of_thread.plan_within(TURN) {
                heartbeat.beat();
                if Instant::now() < next {
                    continue;
                }
                let round = || of_thread.round(&retention, &plan);
                // A panic costs one round.
                let _ = watching.catch(Part::Recording, round);
                next = Instant::now() + INTERVAL;
            }
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Puts a plan in force.
    pub(crate) fn set_plan(&self, plan: Plan) {
        self.shared.lock().plan = plan;
    }

    /// Returns the counts of deleted files since the server began.
    pub(crate) fn deleted(&self) -> &DeletedCounters {
        &self.shared.deleted
    }

    /// Ends the thread, and waits for it until `deadline` at most.
    pub(crate) fn stop(&mut self, deadline: Instant) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.take() else {
            return;
        };
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Shared {
    /// Waits, and returns the plan; `None` if the thread is to end.
    fn plan_within(&self, longest: Duration) -> Option<Plan> {
        let wanted = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(wanted, longest, |it| !it.is_over);
        let wanted = waited.unwrap_or_else(PoisonError::into_inner).0;
        (!wanted.is_over).then(|| wanted.plan.clone())
    }

    fn round(&self, retention: &Retention, plan: &Plan) {
        match retention.round(plan, calendar::now()) {
            Ok(deleted) => {
                let bytes = deleted.iter().map(|it| it.bytes).sum::<u64>();
                self.deleted.files.add(deleted.len() as u64);
                self.deleted.bytes.add(bytes);
                let uncopied = deleted.iter().filter(|it| it.is_uncopied).count();
                self.deleted.uncopied_files.add(uncopied as u64);
                if uncopied > 0 {
                    tracing::warn!(
                        uncopied,
                        "recordings were deleted before they had a copy, because space was needed"
                    );
                }
                if let Some(first) = deleted.first() {
                    let (files, reason) = (deleted.len(), first.reason);
                    tracing::info!(files, bytes, reason, "recordings were deleted");
                }
            }
            Err(error) => tracing::warn!(%error, "recordings are not deleted"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RetentionThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetentionThread").finish_non_exhaustive()
    }
}
