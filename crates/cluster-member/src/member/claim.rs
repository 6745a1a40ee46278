//! The claims of publishers: the right to a stream's name in the whole cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use glassline_cluster::{Policy, PublishDecision, PublisherId, Refusal, StreamName as Name};
use glassline_hub::StreamName;
use glassline_ingest::NameClaim;
use tokio::sync::oneshot;

use super::{Member, core_name};

/// Time after which a publisher is refused if the driver does not run. The core decides earlier.
const PATIENCE: Duration = Duration::from_secs(3);

/// A publisher that has a name, or waits for the decision.
#[derive(Debug)]
pub(super) struct Publishing {
    pub(super) name: Name,
    /// Where the decision goes; `None` after it.
    pub(super) decided: Option<oneshot::Sender<PublishDecision>>,
    pub(super) is_lost: Arc<AtomicBool>,
}

/// The right of one publisher to a name, given back when it is dropped.
#[derive(Debug)]
pub struct HeldName {
    member: Arc<Member>,
    publisher: PublisherId,
    name: Name,
    is_lost: Arc<AtomicBool>,
}

/// The reason why a publisher does not get a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    /// Another publisher has the name.
    #[error("'{name}' has a publisher already, at the server '{by}' of the cluster")]
    Taken {
        /// Name of the stream that is claimed.
        name: StreamName,
        /// The server that has the name.
        by: String,
    },
    /// Another server has a source of that name in its configuration.
    #[error(
        "'{name}' is the name of a camera or file that the server '{by}' of the cluster has in its \
         configuration: publish under another name"
    )]
    Configured {
        /// Name of the stream that is claimed.
        name: StreamName,
        /// The server that has the name.
        by: String,
    },
    /// Another server connects to the source, and takes publishers in its place.
    #[error(
        "the server '{by}' of the cluster connects to the source of '{name}', and alone takes publishers \
         in its place: publish there"
    )]
    AtSource {
        /// Name of the stream that is claimed.
        name: StreamName,
        /// The server that has the name.
        by: String,
    },
    /// This server takes no new publishers.
    #[error("this server is about to stop, and takes no new publishers")]
    Draining,
    /// A newer version wrote the record of the stream.
    #[error(
        "the record of '{0}' in the cluster was written by a newer version; update this server"
    )]
    Unreadable(StreamName),
    /// The time for a decision is over.
    #[error("the cluster gave no decision in time")]
    NoDecision,
}

impl Member {
    /// Claims `name` for a publisher. With `takes_over`, the present publisher is replaced, wherever it
    /// is. The decision comes within 1.5 s. Returns `None` where the publisher needs no claim: this
    /// server has that of a source which lets clients publish in its place.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        name: &StreamName,
        takes_over: bool,
    ) -> Result<Option<HeldName>, ClaimRefusal> {
        let wanted = core_name(name).ok_or(ClaimRefusal::NoDecision)?;
        if self.lets_clients_in(name, &wanted)? {
            return Ok(None);
        }
        let policy = match takes_over {
            true => Policy::Replace,
            false => Policy::Refuse,
        };
        let (decided, decision) = oneshot::channel();
        let claim = self.with_core(|core, now| {
            let claim = HeldName {
                member: Arc::clone(self),
                publisher: core.publisher(),
                name: wanted.clone(),
                is_lost: Arc::default(),
            };
            let publishing = Publishing {
                name: wanted.clone(),
                decided: Some(decided),
                is_lost: Arc::clone(&claim.is_lost),
            };
            core.publishers.insert(claim.publisher, publishing);
            core.node.publish(now, claim.publisher, &wanted, policy);
            claim
        });
        let decision = tokio::time::timeout(PATIENCE, decision).await;
        let refusal = match decision {
            Ok(Ok(PublishDecision::Admitted { .. })) => return Ok(Some(claim)),
            Ok(Ok(PublishDecision::Refused(refusal))) => refusal,
            _ => return Err(ClaimRefusal::NoDecision),
        };
        tracing::info!(stream = %name, ?refusal, "publisher refused by the cluster");
        Err(match refusal {
            Refusal::Taken { by } => ClaimRefusal::Taken {
                name: name.clone(),
                by: by.to_string(),
            },
            Refusal::Configured { by } => ClaimRefusal::Configured {
                name: name.clone(),
                by: by.to_string(),
            },
            Refusal::Draining => ClaimRefusal::Draining,
            Refusal::Unreadable => ClaimRefusal::Unreadable(name.clone()),
        })
    }

    /// Returns whether this server has the claim of a source that lets clients publish in its place.
    ///
    /// # Errors
    /// Returns [`ClaimRefusal::AtSource`] if another server has the claim of such a source.
    pub(super) fn lets_clients_in(
        &self,
        name: &StreamName,
        wanted: &Name,
    ) -> Result<bool, ClaimRefusal> {
        let core = self.core.lock();
        if !core.sources.contains_key(wanted) || self.hub.check_client(name).is_err() {
            return Ok(false);
        }
        match core.node.owner(wanted) {
            Some(owner) if owner == core.node.id() => Ok(true),
            Some(owner) => Err(ClaimRefusal::AtSource {
                name: name.clone(),
                by: owner.to_string(),
            }),
            None => Ok(false),
        }
    }
}

impl NameClaim for HeldName {
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for HeldName {
    fn drop(&mut self) {
        let (publisher, name) = (self.publisher, &self.name);
        self.member.with_core(|core, now| {
            core.publishers.remove(&publisher);
            if let Some(followed) = core.followed.get_mut(name) {
                followed.give_up(Some(publisher), &self.member.provenances);
            }
            core.node.publish_ended(now, publisher, name);
        });
    }
}
