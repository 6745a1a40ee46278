//! Messages between servers: the publisher is at one server of a cluster, its viewers at others.
//!
//! ```text
//!  server with the publisher                                      server that pulls the stream
//!  MessageBroker ─ Inbox of viewers ─► Downstream ═ records ═► Upstream ─► MessageBroker ─► viewers
//!      publisher ◄────────── post ──────── ▲ ◄═══ records ═══ ▲ ◄─ Inbox of the publisher ◄──┘
//! ```
//!
//! Both ends are one stream of QUIC ([`glassline_quic::moq::MessageOpener`]), which exists while the
//! pulling server has viewers with data channels. To the broker here, a [`Downstream`] is a viewer, and
//! there, an [`Upstream`] is the publisher. So messages pass any number of servers.
//!
//! What waits for a slow server is what its [`Inbox`](super::Inbox) holds, and one record: QUIC takes a
//! record as soon as the other server has room. Nobody else waits. A record has the number that its
//! message got first: a gap is known at each server, and what comes by two ways is passed on once.

mod counters;
mod downstream;
mod incoming;
mod outgoing;
mod record;
mod sequence;
#[cfg(test)]
mod tests;
mod upstream;

use std::sync::Arc;

use glassline_hub::StreamName;
use glassline_runtime::Current;

use super::{DataPolicy, MessageBroker, MessageBrokers};

pub use counters::ServerCounters;
pub use downstream::Downstream;
#[cfg(any(test, fuzzing))]
pub use record::fuzz_record;
pub use upstream::{PublisherClaim, PulledPublisher, Upstream};

/// The parts of this server that messages between servers need: its brokers, its rules and its
/// counters.
#[derive(Debug)]
pub struct MessageLinks {
    /// Brokers of all streams with data channels.
    pub brokers: MessageBrokers,
    policy: Current<Option<DataPolicy>>,
    /// Counts of messages between servers.
    pub counters: ServerCounters,
}

impl MessageLinks {
    /// Creates the state of a server without streams.
    pub fn new(policy: Option<DataPolicy>) -> Arc<Self> {
        Arc::new(Self {
            brokers: MessageBrokers::default(),
            policy: Current::new(policy),
            counters: ServerCounters::default(),
        })
    }

    /// Returns the present rules for data channels; `None` where they are turned off.
    pub fn policy(&self) -> Option<DataPolicy> {
        *self.policy.get()
    }

    /// Replaces the rules for data channels.
    pub fn set_policy(&self, policy: Option<DataPolicy>) {
        self.policy.replace(policy);
    }

    fn broker(&self, name: &StreamName) -> Arc<MessageBroker> {
        self.brokers.of(name)
    }
}
