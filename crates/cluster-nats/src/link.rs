//! What the parts of a session share: its connection, and the way to the core.

use std::sync::Arc;

use glassline_cluster::engine::Incoming;
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::queue::Queue;

/// Connection of a session, and the way to the core.
#[derive(Debug)]
pub(crate) struct SessionLink {
    pub(crate) connection: Connection,
    pub(crate) queue: Arc<Queue>,
    /// Number of the session, whose notices the queue takes.
    number: u64,
    suspicion: Notify,
}

impl SessionLink {
    pub(crate) fn new(connection: Connection, number: u64, queue: Arc<Queue>) -> Self {
        Self {
            connection,
            queue,
            number,
            suspicion: Notify::new(),
        }
    }

    /// Tells the core, unless the session is over.
    pub(crate) fn notice(&self, incoming: Incoming) {
        self.queue.notice(self.number, incoming);
    }

    /// Has the buckets looked at.
    pub(crate) fn suspect_buckets(&self) {
        self.suspicion.notify_one();
    }

    /// Waits until the buckets should be looked at.
    pub(crate) async fn suspected(&self) {
        self.suspicion.notified().await;
    }
}
