//! The addresses of a peer, and the routes of the answers to it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use glassline_webrtc::TransportAddress;

use glassline_egress::webrtc::Route;

/// Most addresses of one peer that lead to its session: one for each candidate pair that a browser
/// tries.
const ADDRESSES_MAX: usize = 16;

/// Time without an authentic datagram from the address in use after which another peer may have the
/// address for the asking. Peers send checks at least every 5 s, and reports more often.
const SILENT: Duration = Duration::from_secs(6);

/// The addresses that belong to one peer.
#[derive(Debug, Default)]
pub(in crate::sessions) struct Addresses {
    /// Addresses from which authentic datagrams of the peer came, oldest first.
    known: Vec<TransportAddress>,
    /// Address that another peer uses now: nothing is sent there.
    muted: Option<TransportAddress>,
    /// The server's address that the peer sends to; `None` if the socket does not tell.
    local: Option<IpAddr>,
    /// When an authentic datagram came from the address in use.
    heard: Option<Instant>,
}

impl Addresses {
    /// Returns all addresses that lead to the peer.
    pub(in crate::sessions) fn known(&self) -> &[TransportAddress] {
        &self.known
    }

    /// Notes that an authentic datagram came from `address` to the server's address `local`. If
    /// there are too many addresses, returns the one that is forgotten: the oldest except `in_use`.
    pub(super) fn note(
        &mut self,
        from: TransportAddress,
        to: Option<IpAddr>,
        in_use: Option<TransportAddress>,
        now: Instant,
    ) -> Option<TransportAddress> {
        self.local = to;
        if in_use == Some(from) {
            self.heard = Some(now);
        }
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

    /// Forgets `address`, from which nothing can come any more.
    pub(super) fn forget(&mut self, address: TransportAddress) {
        self.known.retain(|known| *known != address);
    }

    /// Returns whether the peer was heard a short time ago at the address in use.
    pub(super) fn is_heard(&self, now: Instant) -> bool {
        self.heard
            .is_some_and(|at| now.saturating_duration_since(at) < SILENT)
    }

    /// Sends nothing to `address` until [`unmute`](Self::unmute) is called for it.
    pub(super) const fn mute(&mut self, address: TransportAddress) {
        self.muted = Some(address);
    }

    /// Allows sending to `address` again, because an authentic datagram of this peer came from
    /// there.
    pub(super) fn unmute(&mut self, address: TransportAddress) {
        if self.muted == Some(address) {
            self.muted = None;
        }
    }

    /// Returns the route to the peer at `destination`; `None` if that address is muted.
    pub(super) fn route(&self, destination: TransportAddress) -> Option<Route> {
        (self.muted != Some(destination)).then_some(Route {
            destination,
            source: self.local,
        })
    }
}
