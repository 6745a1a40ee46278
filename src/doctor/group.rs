//! Checks that run at the same time, each within a deadline, whose findings come in a fixed order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::finding::Finding;
use super::progress::Progress;

/// Time that a single check may take. All of them run at the same time.
const CHECK_MAX: Duration = Duration::from_secs(8);

type Work = Pin<Box<dyn Future<Output = Vec<Finding>> + Send>>;

/// Checks that run at the same time.
pub(super) struct Group {
    progress: Arc<Progress>,
    /// Time that each check may take.
    patience: Duration,
    checks: Vec<(&'static str, Work)>,
}

impl Group {
    pub(super) fn new(progress: &Arc<Progress>) -> Self {
        Self {
            progress: Arc::clone(progress),
            patience: CHECK_MAX,
            checks: Vec::new(),
        }
    }

    /// Adds a check.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Vec<Finding>> + Send + 'static,
    ) {
        self.checks.push((name, Box::pin(work)));
    }

    /// Adds a check that blocks.
    pub(super) fn add_blocking(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Vec<Finding> + Send + 'static,
    ) {
        self.add(
            name,
            async move { blocking(work).await.unwrap_or_default() },
        );
    }

    /// Runs all checks; findings stand in the order in which the checks were added.
    pub(super) async fn run(self) -> Vec<Finding> {
        let patience = self.patience;
        let tasks: Vec<_> = self
            .checks
            .into_iter()
            .map(|(name, work)| {
                let progress = Arc::clone(&self.progress);
                let task = tokio::spawn(async move {
                    progress.begin(name);
                    let findings = tokio::time::timeout(patience, work).await;
                    progress.end(name);
                    findings
                });
                (name, task)
            })
            .collect();
        let mut findings = Vec::new();
        for (name, task) in tasks {
            match task.await {
                Ok(Ok(found)) => findings.extend(found),
                Ok(Err(_)) => findings.push(unfinished(name)),
                Err(error) => {
                    findings.push(Finding::failure(name, "check", error.to_string()));
                }
            }
        }
        findings
    }
}

fn unfinished(name: &'static str) -> Finding {
    let seconds = CHECK_MAX.as_secs();
    Finding::warning(name, "check", format!("it did not end within {seconds} s"))
        .why("something on the way answers too slowly, or never")
        .change("try again; `--log debug` shows what doctor waits for")
}

/// Runs `work` on a thread that may block; `None` if that panicked.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[tokio::test]
    async fn a_check_that_never_ends_is_named_and_the_others_stay_in_order() {
        let mut group = Group::new(&Arc::new(Progress::start(true)));
        group.patience = Duration::from_millis(20);
        group.add("slow", std::future::pending());
        group.add("quick", async { vec![Finding::ok("quick", "a", "fine")] });
        let found = group.run().await;
        assert_eq!(found[0].check, "slow");
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[1].check, "quick");
    }
}
