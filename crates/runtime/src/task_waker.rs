use glassline_hub::Wake;
use tokio::sync::Notify;

/// Wakes one task from other threads. A call before the task waits is kept; several count as one.
#[derive(Debug, Default)]
pub struct TaskWaker(Notify);

impl TaskWaker {
    /// Waits for the next call, or returns at once if there was one since this was called last.
    pub async fn woken(&self) {
        self.0.notified().await;
    }
}

impl Wake for TaskWaker {
    fn wake(&self) {
        self.0.notify_one();
    }
}
