//! The role of a peer that publishes messages next to a stream, and no media.

use std::time::Instant;

use glassline_messages::Publication;

/// The state that only a publisher of messages needs: its right to publish.
#[derive(Debug)]
pub(crate) struct DataPublisher {
    publication: Publication,
}

impl DataPublisher {
    /// Creates the role. Publishing through `publication` begins when the handshake is done.
    pub(crate) const fn new(publication: Publication) -> Self {
        Self { publication }
    }

    /// Begins to publish, because the session has keys now, and replaces an earlier publisher.
    pub(super) fn start(&self, now: Instant) {
        self.publication.begin(now);
    }

    /// Returns whether another session has taken over since this one began.
    pub(super) fn is_replaced(&self) -> bool {
        !self.publication.is_current()
    }
}
