//! Streams that viewers ask this server for and another one may have.

use std::sync::Arc;

use glassline_cluster::ViewDecision;
use glassline_hub::{Stream, Wake};
use glassline_runtime::TaskWaker;

use super::{Member, core_name};

impl Member {
    /// Asks the cluster for `stream`, and waits until it is published here.
    ///
    /// # Errors
    /// Returns the reason for people if no server has it, or it cannot be had now.
    pub(crate) async fn find(&self, stream: &Arc<Stream>) -> Result<(), &'static str> {
        // The stream is needed for as long as it is searched for.
        let _demand = stream.demand();
        let name = core_name(stream.name()).ok_or("its name is too long")?;
        let published = Arc::new(TaskWaker::default());
        let watcher = Arc::clone(&published) as Arc<dyn Wake>;
        stream.watch(&watcher);
        match self.seek(&name, stream).await {
            Ok(ViewDecision::Here) => {}
            Ok(ViewDecision::NotFound) => return Err("nobody publishes it"),
            _ => return Err("it cannot be had now"),
        }
        while !stream.is_published() {
            published.woken().await;
        }
        Ok(())
    }
}
