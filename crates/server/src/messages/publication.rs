//! The right to publish beside a stream.

use std::sync::Arc;
use std::time::Instant;

use super::MessageBroker;
use crate::runtime::SessionId;

/// One session's claim to be the publisher of a broker, given up when dropped.
#[derive(Debug)]
pub(crate) struct Publication {
    broker: Arc<MessageBroker>,
    session: SessionId,
}

impl Publication {
    /// A claim of `session`, not yet made.
    pub(crate) const fn new(broker: Arc<MessageBroker>, session: SessionId) -> Self {
        Self { broker, session }
    }

    /// The session publishes from now on, and nobody else does.
    pub(crate) fn begin(&self, now: Instant) {
        self.broker.take_over(&self.session, now);
    }

    /// The session is the one that publishes.
    pub(crate) fn is_current(&self) -> bool {
        self.broker.is_publisher(&self.session)
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        self.broker.leave(&self.session);
    }
}
