use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};

use crate::Fingerprint;

/// A server's certificate that was refused, by which it can be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence("server"))]
pub struct UntrustedCertificate {
    /// Fingerprint of the refused certificate.
    pub fingerprint: Fingerprint,
    /// The reason why the certificate was refused.
    pub reason: String,
}

impl UntrustedCertificate {
    /// Returns the refused certificate that a TLS handshake over TCP failed for; `None` if it failed
    /// for something else.
    pub fn of(error: &io::Error) -> Option<&Self> {
        Self::in_tls(error.get_ref()?.downcast_ref()?)
    }

    /// Returns the refused certificate that is the reason of an error of TLS; `None` if there is another
    /// reason.
    pub fn in_tls(error: &rustls::Error) -> Option<&Self> {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
                other.0.downcast_ref()
            }
            _ => None,
        }
    }

    /// Returns the error of a TLS handshake over TCP with the sentence for a refused certificate, if the
    /// handshake failed for that.
    pub fn told(error: io::Error) -> io::Error {
        match Self::of(&error) {
            Some(untrusted) => io::Error::new(error.kind(), untrusted.clone()),
            None => error,
        }
    }

    /// Says that the certificate of the `peer`, such as "camera", was refused, and why.
    pub fn sentence(&self, peer: &str) -> String {
        let Self {
            fingerprint,
            reason,
        } = self;
        format!("the {peer}'s certificate is not trusted ({reason}): its SHA-256 is {fingerprint}")
    }
}

/// Names the certificate that another verifier refuses.
#[derive(Debug)]
pub(super) struct NamingVerifier {
    pub(super) inner: Arc<dyn ServerCertVerifier>,
}

impl ServerCertVerifier for NamingVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .inner
            .verify_server_cert(certificate, others, name, ocsp, now);
        verified.map_err(|error| {
            let rustls::Error::InvalidCertificate(why) = error else {
                return error;
            };
            let reason = reason(&why);
            let untrusted = UntrustedCertificate {
                fingerprint: Fingerprint::of(certificate),
                reason,
            };
            CertificateError::Other(OtherError(Arc::new(untrusted))).into()
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Returns why a certificate is refused, in words that follow "because".
fn reason(why: &CertificateError) -> String {
    match why {
        CertificateError::ApplicationVerificationFailure => "it is not the pinned one".to_owned(),
        CertificateError::BadSignature => "the authority that it names did not sign it".to_owned(),
        CertificateError::UnknownIssuer => "no known authority signed it".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => not_for(&expected.to_str(), presented),
        // Tools that make certificates for oneself often mark them as authorities.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "it is that of an authority of its own".to_owned()
        }
        CertificateError::Other(other) => other.0.to_string(),
        other => other.to_string(),
    }
}

/// Most names of a certificate that a sentence has.
const NAMES_MAX: usize = 4;

/// Says for which names a certificate is, in place of the `expected` one.
fn not_for(expected: &str, presented: &[String]) -> String {
    // As the TLS library writes them: `DnsName("camera.example")`.
    let bare = |name: &String| match name.split('"').nth(1) {
        Some(bare) => bare.to_owned(),
        None => name.clone(),
    };
    let names: Vec<_> = presented.iter().take(NAMES_MAX).map(bare).collect();
    match names.is_empty() {
        true => format!("it is for no name, and not for {expected}"),
        false => format!("it is for {}, and not for {expected}", names.join(", ")),
    }
}
