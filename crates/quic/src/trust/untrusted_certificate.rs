use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};

use crate::Fingerprint;

/// A server's certificate that was refused, by which it can be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (SHA-256 {fingerprint})")]
pub struct UntrustedCertificate {
    /// Fingerprint of the refused certificate.
    pub fingerprint: Fingerprint,
    /// The reason why the certificate was refused.
    pub reason: String,
}

impl UntrustedCertificate {
    /// Returns the refused certificate that a TLS handshake over TCP failed for; `None` if it failed
    /// for something else.
    pub fn of(error: &std::io::Error) -> Option<&Self> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        match error {
            rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
                other.0.downcast_ref()
            }
            _ => None,
        }
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
            let reason = match error {
                rustls::Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ) => "it is not the pinned one".to_owned(),
                rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                    "no known authority signed it".to_owned()
                }
                rustls::Error::InvalidCertificate(why) => why.to_string(),
                other => other.to_string(),
            };
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
