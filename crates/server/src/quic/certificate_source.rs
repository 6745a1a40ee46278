//! Where the certificate of QUIC comes from.

use std::sync::Arc;

use glassline_access::tls::CertificateStore;
use glassline_quic::{Identity, IdentityError};
use tokio::sync::watch;

use crate::config;

/// The certificate of a store, or one that the server makes and clients pin by its SHA-256.
#[derive(Clone, Debug)]
pub(super) struct CertificateSource {
    pub(super) config: config::Quic,
    pub(super) certificates: Option<Arc<CertificateStore>>,
}

impl CertificateSource {
    /// Returns the certificate for new connections. A store that has none yet is like no store, so
    /// that clients which pin a certificate are served meanwhile.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if no certificate can be made.
    pub(super) fn identity(&self) -> Result<Identity, IdentityError> {
        let current = self.certificates.as_ref().and_then(|it| it.current());
        match current {
            Some(current) => Ok(Identity::new(
                current.chain().to_vec(),
                current.key().clone_key(),
            )),
            None => self.config.self_signed(),
        }
    }

    /// Returns what tells that the store has another certificate; `None` if there is no store.
    pub(super) fn watch(&self) -> Option<watch::Receiver<()>> {
        let mut changes = self.certificates.as_ref()?.watch();
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
