//! Tasks on tokio that go on after a panic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::panicked::Panicked;
use super::part::NamedTask;
use super::restart_limit::RestartLimit;
use super::supervisor::Supervisor;

/// Pause before a task runs again.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the task that `make` makes until `stopped` becomes true. A task that panics, or ends before
/// that, is made again; one that does so again and again makes the server fail.
pub async fn keep_running<F>(
    supervisor: Arc<Supervisor>,
    task: NamedTask,
    stopped: watch::Receiver<bool>,
    mut make: impl FnMut() -> F,
) where
    F: Future<Output = ()>,
{
    let NamedTask { part, name } = task;
    let mut limit = RestartLimit::default();
    loop {
        let ended = supervisor.catch_task(part, make()).await;
        // A dropped sender means that the server ends, too.
        if *stopped.borrow() || stopped.has_changed().is_err() {
            return;
        }
        let how = match ended {
            Ok(()) => "ended",
            Err(Panicked) => "panicked",
        };
        if !limit.allows(Instant::now()) {
            return supervisor.fail(format!("{name} {how} five times within a minute"));
        }
        tokio::time::sleep(PAUSE).await;
        supervisor.counters(part).restarts.add(1);
        tracing::error!(task = name, "task {how}: it runs again");
    }
}

/// Starts [`keep_running`] as a task of its own.
pub fn spawn_kept<F>(
    supervisor: &Arc<Supervisor>,
    task: NamedTask,
    stopped: &watch::Receiver<bool>,
    make: impl FnMut() -> F + Send + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let running = keep_running(Arc::clone(supervisor), task, stopped.clone(), make);
    tokio::spawn(running)
}

/// Runs a task that cannot be made again. If it panics, or ends before `stopped` becomes true, the
/// server fails.
pub async fn run_once(
    supervisor: Arc<Supervisor>,
    task: NamedTask,
    stopped: watch::Receiver<bool>,
    run: impl Future<Output = ()>,
) {
    let NamedTask { part, name } = task;
    let ended = supervisor.catch_task(part, run).await;
    if *stopped.borrow() || stopped.has_changed().is_err() {
        return;
    }
    let how = if ended.is_ok() { "ended" } else { "panicked" };
    supervisor.fail(format!("{name} {how}"));
}
