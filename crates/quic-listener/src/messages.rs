//! Messages beside streams, for the servers of the cluster that pull these.

use std::collections::HashMap;
use std::sync::Arc;

use glassline_cluster_member::Directory;
use glassline_hub::{Hub, StreamName};
use glassline_messages::{Downstream, MessageLinks};
use glassline_quic::moq::{MessageRefusal, MessageRequest, MessageRequests, NodeName};
use glassline_runtime::{Part, Supervisor};
use tokio::task::{AbortHandle, JoinSet};

/// The parts that passing messages to other servers needs.
#[derive(Clone, Debug)]
pub(super) struct MessageService {
    pub(super) links: Arc<MessageLinks>,
    pub(super) hub: Arc<Hub>,
    pub(super) directory: Arc<Directory>,
    pub(super) supervisor: Arc<Supervisor>,
}

impl MessageService {
    /// Answers the requests of `node` until its session is over.
    pub(super) async fn serve(self, mut requests: MessageRequests, node: NodeName) {
        // All ends with this set.
        let mut passing = JoinSet::new();
        // One for each stream, so that the memory for what has come in part is bounded.
        let mut present: HashMap<StreamName, AbortHandle> = HashMap::new();
        loop {
            let request = tokio::select! {
                request = requests.next() => request,
                Some(_) = passing.join_next() => {
                    present.retain(|_, task| !task.is_finished());
                    continue;
                }
            };
            let Some(request) = request else { return };
            match self.stream_of(&request) {
                Ok(name) => {
                    let downstream = Downstream::new(&self.links, &name);
                    let (supervisor, node) = (Arc::clone(&self.supervisor), node.clone());
                    let of_stream = name.clone();
                    let task = passing.spawn(async move {
                        tracing::debug!(stream = %name, %node, "another server gets messages");
                        let (sender, receiver) = request.accept();
                        let running = downstream.run(sender, receiver);
                        match supervisor.catch_task(Part::Quic, running).await {
                            Ok(why) => {
                                tracing::debug!(stream = %name, %node, why, "another server gets no more messages");
                            }
                            Err(_) => tracing::error!(
                                stream = %name, %node,
                                "passing messages to another server panicked: the server asks again"
                            ),
                        }
                    });
                    if let Some(before) = present.insert(of_stream, task) {
                        before.abort();
                    }
                }
                Err(why) => {
                    tracing::debug!(stream = request.name(), %node, %why, "another server gets no messages");
                    request.refuse(why);
                }
            }
        }
    }

    /// Returns the name of the stream whose messages the other server may have.
    fn stream_of(&self, request: &MessageRequest) -> Result<StreamName, MessageRefusal> {
        if self.links.policy().is_none() {
            return Err(MessageRefusal::Off);
        }
        let name = request.name();
        let found = self
            .hub
            .stream(name)
            .filter(|_| self.directory.offers(name));
        found
            .map(|stream| stream.name().clone())
            .ok_or(MessageRefusal::NotFound)
    }
}
