//! What a peer needs until its handshake is done.

use glassline_runtime::SessionId;

use crate::sessions::admission::Permit;
use crate::sessions::offer::ConnectionAddresses;

/// The state that only a connecting peer has.
#[derive(Debug)]
pub(in crate::sessions) struct Connecting {
    /// The right to a half-open session.
    pub(super) permit: Permit,
    /// Both ends of the request that made the session.
    pub(super) addresses: ConnectionAddresses,
}

impl Connecting {
    pub(in crate::sessions) const fn new(permit: Permit, addresses: ConnectionAddresses) -> Self {
        Self { permit, addresses }
    }

    /// Names the session that the permit is for.
    pub(in crate::sessions) fn assign(&self, session: &SessionId) {
        self.permit.assign(session);
    }
}

/// The reason why the server ended a session, where the session itself cannot know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sessions) enum Dismissal {
    /// The client said that it leaves.
    Left,
    /// Another session needed the place of this one.
    Evicted,
}
