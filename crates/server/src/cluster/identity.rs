//! Who this server is in its cluster, and where its streams come from.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use glassline_hub::StreamName;
use glassline_quic::moq::{NodeClock, NodeName, Provenance};

use crate::auth::Secret;

/// Who this server is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Name in the cluster, which no other server has.
    pub(crate) name: NodeName,
    /// Secret that all servers of the cluster share.
    pub(crate) secret: Secret,
    /// Random number of this process.
    pub(crate) incarnation: u64,
    /// Clock of the stamps that other servers get.
    pub(crate) clock: NodeClock,
}

/// Where the streams come from that this server does not publish itself, and the epochs of those that
/// it does.
#[derive(Debug)]
pub(crate) struct Provenances {
    node: NodeName,
    incarnation: u64,
    known: Mutex<HashMap<StreamName, Provenance>>,
}

impl Provenances {
    pub(crate) fn new(identity: &Identity) -> Self {
        Self {
            node: identity.name.clone(),
            incarnation: identity.incarnation,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamName, Provenance>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a stream comes from, for the servers that pull it from this one; `None` for a
    /// stream that is this server's own again, in epoch 0.
    pub(crate) fn set(&self, name: &StreamName, provenance: Option<Provenance>) {
        let mut known = self.lock();
        match provenance {
            Some(provenance) => known.insert(name.clone(), provenance),
            None => known.remove(name),
        };
    }

    /// Returns where a stream comes from, up to and with this server.
    pub(crate) fn of(&self, name: &StreamName) -> Provenance {
        match self.lock().get(name) {
            Some(known) => {
                let mut provenance = known.clone();
                if provenance.path.last() != Some(&self.node) {
                    provenance.path.push(self.node.clone());
                }
                provenance
            }
            None => Provenance {
                epoch: 0,
                node: self.node.clone(),
                incarnation: self.incarnation,
                path: vec![self.node.clone()],
            },
        }
    }
}
