//! What ends connections whose clients would go on.

use tokio::sync::watch;

use glassline_cluster_member::Draining;

/// The drain of a server; `None` where clients have no other server to go to.
pub(crate) type Drain = Option<watch::Receiver<Option<Draining>>>;

/// The end of the connections of a listener.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    /// Whether the server is stopped. Requests in progress are answered.
    pub(super) stopped: watch::Receiver<bool>,
    /// While the server drains, connections end after their next answer, and those between two requests
    /// at once: a balancer leads the next request of such a client to another server.
    pub(super) drain: Drain,
}

/// Completes when the server drains.
pub(super) async fn drains(drain: &mut Drain) {
    if let Some(drain) = drain
        && drain.wait_for(Option::is_some).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
