//! The role of a session as the publisher of messages next to a stream.

use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::SessionId;

use super::MessageBroker;

/// One session's role as the publisher of a broker, given up when dropped.
#[derive(Debug)]
pub struct Publication {
    broker: Arc<MessageBroker>,
    session: SessionId,
}

impl Publication {
    /// Prepares the role for `session`, which does not have it yet.
    pub const fn new(broker: Arc<MessageBroker>, session: SessionId) -> Self {
        Self { broker, session }
    }

    /// Makes the session the publisher in place of any other.
    pub fn begin(&self, now: Instant) {
        self.broker.take_over(&self.session, now);
    }

    /// Returns whether the session is the publisher.
    pub fn is_current(&self) -> bool {
        self.broker.is_publisher(&self.session)
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        self.broker.leave(&self.session);
    }
}
