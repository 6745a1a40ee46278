//! The path of an ICE-lite agent: it goes where the peer nominates, once that is proven.

use std::time::Instant;

use is::IceCreds;

use super::consent::Consent;
use super::{Agent, NOMINATION_HELD, PathChange};
use crate::TransportAddress;
use crate::sdp::IceCredentials;

/// The addresses that datagrams of the DTLS handshake were sent to. A peer that completes a
/// handshake has received them, so a single address is proven by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakePath {
    None,
    One(TransportAddress),
    Several,
}

impl Agent {
    /// Notes that a datagram of the handshake goes to the path's address.
    pub(crate) fn on_handshake_sent(&mut self) {
        let Some(path) = self.path else {
            return;
        };
        self.handshake = match self.handshake {
            HandshakePath::None => HandshakePath::One(path),
            HandshakePath::One(other) if other == path => HandshakePath::One(path),
            HandshakePath::One(_) | HandshakePath::Several => HandshakePath::Several,
        };
    }

    /// Notes that the handshake is done. From now on the path leads only to addresses that are
    /// proven. If the present one is not and another one is, that one becomes the path.
    pub(crate) fn on_connected(&mut self, now: Instant) {
        let local = self.path_local;
        let (Some(consent), Some(path)) = (&mut self.consent, self.path) else {
            return;
        };
        if let (HandshakePath::One(address), Some(local)) = (self.handshake, local)
            && !consent.is_proven(address, now)
        {
            consent.prove(address, local, now);
        }
        self.last_received = now;
        if !consent.is_proven(path, now)
            && let Some((address, from)) = consent.latest()
        {
            self.wanted = local.map(|local| (path, local));
            self.path = Some(address);
            self.path_local = Some(from);
        }
        consent.connect(self.path, now);
    }

    /// Selects an address that ICE validated before the peer has nominated any. Returns whether
    /// it did.
    ///
    /// Chromium sends its ClientHello over the first path that works and nominates about 50 ms
    /// later, Pion 200 ms later; waiting for the nomination would add that to every join.
    pub(crate) fn use_before_nomination(
        &mut self,
        source: TransportAddress,
        destination: TransportAddress,
    ) -> bool {
        if self.path.is_some() || !self.validated.contains(&source) {
            return false;
        }
        self.path = Some(source);
        self.path_local = Some(self.arrived_at(destination));
        true
    }

    /// Takes a response to a check of a lite agent. Returns whether the datagram is one.
    pub(super) fn take_response(
        &mut self,
        now: Instant,
        source: TransportAddress,
        datagram: &[u8],
    ) -> bool {
        let Some(consent) = &mut self.consent else {
            return false;
        };
        let Some(remote) = self.agent.remote_credentials() else {
            return false;
        };
        let is_taken = consent.take_response(source, datagram, &remote.pass, self.path, now);
        if is_taken && self.path == Some(source) {
            self.last_received = now;
        }
        is_taken
    }

    /// Goes to the address that the peer nominated, if it is proven by now and the former path is
    /// not kept any more.
    pub(super) fn follow_wanted(&mut self, now: Instant) -> Option<PathChange> {
        let (address, local) = self.wanted?;
        if !self.is_proven(address, now) {
            return None;
        }
        self.nominate(now, address, local)
    }

    /// Goes to the address that the peer nominated because authentic data came from there: a peer
    /// that nominates several pairs sends by the one that it uses. libwebrtc's controlled end
    /// decides in the same way among pairs that are nominated alike.
    pub(crate) fn follow_data(
        &mut self,
        now: Instant,
        source: TransportAddress,
    ) -> Option<PathChange> {
        let (address, _) = self.wanted?;
        if address != source {
            return None;
        }
        self.nominated = None;
        self.follow_wanted(now)
    }

    /// Goes to the address that the peer nominated if the former path has not been nominated again
    /// since.
    pub(super) fn end_hold(&mut self, now: Instant) -> Option<PathChange> {
        let end = self.nominated? + NOMINATION_HELD;
        if self.wanted.is_none() || now < end {
            return None;
        }
        self.nominated = None;
        self.follow_wanted(now)
    }

    /// Returns when [`end_hold`](Self::end_hold) has to be called.
    pub(super) fn hold_deadline(&self) -> Option<Instant> {
        self.wanted?;
        self.nominated.map(|at| at + NOMINATION_HELD)
    }

    /// Clears the address tables except for the path in use. A lite agent learns all of them
    /// again from the peer's next checks. Without this, a viewer whose NAT assigns new ports
    /// now and then would lose its video after hours.
    pub(super) fn forget_addresses(&mut self) {
        let local = self.agent.local_credentials().clone();
        let remote = self.agent.remote_credentials().cloned();
        self.agent.ice_restart(local, true);
        if let Some(remote) = remote {
            self.agent.set_remote_credentials(remote);
        }
        let path = self.path;
        self.validated.retain(|address| Some(*address) == path);
    }

    /// Follows the last nomination of the peer, for a lite agent. The `is` agent would keep an
    /// older path of higher priority until that fails 15 s later, and a phone that leaves its
    /// Wi-Fi would lose its video until then.
    ///
    /// A peer that nominates once (RFC 8445 §8.1.1) is followed at once, or when it has proven the
    /// address. One that nominates several pairs in turn is followed to the pair that it sends by,
    /// or to the last one when it has nominated no other for [`NOMINATION_HELD`].
    pub(super) fn nominate(
        &mut self,
        now: Instant,
        source: TransportAddress,
        local: TransportAddress,
    ) -> Option<PathChange> {
        // A peer may choose another address of this end from the same address of its own.
        if self.path == Some(source) && self.path_local == Some(local) {
            self.nominated = Some(now);
            self.wanted = None;
            return None;
        }
        let is_connected = self.consent.as_deref().is_some_and(Consent::is_connected);
        let is_recent = |at| now.saturating_duration_since(at) < NOMINATION_HELD;
        // Until the handshake is done there is no media that could jump, and the rest of the handshake
        // comes by the pair that the peer chose last.
        let is_held = self.nominated.is_some_and(is_recent);
        let unproven = |consent: &Consent| !consent.is_proven(source, now);
        if is_connected && (is_held || self.consent.as_deref().is_some_and(unproven)) {
            // Media stays where the peer is known to be until the peer answers a check, and for a
            // while after that path was nominated.
            self.wanted = Some((source, local));
            return None;
        }
        self.wanted = None;
        self.nominated = Some(now);
        self.path = Some(source);
        self.path_local = Some(local);
        self.last_received = now;
        if let Some(consent) = &mut self.consent {
            consent.follow(self.path, now);
        }
        Some(PathChange::Path(source))
    }

    /// Writes the next check of a lite agent over `out`.
    pub(super) fn poll_check(
        &mut self,
        out: &mut Vec<u8>,
    ) -> Option<(TransportAddress, TransportAddress)> {
        let consent = self
            .consent
            .as_mut()
            .filter(|consent| consent.has_checks())?;
        let local = sdp_credentials(self.agent.local_credentials());
        let remote = sdp_credentials(self.agent.remote_credentials()?);
        consent.poll_transmit(out, &local, &remote)
    }
}

fn sdp_credentials(credentials: &IceCreds) -> IceCredentials {
    IceCredentials {
        ufrag: credentials.ufrag.clone(),
        pwd: credentials.pass.clone(),
    }
}
