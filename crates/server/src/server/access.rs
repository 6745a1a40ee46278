//! Who may use the server, and the certificates by which it is known.

use std::sync::Arc;

use glassline_access::auth::{Sites, Users};
use glassline_config::Config;

use super::StartError;
use super::certificates::Certificates;
use crate::app::TlsParts;

/// Users with their tokens and the webhook that is asked for rights, pages of other sites, and
/// certificates.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) users: Arc<Users>,
    pub(super) sites: Arc<Sites>,
    pub(super) certificates: Certificates,
}

impl Access {
    /// Loads the certificates, and takes users from the configuration. The keys of an identity
    /// provider are read later.
    ///
    /// # Errors
    /// Returns [`StartError`] with the file of the certificate, and what to do.
    pub(super) fn load(config: &Config) -> Result<Self, StartError> {
        let certificates = Certificates::load(config)?;
        Ok(Self {
            users: Arc::new(Users::new(&config.auth)),
            sites: Arc::new(config.sites()),
            certificates,
        })
    }

    /// Returns what handlers of HTTP know of the certificates.
    pub(super) fn tls_parts(&self) -> TlsParts {
        TlsParts {
            lan: self.certificates.lan.clone(),
            challenges: self.certificates.challenges().cloned(),
            certificates: self.certificates.stores().into(),
        }
    }
}
