//! How far the connection to a peer came, to say why it failed.

use std::time::Instant;

use super::Session;
use crate::TransportAddress;
use crate::dtls::HandshakeTrace;
use crate::ice::StatedCandidates;
use crate::srtp::Role;

/// The view of this end of a session's ICE and DTLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// Addresses that this end offers as candidates.
    pub candidates: Vec<TransportAddress>,
    /// Kinds of candidates that the peer stated.
    pub stated: StatedCandidates,
    /// Number of authentic connectivity checks that arrived.
    pub checks: u32,
    /// Addresses that those checks came from since the last ICE restart, at most 24, the latest
    /// last.
    pub sources: Vec<TransportAddress>,
    /// Instant at which the latest of those checks arrived, from the address in use if there is one;
    /// the session's begin before the first. `None` in a report that no session made.
    pub heard: Option<Instant>,
    /// Number of connectivity checks that this end sent to those addresses. A full agent's own
    /// checks are not counted.
    pub own_checks: u32,
    /// Number of these that the peer answered.
    pub own_checks_answered: u32,
    /// Whether this end is the DTLS client, which begins the handshake.
    pub is_dtls_client: bool,
    /// The messages of the DTLS handshake that were sent and received.
    pub handshake: HandshakeTrace,
    /// Number of RTP packets whose SSRC and payload type were not negotiated.
    pub unnegotiated_packets: u64,
}

impl Session {
    /// Returns what this end has seen of the connection so far, also after the session closed.
    pub fn connection_report(&self) -> ConnectionReport {
        let (checks, sources) = self.ice.received();
        let (own_checks, own_checks_answered) = self.ice.own_checks();
        let dtls = self.dtls.as_ref();
        ConnectionReport {
            candidates: self.ice.local().to_vec(),
            stated: self.ice.stated(),
            checks,
            sources: sources.to_vec(),
            heard: Some(self.ice.last_received()),
            own_checks,
            own_checks_answered,
            is_dtls_client: dtls.is_some_and(|it| it.role() == Role::Client),
            handshake: dtls.map(|it| it.trace().clone()).unwrap_or_default(),
            unnegotiated_packets: self.reports.unnegotiated_packets,
        }
    }
}
