//! Which certificate each listener shows.

use std::net::SocketAddr;
use std::sync::Arc;

use glassline_access::tls::{AcmeSource, CertificateStore, Challenges, FilesError, LanSource};
use glassline_config::{Config, PemFiles, Tls};
use glassline_runtime::{Part, Supervisor, spawn_kept};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;

/// The certificates of the listeners within TLS.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    /// The certificate of `tls`.
    shared: Option<Arc<CertificateStore>>,
    /// The certificate of RTSPS: its own, or that of `tls`.
    pub(super) rtsps: Option<Arc<CertificateStore>>,
    /// The certificate of QUIC: its own, or that of `tls`; `None` for one that clients pin.
    pub(super) quic: Option<Arc<CertificateStore>>,
    /// The private authority, if `tls` is `lan`.
    pub(super) lan: Option<Arc<LanSource>>,
    /// The source of certificates over ACME, if `tls` is `acme`.
    pub(super) acme: Option<Arc<AcmeSource>>,
    /// Files that are read again when they change.
    pub(super) files: Vec<(Arc<CertificateStore>, PemFiles)>,
}

/// Checks the certificates that `config` names, and that each listener within TLS has one. Nothing
/// is made or obtained for it.
///
/// # Errors
/// Returns [`StartError`] with the file or the setting, and what to do.
pub fn check_certificates(config: &Config) -> Result<(), StartError> {
    let (of_rtsps, of_quic) = (config.rtsp.tls.files()?, config.quic.files()?);
    let shared = match &config.tls {
        Some(Tls::Files(files)) => Some(files),
        Some(Tls::Acme(acme)) => {
            AcmeSource::check(acme, config.https_address())?;
            None
        }
        Some(Tls::Lan(_)) | None => None,
    };
    for files in [shared, of_rtsps.as_ref(), of_quic.as_ref()]
        .into_iter()
        .flatten()
    {
        files.load()?;
    }
    let rtsps = config.rtsp.tls.address.filter(|_| of_rtsps.is_none());
    let needed = [
        ("https.address", config.https_address()),
        ("admin.https", config.admin.https),
        ("rtsp.tls.address", rtsps),
    ];
    let mut needed = needed.into_iter().filter(|_| config.tls.is_none());
    match needed.find_map(|(setting, address)| Some((setting, address?))) {
        Some((setting, address)) => Err(StartError::NoCertificate { setting, address }),
        None => Ok(()),
    }
}

impl Certificates {
    /// Loads all certificates that `config` names.
    ///
    /// # Errors
    /// Returns [`StartError::Certificates`] with the file and what to do.
    pub(super) fn load(config: &Config) -> Result<Self, StartError> {
        let mut certificates = Self::default();
        let shared = match &config.tls {
            None => None,
            Some(Tls::Files(files)) => Some(certificates.watch("tls", files)?),
            Some(Tls::Lan(lan)) => {
                let source = LanSource::open(lan, config.state_folder.as_deref())?;
                let store = Arc::clone(source.store());
                certificates.lan = Some(Arc::new(source));
                Some(store)
            }
            Some(Tls::Acme(acme)) => {
                let address = config.https_address();
                let source = AcmeSource::open(acme, config.state_folder.as_deref(), address)?;
                let store = Arc::clone(source.store());
                certificates.acme = Some(Arc::new(source));
                Some(store)
            }
        };
        let own = config.rtsp.tls.files()?;
        let own = own.map(|files| certificates.watch("rtsp.tls", &files));
        certificates.rtsps = own.transpose()?.or_else(|| shared.clone());
        let own = config
            .quic
            .files()?
            .filter(|_| config.quic.address.is_some());
        let own = own.map(|files| certificates.watch("quic", &files));
        certificates.quic = own.transpose()?.or_else(|| shared.clone());
        certificates.shared = shared;
        Ok(certificates)
    }

    /// Starts the tasks that make or obtain new certificates in time, until `stopped`.
    pub(super) fn keep(
        &self,
        supervisor: &Arc<Supervisor>,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let part = Part::Background;
        let lan = self.lan.clone().map(|lan| {
            let until = stopped.clone();
            let keep = move || Arc::clone(&lan).keep(until.clone());
            spawn_kept(supervisor, part.task("lan certificate"), stopped, keep)
        });
        let acme = self.acme.clone().map(|acme| {
            let until = stopped.clone();
            let keep = move || Arc::clone(&acme).keep(until.clone());
            spawn_kept(supervisor, part.task("acme certificate"), stopped, keep)
        });
        lan.into_iter().chain(acme).collect()
    }

    fn watch(
        &mut self,
        source: &'static str,
        files: &PemFiles,
    ) -> Result<Arc<CertificateStore>, FilesError> {
        let store = CertificateStore::new(source, files.load()?);
        self.files.push((Arc::clone(&store), files.clone()));
        Ok(store)
    }

    /// Returns the certificate for HTTPS at `address`, the value of `setting`.
    ///
    /// # Errors
    /// Returns [`StartError::NoCertificate`] if `tls` names none.
    pub(super) fn of_https(
        &self,
        setting: &'static str,
        address: SocketAddr,
    ) -> Result<&Arc<CertificateStore>, StartError> {
        let none = StartError::NoCertificate { setting, address };
        self.shared.as_ref().ok_or(none)
    }

    /// Returns the answers to the challenges of an authority, if the certificate comes from one.
    pub(super) fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.acme.as_ref().map(|acme| acme.challenges())
    }

    /// Returns every store once.
    pub(super) fn stores(&self) -> Vec<Arc<CertificateStore>> {
        let mut stores: Vec<Arc<CertificateStore>> = Vec::new();
        let named = [&self.shared, &self.rtsps, &self.quic];
        for store in named.into_iter().flatten() {
            if !stores.iter().any(|known| Arc::ptr_eq(known, store)) {
                stores.push(Arc::clone(store));
            }
        }
        stores
    }
}
