//! The certificate that a server shows, accepted or not.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

use crate::trust::{AnyCertificate, CertificateObserver, ROOTS, ShownCertificate};

/// The certificate of a server, and what a browser with the system's authorities says about it.
#[derive(Clone, Debug)]
pub struct Presented {
    /// Certificates in DER, the server's own first.
    pub chain: Vec<Vec<u8>>,
    /// Why clients refuse the certificate; `None` if they accept it.
    pub fault: Option<CertificateFault>,
}

/// Why clients refuse a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet, or this machine's clock is wrong.
    NotYetValid,
    /// The certificate is for other names.
    Name {
        /// Names and addresses in the certificate, as the TLS library writes them.
        presented: Vec<String>,
    },
    /// No authority that this machine trusts has signed it, or the chain has a gap.
    UnknownIssuer,
    /// Any other reason, in the words of the TLS library.
    Other(String),
}

/// Makes a TLS handshake for `host` at `address`, whatever the certificate is.
///
/// # Errors
/// There is no connection, or no handshake within `patience`.
pub fn present(host: &str, address: SocketAddr, patience: Duration) -> io::Result<Presented> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let witness = Arc::new(Witness::new(&provider));
    let verifier = AnyCertificate::new(Arc::clone(&provider), Arc::clone(&witness));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut tcp = TcpStream::connect_timeout(&address, patience)?;
    tcp.set_read_timeout(Some(patience))?;
    tcp.set_write_timeout(Some(patience))?;
    let handshake = tls.complete_io(&mut tcp);
    let seen = witness
        .seen
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(presented) = seen else {
        return Err(handshake
            .err()
            .unwrap_or_else(|| io::Error::other("the server showed no certificate")));
    };
    tls.send_close_notify();
    // The answer is known; a server that closed first is no fault.
    let _ = tls.complete_io(&mut tcp).and_then(|_| tcp.flush());
    Ok(presented)
}

/// Returns what clients say about a certificate for `host` at `now`, with the system's authorities.
///
/// `chain`: certificates in DER, the server's own first.
pub fn fault_of(chain: &[Vec<u8>], host: &str, now: SystemTime) -> Option<CertificateFault> {
    let chain: Vec<_> = chain.iter().cloned().map(CertificateDer::from).collect();
    let (own, others) = chain.split_first()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        return Some(CertificateFault::Other(format!("{host} is no host name")));
    };
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = UnixTime::since_unix_epoch(now);
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    Witness::new(&provider).judge(own, others, &name, &[], now)
}

/// Keeps the certificate of a server with the judgement of the system's authorities.
#[derive(Debug)]
struct Witness {
    /// `None` on a machine without authorities.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    seen: Mutex<Option<Presented>>,
}

impl Witness {
    fn new(provider: &Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(ROOTS.iter().cloned());
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        Self {
            verifier: builder.build().ok(),
            seen: Mutex::default(),
        }
    }

    fn judge(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Option<CertificateFault> {
        let Some(verifier) = &self.verifier else {
            return Some(CertificateFault::UnknownIssuer);
        };
        let error = verifier
            .verify_server_cert(own, others, name, ocsp, now)
            .err()?;
        Some(match error {
            rustls::Error::InvalidCertificate(error) => fault(error),
            other => CertificateFault::Other(other.to_string()),
        })
    }
}

fn fault(error: CertificateError) -> CertificateFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateFault::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotYetValid
        }
        CertificateError::NotValidForName => CertificateFault::Name {
            presented: Vec::new(),
        },
        CertificateError::NotValidForNameContext { presented, .. } => {
            CertificateFault::Name { presented }
        }
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        other => CertificateFault::Other(other.to_string()),
    }
}

impl CertificateObserver for Arc<Witness> {
    fn observe(&self, shown: ShownCertificate<'_>) {
        let ShownCertificate {
            own,
            others,
            name,
            ocsp,
            now,
        } = shown;
        let presented = Presented {
            chain: std::iter::once(own)
                .chain(others)
                .map(|certificate| certificate.to_vec())
                .collect(),
            fault: self.judge(own, others, name, ocsp, now),
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(presented);
    }
}
