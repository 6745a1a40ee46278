//! The certificate that listeners show to clients.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::certificate::provider;
use super::{CHALLENGE_ALPN, Certificate, Challenges};

/// The certificate that every handshake uses from now on. One source fills it; listeners of
/// several protocols may share it.
///
/// A handshake holds the lock for reading while it copies a pointer, and only the exchange of that
/// pointer holds it for writing, so that no handshake waits for a disk or a network.
#[derive(Debug)]
pub struct CertificateStore {
    /// The configuration or the source that the certificate comes from, for people.
    source: &'static str,
    current: RwLock<Option<Arc<Certificate>>>,
    /// The reason why the newest attempt to renew the certificate failed.
    problem: Mutex<Option<String>>,
    changes: watch::Sender<()>,
}

/// The view that operators have of a [`CertificateStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// The configuration or the source that the certificate comes from.
    pub source: &'static str,
    /// Whether there is a certificate, so that handshakes can succeed.
    pub is_present: bool,
    /// Time until which clients accept the certificate, if that is known.
    pub not_after: Option<SystemTime>,
    /// The reason why the newest attempt to renew the certificate failed.
    pub problem: Option<String>,
}

impl CertificateStatus {
    /// Returns the time until clients no longer accept the certificate, in seconds; negative if that
    /// time has passed, `None` if it is unknown.
    pub fn expires_in_s(&self, now: SystemTime) -> Option<i64> {
        let seconds = match self.not_after?.duration_since(now) {
            Ok(left) => i64::try_from(left.as_secs()).ok()?,
            Err(past) => -i64::try_from(past.duration().as_secs()).ok()?,
        };
        Some(seconds)
    }
}

impl CertificateStore {
    /// Creates a store without a certificate; handshakes fail until [`replace`](Self::replace) is
    /// called. `source` tells people where the certificate comes from.
    pub fn empty(source: &'static str) -> Arc<Self> {
        Arc::new(Self {
            source,
            current: RwLock::new(None),
            problem: Mutex::default(),
            changes: watch::Sender::new(()),
        })
    }

    /// Creates a store that shows `certificate`.
    pub fn new(source: &'static str, certificate: Certificate) -> Arc<Self> {
        let store = Self::empty(source);
        store.replace(certificate);
        store
    }

    /// Returns the certificate of the next handshake.
    pub fn current(&self) -> Option<Arc<Certificate>> {
        let current = self.current.read();
        current.clone()
    }

    /// Uses another certificate for handshakes from now on. Established connections keep the one
    /// that they began with. Returns whether it differs from the one before.
    pub fn replace(&self, certificate: Certificate) -> bool {
        let fresh = Arc::new(certificate);
        let mut current = self.current.write();
        let before = current.replace(Arc::clone(&fresh));
        drop(current);
        *self.problem.lock() = None;
        let is_new = before.is_none_or(|before| before.chain() != fresh.chain());
        self.changes.send_replace(());
        is_new
    }

    /// Notes the reason why the certificate could not be renewed; the present one stays in use.
    /// Returns whether the reason is another one than before.
    pub fn note_problem(&self, problem: String) -> bool {
        let mut noted = self.problem.lock();
        let is_new = noted.as_ref() != Some(&problem);
        *noted = Some(problem);
        is_new
    }

    /// Returns what operators are told.
    pub fn status(&self) -> CertificateStatus {
        let current = self.current();
        CertificateStatus {
            source: self.source,
            is_present: current.is_some(),
            not_after: current.and_then(|it| it.not_after()),
            problem: self.problem.lock().clone(),
        }
    }

    /// Returns what tells that the certificate was replaced.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Returns the configuration of a listener for RTSP.
    ///
    /// # Errors
    /// Returns an error if the cryptography does not support the usual versions of TLS.
    pub fn rtsps(self: &Arc<Self>) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
        let mut config = self.server_config()?;
        // Session resumption is turned off: a player stays for hours and gains nothing by it, and
        // tickets would be written to clients that never come again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// Returns the configuration of a listener for HTTP. `challenges`: what authorities look for
    /// there, if the certificate comes from one.
    ///
    /// # Errors
    /// Returns an error if the cryptography does not support the usual versions of TLS.
    pub fn https(
        self: &Arc<Self>,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
        let mut protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut config = match challenges {
            None => self.server_config()?,
            Some(challenges) => {
                protocols.push(CHALLENGE_ALPN.to_vec());
                configuration(Arc::new(ChallengedStore {
                    store: Arc::clone(self),
                    challenges: Arc::clone(challenges),
                }))?
            }
        };
        config.alpn_protocols = protocols;
        Ok(Arc::new(config))
    }

    fn server_config(self: &Arc<Self>) -> Result<rustls::ServerConfig, rustls::Error> {
        configuration(Arc::clone(self) as Arc<dyn ResolvesServerCert>)
    }
}

fn configuration(
    resolver: Arc<dyn ResolvesServerCert>,
) -> Result<rustls::ServerConfig, rustls::Error> {
    Ok(rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver))
}

/// A store whose listener also answers the challenges of an authority.
#[derive(Debug)]
struct ChallengedStore {
    store: Arc<CertificateStore>,
    challenges: Arc<Challenges>,
}

impl ResolvesServerCert for ChallengedStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match self.challenges.of_handshake(&hello) {
            (true, answer) => answer,
            (false, _) => self.store.resolve(hello),
        }
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.current()?.certified()))
    }
}
