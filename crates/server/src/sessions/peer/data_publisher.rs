//! The role of a peer that publishes messages beside a stream, and no media.

use std::time::Instant;

use crate::messages::Publication;

/// What only a publisher of messages needs: its right to be the one that publishes.
#[derive(Debug)]
pub(crate) struct DataPublisher {
    publication: Publication,
}

impl DataPublisher {
    /// A publisher that will publish by `publication` once its handshake is done.
    pub(crate) const fn new(publication: Publication) -> Self {
        Self { publication }
    }

    /// The session has keys: it publishes from now on, and nobody else does.
    pub(super) fn start(&self, now: Instant) {
        self.publication.begin(now);
    }

    /// Another session publishes since this one began.
    pub(super) fn is_replaced(&self) -> bool {
        !self.publication.is_current()
    }
}
