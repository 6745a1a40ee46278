//! The pulls that the core wants: each feeds the hub when the core admits it.

use std::sync::Arc;

use glassline_cluster::record::NodeRecord;
use glassline_cluster::{Admission, Catalog, NodeId, PullId, StreamName as Name};
use glassline_quic::moq::{NodeName, Provenance};
use tokio::sync::mpsc;

use super::{Core, Member, moment, node_id, record};
use crate::pull::{Gate, PullEvent, PullSource};

/// Lets a pull feed the hub if the core admits it.
#[derive(Debug)]
struct Admitting {
    member: Arc<Member>,
    pull: PullId,
    name: Name,
}

impl Gate for Admitting {
    fn pass(&self, provenance: &Provenance, begin: &mut dyn FnMut()) -> bool {
        let path = provenance
            .path
            .iter()
            .map(node_id)
            .collect::<Option<Vec<_>>>();
        let catalog = Catalog {
            epoch: provenance.epoch,
            inc: provenance.incarnation,
            path: path.unwrap_or_default(),
        };
        // Whoever claims the name later finds the stream published, and takes it over.
        let mut core = self.member.core.lock();
        let admission = core.node.admit(moment(), self.pull, &self.name, &catalog);
        let is_admitted = admission != Admission::End;
        if is_admitted {
            begin();
        }
        if let Admission::Replace(old) = admission {
            core.end_pull(old);
        }
        drop(core);
        self.member.wake();
        is_admitted
    }
}

impl Core {
    /// Ends a pull, whose bytes stay counted.
    pub(super) fn end_pull(&mut self, pull: PullId) {
        // A pull ends when it is dropped.
        if let Some(ended) = self.pulls.remove(&pull) {
            self.counts.pulled_bytes += ended.figures().bytes();
        }
    }
}

impl Member {
    pub(super) fn begin_pull(
        self: &Arc<Self>,
        pull: PullId,
        name: Name,
        from: &NodeId,
        record: &NodeRecord,
    ) {
        let (address, stream) = (record::address(record), self.stream_of(&name));
        let (Some(address), Some(stream)) = (address, stream) else {
            tracing::warn!(stream = %name, %from, "cannot be pulled: the address of the server is malformed, or the hub has no room");
            return self.pull_over(pull, &name);
        };
        let source = PullSource {
            address,
            epoch: None,
        };
        let gate = Admitting {
            member: Arc::clone(self),
            pull,
            name: name.clone(),
        };
        let mut core = self.core.lock();
        // Viewers find the stream in the hub from now on, and do not ask the cluster for it.
        core.follow(&name, &stream);
        let (handle, events) = self
            .pulls
            .start_behind(stream, source, &[], Some(Box::new(gate)));
        core.counts.pulls += 1;
        core.pulls.insert(pull, handle);
        drop(core);
        tokio::spawn(Arc::clone(self).follow(pull, name, from.clone(), events));
    }

    /// Waits for the end of a pull.
    async fn follow(
        self: Arc<Self>,
        pull: PullId,
        name: Name,
        from: NodeId,
        mut events: mpsc::Receiver<PullEvent>,
    ) {
        while let Some(event) = events.recv().await {
            match event {
                PullEvent::FirstData { provenance, .. } => {
                    let path = provenance.path.iter().map(NodeName::as_str);
                    let path = path.collect::<Vec<_>>().join(" → ");
                    let epoch = provenance.epoch;
                    tracing::info!(stream = %name, %from, path, epoch, "stream is pulled");
                }
                PullEvent::Failed { why, .. } => {
                    tracing::info!(stream = %name, %from, %why, "pull failed");
                    break;
                }
                PullEvent::Stalled { heard } => self.with_core(|core, now| {
                    core.node.pull_stalled(now, pull, &name, heard);
                }),
                PullEvent::Resumed => {
                    self.with_core(|core, now| core.node.pull_resumed(now, pull, &name));
                }
                PullEvent::CodecChanged { .. } => {}
                PullEvent::Ended => break,
            }
        }
        self.pull_over(pull, &name);
    }

    fn pull_over(&self, pull: PullId, name: &Name) {
        self.with_core(|core, now| {
            core.end_pull(pull);
            core.node.pull_failed(now, pull, name);
        });
    }
}
