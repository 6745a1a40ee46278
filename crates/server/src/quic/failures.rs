//! Notes QUIC sessions that were not granted among the failed connections.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use glassline_quic::moq::Role;

use super::SessionContext;
use super::access::Denied;
use super::counters::Reason;
use crate::failures::{ClientRole, ConnectionFailure, Protocol, Stage};

impl SessionContext {
    /// Counts and notes that a handshake ended because another one needed its place.
    pub(super) fn note_eviction(&self, peer: SocketAddr) {
        self.counters.refuse(Reason::Full);
        let reason =
            "another connection needed the place of this one, whose handshake was not done";
        self.note_failure(peer, None, Stage::Server, reason.to_owned());
    }

    /// Counts and notes that a handshake failed.
    pub(super) fn note_handshake(&self, peer: SocketAddr, error: &dyn Error) {
        self.counters.refuse(Reason::Handshake);
        let reason = format!("the QUIC handshake failed: {error}");
        self.note_failure(peer, None, Stage::Handshake, reason);
    }

    /// Notes that a client, which asked for a path in a role, was refused.
    pub(super) fn note_refusal(&self, peer: SocketAddr, asked: (&str, Role), why: &Denied) {
        self.note_failure(peer, Some(asked), Stage::Rights, why.to_string());
    }

    /// Notes why a session failed. `asked`: path and role of its request, if there was one.
    fn note_failure(
        &self,
        peer: SocketAddr,
        asked: Option<(&str, Role)>,
        stage: Stage,
        reason: String,
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
            remedy: None,
        };
        self.failures.note(failure, Instant::now());
    }
}
