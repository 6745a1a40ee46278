//! Tasks on tokio that go on after a panic.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::part::Part;
use super::restart_limit::RestartLimit;
use super::supervisor::Supervisor;

/// Pause before a task runs again.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the task that `make` makes until `stopped` becomes true. A task that panics, or ends before
/// that, is made again; one that does so again and again makes the server fail.
pub(crate) async fn keep_running<F>(
    supervisor: Arc<Supervisor>,
    (part, name): (Part, &'static str),
    stopped: watch::Receiver<bool>,
    mut make: impl FnMut() -> F,
) where
    F: Future<Output = ()>,
{
    let mut limit = RestartLimit::default();
    loop {
        let ended = AssertUnwindSafe(make()).catch_unwind().await;
        // A dropped sender means that the server ends, too.
        if *stopped.borrow() || stopped.has_changed().is_err() {
            return;
        }
        let how = match ended {
            Ok(()) => "ended",
            Err(_payload) => {
                supervisor.count_panic(part);
                "panicked"
            }
        };
        if !limit.allows(Instant::now()) {
            return supervisor.fail(format!("{name} {how} five times within a minute"));
        }
        tokio::time::sleep(PAUSE).await;
        supervisor.counters(part).restarts.add(1);
        tracing::error!(task = name, "task {how}: it runs again");
    }
}
