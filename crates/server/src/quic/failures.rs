//! Notes QUIC sessions that were not granted among the failed connections.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use glassline_quic::moq::Role;

use super::SessionContext;
use super::access::Denied;
use super::broadcasts::Fault;
use super::counters::Reason;
use crate::failures::{ClientRole, ConnectionFailure, Protocol, Stage};

/// What to raise where there are too many sessions.
const LIMITS: &str = "raise quic.clients or quic.clients_per_address";

/// What to change where a client has sent an alert of TLS.
const UNTRUSTED: &str = "the client may not trust the certificate: pin its fingerprint, or give quic.certificate one that the client knows";

/// How to show a right.
const TOKEN: &str = "give the client a token or a user with this right: ?token=… in its URL";

impl SessionContext {
    /// Counts and notes that a handshake ended because another one needed its place.
    pub(super) fn note_eviction(&self, peer: SocketAddr) {
        self.counters.refuse(Reason::Full);
        let reason =
            "another connection needed the place of this one, whose handshake was not done";
        self.note_failure(peer, None, (Stage::Server, reason.to_owned()), Some(LIMITS));
    }

    /// Counts and notes that a handshake failed.
    pub(super) fn note_handshake(&self, peer: SocketAddr, error: &dyn Error) {
        self.counters.refuse(Reason::Handshake);
        let reason = format!("the QUIC handshake failed: {error}");
        let is_of_tls = reason.contains("cryptographic handshake");
        let remedy = is_of_tls.then_some(UNTRUSTED);
        self.note_failure(peer, None, (Stage::Handshake, reason), remedy);
    }

    /// Counts and notes that there was no place for a client.
    pub(super) fn note_full(&self, peer: SocketAddr) {
        self.counters.refuse(Reason::Full);
        let reason = "the server has as many QUIC sessions as allowed, of all or of this address";
        self.note_failure(peer, None, (Stage::Server, reason.to_owned()), Some(LIMITS));
    }

    /// Notes why a publisher that was granted its session could not publish.
    pub(super) fn note_disconnected(&self, peer: SocketAddr, fault: &Fault) {
        let (stage, remedy) = match fault.reason {
            Reason::Unauthorized => (Stage::Rights, Some(TOKEN)),
            Reason::Full => (
                Stage::Server,
                Some("raise limits.streams, or publish some of the streams in another session"),
            ),
            Reason::Busy => (
                Stage::Stream,
                Some("stop the other publisher, or publish under another name"),
            ),
            Reason::Silent => (
                Stage::Media,
                Some("set the encoder's keyframe interval to 2 s or less"),
            ),
            Reason::Handshake | Reason::Name | Reason::Catalog | Reason::Frame => {
                (Stage::Offer, None)
            }
        };
        if let Some(why) = &fault.why {
            let asked = (fault.stream.as_str(), Role::Publisher);
            self.note_failure(peer, Some(asked), (stage, why.clone()), remedy);
        }
    }

    /// Notes that a client, which asked for a path in a role, was refused.
    pub(super) fn note_refusal(&self, peer: SocketAddr, asked: (&str, Role), why: &Denied) {
        let remedy = match why {
            Denied::Page(_) => None,
            Denied::NoRight | Denied::Login(_) => Some(TOKEN),
        };
        self.note_failure(peer, Some(asked), (Stage::Rights, why.to_string()), remedy);
    }

    /// Notes why a session failed. `asked`: path and role of its request, if there was one.
    fn note_failure(
        &self,
        peer: SocketAddr,
        asked: Option<(&str, Role)>,
        (stage, reason): (Stage, String),
        remedy: Option<&str>,
    ) {
        let (path, role) = asked.unzip();
        let failure = ConnectionFailure {
            stream: path.unwrap_or_default().to_owned(),
            protocol: Protocol::Quic,
            role: match role {
                Some(Role::Publisher) => ClientRole::Publisher,
                Some(Role::Subscriber) => ClientRole::Viewer,
                Some(Role::Both) | None => ClientRole::Client,
            },
            stage,
            from: peer.ip(),
            session: None,
            reason,
            remedy: remedy.map(str::to_owned),
        };
        self.failures.note(failure, Instant::now());
    }
}
