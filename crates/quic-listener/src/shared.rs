//! The part of the QUIC listener that other parts of the server use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_quic::moq::{Refusal, Server};
use glassline_quic::{AddressValidationCounters, Fingerprint, Identity, IdentityError};
use glassline_runtime::Current;
use tokio::sync::watch;

use super::account::{Accounts, SessionView};
use super::counters::Counters;
use super::places::Places;

/// Time that a client has to connect again, to this server or another one, before its session ends.
const DEPARTURE: Duration = Duration::from_secs(1);

/// The part of the QUIC listener that other parts of the server use.
#[derive(Debug)]
pub struct Shared {
    pub(super) accounts: Arc<Accounts>,
    pub(super) counters: Arc<Counters>,
    pub(super) fingerprint: watch::Sender<Fingerprint>,
    /// SHA-256 of the certificate that comes next, once it is announced.
    pub(super) next_fingerprint: Current<Option<Fingerprint>>,
    pub(super) server: Arc<Server>,
    pub(super) places: Arc<Places>,
    /// Congestion control of sessions that come from now on.
    pub(super) congestion: Arc<Current<Algorithm>>,
}

impl Shared {
    /// Replaces the numbers of sessions, for those that come from now on; others go on.
    pub(crate) fn set_sessions(&self, max: usize, max_per_address: usize) {
        self.places.set(max, max_per_address);
    }

    /// Replaces the congestion control, for sessions that come from now on; others keep theirs.
    pub(crate) fn set_congestion(&self, algorithm: Algorithm) {
        self.congestion.replace(algorithm);
    }

    /// Returns the fingerprint of the certificate that is shown now.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.borrow()
    }

    /// Returns the SHA-256 of the certificate that comes next; `None` before it is announced.
    pub(crate) fn next_fingerprint(&self) -> Option<Fingerprint> {
        *self.next_fingerprint.get()
    }

    /// Returns what tells the present fingerprint, and each one after it.
    pub fn watch_fingerprint(&self) -> watch::Receiver<Fingerprint> {
        self.fingerprint.subscribe()
    }

    /// Uses another certificate for new connections. Returns whether it differs from the one before.
    ///
    /// # Errors
    /// The certificate and its key are not usable together; the old certificate stays.
    pub fn renew(&self, identity: &Identity) -> Result<bool, IdentityError> {
        self.server.renew(identity)?;
        let fingerprint = identity.fingerprint();
        Ok(self.fingerprint.send_replace(fingerprint) != fingerprint)
    }

    pub(crate) fn sessions(&self, now: Instant) -> Vec<SessionView> {
        self.accounts.views(now)
    }

    /// Ends session `id` on behalf of an operator. Returns whether there is such a session.
    pub(crate) fn dismiss(&self, id: u64) -> bool {
        let session = self.accounts.dismiss(id);
        if let Some(session) = &session {
            tracing::info!(peer = %session.peer(), "QUIC session ended by an operator");
            session.abort(Refusal::Dismissed);
        }
        session.is_some()
    }

    /// Returns the sessions of clients that may read and publish nothing.
    pub(crate) fn readers(&self) -> Vec<u64> {
        self.accounts.readers()
    }

    /// Tells the client of session `id` to connect again, and ends the session a second later. Returns
    /// whether there is such a session.
    pub(crate) fn send_elsewhere(&self, id: u64) -> bool {
        let session = self.accounts.session(id);
        if let Some(session) = &session {
            session.send_away(DEPARTURE);
        }
        session.is_some()
    }

    /// Returns the number of sessions and of handshakes under way.
    pub(crate) fn taken(&self) -> usize {
        self.accounts.taken()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns what became of first packets of connections above the rates.
    pub(crate) fn address_validation(&self) -> &AddressValidationCounters {
        self.server.address_validation()
    }
}
