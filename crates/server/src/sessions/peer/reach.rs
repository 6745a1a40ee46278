//! The addresses that lead to a peer, and whether media may go there now.

use std::net::IpAddr;
use std::time::Instant;

use glassline_egress::webrtc::{Outbox, Route};
use glassline_webrtc::TransportAddress;

use super::Peer;

impl Peer {
    /// Returns whether nothing more should be sealed for the peer, because the socket or the peer's
    /// connection is full.
    #[inline]
    pub(in crate::sessions) fn is_blocked(&self, outbox: &Outbox) -> bool {
        match self.session.peer() {
            Some(path) => outbox.is_blocked_to(path),
            None => outbox.is_blocked(),
        }
    }

    /// Returns all addresses that lead to the peer.
    pub(in crate::sessions) fn addresses(&self) -> &[TransportAddress] {
        self.addresses.known()
    }

    /// Notes the address that an authentic datagram came from. If there are too many, returns the
    /// one that is forgotten: the oldest that is not in use.
    pub(in crate::sessions) fn note_address(
        &mut self,
        from: TransportAddress,
        to: Option<IpAddr>,
        now: Instant,
    ) -> Option<TransportAddress> {
        self.addresses.note(from, to, self.session.peer(), now)
    }

    /// Forgets `address`, whose connection has ended.
    pub(in crate::sessions) fn forget_address(&mut self, address: TransportAddress) {
        self.addresses.forget(address);
    }

    /// Returns whether the peer has joined, is sent to at `address`, and was heard there a short
    /// time ago.
    pub(in crate::sessions) fn uses(&self, address: TransportAddress, now: Instant) -> bool {
        self.is_joined() && self.session.peer() == Some(address) && self.addresses.is_heard(now)
    }

    /// Sends nothing to `address`, which another peer uses now, until an authentic datagram of this
    /// peer comes from it.
    pub(in crate::sessions) const fn mute(&mut self, address: TransportAddress) {
        self.addresses.mute(address);
    }

    /// Allows sending to `address` again, because an authentic datagram of this peer came from
    /// there.
    pub(in crate::sessions) fn unmute(&mut self, address: TransportAddress) {
        self.addresses.unmute(address);
    }

    /// Returns the route of the peer's media; `None` before ICE has selected one.
    pub(in crate::sessions) fn route(&self) -> Option<Route> {
        self.addresses.route(self.session.peer()?)
    }
}
