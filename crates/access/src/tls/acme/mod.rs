//! Certificates of a public authority by ACME (RFC 8555): obtained, kept, and renewed in time.
//!
//! ```text
//!  Schedule: when ─► order ──► the authority ──► CertificateStore, state folder
//!                      │            │ connects to port 80 or 443
//!                      └► Challenges ◄── GET /.well-known/acme-challenge/TOKEN (HTTP-01, RFC 8555 §8.3)
//!                                    ◄── handshake with the protocol `acme-tls/1` (RFC 8737)
//! ```
//!
//! The server starts without a certificate and serves plain HTTP meanwhile. Names may be public IP
//! addresses (RFC 8738). DNS-01, and with it wildcards, is not supported.

mod challenges;
mod error;
mod kept;
mod names;
mod order;
mod schedule;
mod settings;
mod transport;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::CertificateStore;
use super::state_folder::{StateFolder, state_folder};
use kept::Kept;
use order::Authority;
use schedule::Schedule;
use transport::Transport;

pub use challenges::ALPN as CHALLENGE_ALPN;
pub use challenges::Challenges;
pub use error::AcmeError;
pub use names::{AcmeName, AcmeNameError};
pub use settings::{Acme, ChallengeKind};

/// Longest time that one order may take; a waiting authority is asked again later.
const ORDER_TIME_MAX: Duration = Duration::from_secs(300);

/// Longest sleep, so that a calendar that was set or a machine that slept is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(600);

/// Fills a [`CertificateStore`] with certificates of an authority that browsers trust.
#[derive(Debug)]
pub struct AcmeSource {
    authority: Authority,
    kept: Kept,
    store: Arc<CertificateStore>,
    schedule: Mutex<Schedule>,
}

impl AcmeSource {
    /// Checks everything that can be checked without an authority. `https`: the address of HTTPS.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if `tls.acme.roots` cannot be read, or the challenge needs HTTPS that is
    /// turned off.
    pub fn check(settings: &Acme, https: Option<SocketAddr>) -> Result<(), AcmeError> {
        Transport::new(settings.roots.as_deref())?;
        match (settings.challenge, https) {
            (Some(ChallengeKind::TlsAlpn01), None) => Err(AcmeError::NoHttps),
            _ => Ok(()),
        }
    }

    /// Opens the state folder, the `configured` one or that of the environment, and uses the
    /// certificate in it if there is one for these names. `https`: the address of HTTPS.
    ///
    /// # Errors
    /// Returns [`AcmeError`] as [`check`](Self::check), and if the folder cannot be used.
    pub fn open(
        settings: &Acme,
        configured: Option<&Path>,
        https: Option<SocketAddr>,
    ) -> Result<Self, AcmeError> {
        Self::check(settings, https)?;
        let transport = Transport::new(settings.roots.as_deref())?;
        let https_port = https.map(|address| address.port());
        let folder = StateFolder::open(&state_folder(configured)?, "acme")?;
        let kept = Kept::new(folder);
        let authority = Authority::new(settings.clone(), transport, https_port);
        let source = Self {
            authority,
            kept,
            store: CertificateStore::empty("tls.acme"),
            schedule: Mutex::default(),
        };
        match source.kept.certificate(settings) {
            Ok(Some(certificate)) => {
                source.store.replace(certificate);
            }
            Ok(None) => {}
            // A new certificate is obtained in its place.
            Err(error) => tracing::warn!(%error, "the certificate in the state folder is not used"),
        }
        Ok(source)
    }

    /// Returns the store that has the certificate as soon as there is one.
    pub const fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// Returns the answers to the authority's challenges.
    pub const fn challenges(&self) -> &Arc<Challenges> {
        self.authority.challenges()
    }

    /// Obtains and renews the certificate in time until `stopped`. May be called again after a panic.
    pub async fn keep(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let now = SystemTime::now();
            let validity = self.store.current().and_then(|it| it.validity());
            let wait = self.schedule.lock().wait(validity, now);
            let step = async {
                if wait.is_zero() {
                    self.renew().await;
                } else {
                    tokio::time::sleep(wait.min(SLEEP_MAX)).await;
                }
            };
            tokio::select! {
                () = step => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Tries once to obtain a certificate, and notes how that went.
    async fn renew(&self) {
        self.schedule.lock().begun(SystemTime::now());
        // What an earlier order was asked to wait for is over.
        self.authority.retry_after();
        let obtained = tokio::time::timeout(ORDER_TIME_MAX, self.obtain()).await;
        let error = match obtained {
            Ok(Ok(())) => return self.schedule.lock().succeeded(),
            Ok(Err(error)) => error,
            Err(_) => AcmeError::Slow {
                directory: self.authority.directory().to_owned(),
            },
        };
        let pause = self.authority.retry_after();
        let wait = self.schedule.lock().failed(SystemTime::now(), pause);
        self.store.note_problem(error.to_string());
        let again_in_s = wait.as_secs();
        let state = match self.store.current() {
            Some(_) => "no new certificate: the previous one stays in use",
            None => "no certificate: HTTPS is not served until there is one",
        };
        tracing::error!(%error, again_in_s, "{state}");
    }

    async fn obtain(&self) -> Result<(), AcmeError> {
        let settings = self.authority.settings();
        tracing::info!(names = %settings.names_text(), directory = settings.directory, "ordering a certificate");
        let account = self.authority.account(&self.kept).await?;
        let issued = match self.authority.order(&account).await {
            // The authority has forgotten it, or another one has the same address now.
            Err(error) if error.is_unknown_account() => {
                let account = self.authority.new_account(&self.kept).await?;
                self.authority.order(&account).await?
            }
            issued => issued?,
        };
        let certificate = issued.certificate()?;
        // A certificate that clients see outlives a crash: without the file, each restart would
        // order another one. If it cannot be kept, it is used all the same.
        let kept = self.kept.keep_certificate(settings, &issued).await;
        self.store.replace(certificate);
        tracing::info!(names = %settings.names_text(), "certificate of the authority in use");
        kept
    }
}
