//! The right to publish beside a stream.

use std::sync::Arc;
use std::time::Instant;

use super::Exchange;
use crate::runtime::SessionId;

/// One session's claim to be the publisher of an exchange, given up when dropped.
#[derive(Debug)]
pub(crate) struct Publication {
    exchange: Arc<Exchange>,
    session: SessionId,
}

impl Publication {
    /// A claim of `session`, not yet made.
    pub(crate) const fn new(exchange: Arc<Exchange>, session: SessionId) -> Self {
        Self { exchange, session }
    }

    /// The session publishes from now on, and nobody else does.
    pub(crate) fn begin(&self, now: Instant) {
        self.exchange.take_over(&self.session, now);
    }

    /// The session is the one that publishes.
    pub(crate) fn is_current(&self) -> bool {
        self.exchange.is_publisher(&self.session)
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        self.exchange.leave(&self.session);
    }
}
