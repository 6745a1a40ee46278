//! Where a peer's datagrams come from, and how it is answered.

use std::net::{IpAddr, SocketAddr};

use crate::egress::webrtc::Route;

/// Addresses of one peer that lead to its session: one for each candidate
/// pair that a browser tries.
const ADDRESSES_MAX: usize = 16;

/// The addresses of one peer.
#[derive(Debug, Default)]
pub(in crate::sessions) struct Addresses {
    /// Where its datagrams came from.
    known: Vec<SocketAddr>,
    /// An address that another peer speaks from now: nothing is sent there.
    muted: Option<SocketAddr>,
    /// Which of our addresses it writes to.
    local: Option<IpAddr>,
}

impl Addresses {
    /// All that lead to the peer.
    pub(in crate::sessions) fn known(&self) -> &[SocketAddr] {
        &self.known
    }

    /// Notes where an authentic datagram came from, and at which of our addresses it
    /// arrived. Returns the address that is forgotten for it if there are too many: the
    /// oldest but the one `in_use`.
    pub(super) fn note(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        in_use: Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        self.local = to;
        if self.known.contains(&from) {
            return None;
        }
        let spare = self
            .known
            .iter()
            .position(|address| Some(*address) != in_use)
            .filter(|_| self.known.len() >= ADDRESSES_MAX);
        let forgotten = spare.map(|place| self.known.remove(place));
        self.known.push(from);
        forgotten
    }

    /// Sends nothing to `address` until it is [unmuted](Self::unmute).
    pub(super) const fn mute(&mut self, address: SocketAddr) {
        self.muted = Some(address);
    }

    /// An authentic datagram of this peer came from `address`.
    pub(super) fn unmute(&mut self, address: SocketAddr) {
        if self.muted == Some(address) {
            self.muted = None;
        }
    }

    /// How a datagram reaches the peer at `destination`; `None` if that is muted.
    pub(super) fn route(&self, destination: SocketAddr) -> Option<Route> {
        (self.muted != Some(destination)).then_some(Route {
            destination,
            source: self.local,
        })
    }
}
