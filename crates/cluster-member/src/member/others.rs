//! The other servers of the cluster that a client can go to when this one is lost.

use std::hash::{DefaultHasher, Hash, Hasher};

use glassline_cluster::record::NodeState;
use glassline_cluster::{Access, Node, NodeId};

use super::Member;
use super::redirect::Elsewhere;
use crate::viewer_ticket::{Destination, Grant};

/// Most servers that a client is told.
const TOLD_MAX: usize = 3;

impl Member {
    /// Returns up to three servers that a client can reach as `access` says, those of this region first.
    /// Clients of different sessions get different ones, so that not all of them come to the same server.
    pub fn others(&self, access: Access, session: &str) -> Vec<Elsewhere> {
        let core = self.core.lock();
        let node = &core.node;
        let reachable = node.known_nodes().filter_map(|(name, record)| {
            let base = access.base(record.http.as_deref(), record.rtsp.as_deref())?;
            let is_near = record.region == self.options.region;
            (record.state == NodeState::Serving && is_alive(node, name)).then(|| {
                let mut hasher = DefaultHasher::new();
                (session, name.as_str()).hash(&mut hasher);
                (!is_near, hasher.finish(), base.to_owned())
            })
        });
        let mut ranked: Vec<_> = reachable.collect();
        drop(core);
        ranked.sort();
        ranked.truncate(TOLD_MAX);
        let bases = ranked.into_iter().map(|(.., base)| base);
        bases.map(|base| Elsewhere { base }).collect()
    }

    /// Returns the names of all other servers, those that were lost lately included.
    pub fn other_servers(&self) -> Vec<String> {
        let core = self.core.lock();
        let known = core.node.known_nodes().map(|(name, _)| name);
        let others = known.filter(|name| *name != core.node.id());
        others.map(ToString::to_string).collect()
    }

    /// Returns the ticket with which this server asks others for the recordings of a stream.
    pub fn ticket_for_recordings(&self, stream: &str) -> String {
        let subject = Destination::Recordings(stream);
        self.ticket(subject, &Grant::default())
    }

    /// Returns the URL of `path` at the server `to`.
    pub fn url_at(to: &Elsewhere, path: &str) -> String {
        format!("{}{path}", to.base)
    }
}

/// Returns whether another server is heard at present.
fn is_alive(node: &Node, name: &NodeId) -> bool {
    let mut peers = node.peers();
    name != node.id() && peers.any(|peer| peer.node == name && !peer.is_dead)
}
