//! Where the certificate of QUIC comes from.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use glassline_access::tls::CertificateStore;
use glassline_config as config;
use glassline_quic::{Fingerprint, Identity, IdentityError};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::pinned::PinnedCertificates;

/// The certificate of a store, or one that the server makes and clients pin by its SHA-256.
#[derive(Clone, Debug)]
pub struct CertificateSource {
    pinned: Arc<Mutex<PinnedCertificates>>,
    store: Option<Arc<CertificateStore>>,
}

impl CertificateSource {
    /// Creates the source of a listener with this configuration. Certificates that the server makes
    /// are kept beside `state_file`; `None` keeps them as long as the process.
    pub fn new(
        config: &config::Quic,
        store: Option<Arc<CertificateStore>>,
        state_file: Option<&Path>,
    ) -> Self {
        let file = state_file.map(|it| it.with_extension("moq.json"));
        Self {
            pinned: Arc::new(Mutex::new(PinnedCertificates::open(config.names(), file))),
            store,
        }
    }

    /// Returns the certificate for new connections. A store that has none yet is like no store, so
    /// that clients which pin a certificate are served meanwhile.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if no certificate can be made.
    pub(super) fn identity(&self, now: SystemTime) -> Result<Identity, IdentityError> {
        if let Some(current) = self.store.as_ref().and_then(|it| it.current()) {
            return Ok(Identity::new(
                current.chain().to_vec(),
                current.key().clone_key(),
            ));
        }
        let mut pinned = self.pinned.lock();
        pinned.tend(now)?;
        pinned.present()
    }

    /// Returns whether [`identity`](Self::identity) or [`next`](Self::next) are others at `now`, without
    /// a change of the store.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if no certificate can be made.
    pub(super) fn tend(&self, now: SystemTime) -> Result<bool, IdentityError> {
        let has_store = self.store.as_ref().is_some_and(|it| it.current().is_some());
        match has_store {
            true => Ok(false),
            false => self.pinned.lock().tend(now),
        }
    }

    /// Returns the SHA-256 of the certificate that replaces a pinned one within some days; `None` before
    /// it is announced.
    pub(super) fn next(&self) -> Option<Fingerprint> {
        let has_store = self.store.as_ref().is_some_and(|it| it.current().is_some());
        self.pinned.lock().next().filter(|_| !has_store)
    }

    /// Returns what tells that the store has another certificate; `None` if there is no store.
    pub(super) fn watch(&self) -> Option<watch::Receiver<()>> {
        let mut changes = self.store.as_ref()?.watch();
        // The store may have changed since the first certificate was taken from it.
        changes.mark_changed();
        Some(changes)
    }
}

/// Waits until the store has another certificate. Waits forever if there is no store.
pub(super) async fn changed(changes: &mut Option<watch::Receiver<()>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
