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
        CertificateError::UnknownIssuer => "no known authority signed it".to_owned(),
        // Tools that make certificates for oneself often mark them as authorities.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            "it is that of an authority of its own".to_owned()
        }
        CertificateError::Other(other) => other.0.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_refused_certificate_is_found_in_the_error_of_the_handshake() {
        let untrusted = UntrustedCertificate {
            fingerprint: Fingerprint([7; 32]),
            reason: reason(&CertificateError::UnknownIssuer),
        };
        let other = OtherError(Arc::new(untrusted.clone()));
        let error = rustls::Error::from(CertificateError::Other(other));
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        assert_eq!(UntrustedCertificate::of(&error), Some(&untrusted));
        assert!(
            untrusted
                .to_string()
                .starts_with("no known authority signed it (SHA-256 0707")
        );
        let expired = CertificateError::Expired.into();
        let error = io::Error::other::<rustls::Error>(expired);
        assert_eq!(UntrustedCertificate::of(&error), None);
    }
}
