//! Streams that viewers ask this server for and another one may have.

use std::sync::Arc;
use std::time::Duration;

use glassline_cluster::ViewDecision;
use glassline_hub::{Stream, Wake};
use glassline_runtime::TaskWaker;

use super::{Member, core_name};

/// Longest wait for the decision whether a server has a stream. The core decides earlier.
const DECIDED_WITHIN: Duration = Duration::from_secs(3);

/// Longest wait for the media of a server that has the stream: a pull that fails after 3 s without any is
/// begun again meanwhile, and viewers wait a little longer.
const MEDIA_WITHIN: Duration = Duration::from_secs(8);

impl Member {
    /// Asks the cluster for `stream`, and waits until it is published here. The caller needs the stream
    /// for as long.
    ///
    /// # Errors
    /// Returns the reason for people if no server has the stream, or it cannot be had now.
    pub async fn find(&self, stream: &Arc<Stream>) -> Result<(), &'static str> {
        let name = core_name(stream.name()).ok_or("its name is too long")?;
        let published = Arc::new(TaskWaker::default());
        let watcher = Arc::clone(&published) as Arc<dyn Wake>;
        stream.watch(&watcher);
        let decision = tokio::time::timeout(DECIDED_WITHIN, self.seek(&name, stream));
        match decision.await {
            Ok(Ok(ViewDecision::Here)) => {}
            Ok(Ok(ViewDecision::NotFound)) => return Err("nobody publishes it"),
            _ => return Err("it cannot be had now"),
        }
        let media = async {
            while !stream.is_published() {
                published.woken().await;
            }
        };
        let media = tokio::time::timeout(MEDIA_WITHIN, media).await;
        media.map_err(|_| "the server that has it sends nothing")
    }
}
