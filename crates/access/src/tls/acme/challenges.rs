//! The answers by which an authority sees that the names lead to this server.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::{AcmeError, AcmeName};
use crate::tls::certificate::provider;

/// The protocol of a handshake that only looks for the answer to a challenge (RFC 8737 §6.2).
pub const ALPN: &[u8] = b"acme-tls/1";

/// The answers to the challenges of the order that is under way. Nothing is answered otherwise.
#[derive(Default)]
pub struct Challenges {
    answers: RwLock<Answers>,
}

#[derive(Default)]
struct Answers {
    /// Key authorizations by token (RFC 8555 §8.3).
    http: HashMap<String, String>,
    /// Certificates by the server name of the handshake (RFC 8737 §3).
    tls: HashMap<String, Arc<CertifiedKey>>,
}

/// Takes the answers back when an order has ended.
pub(super) struct OfferedAnswers<'a>(&'a Challenges);

impl Drop for OfferedAnswers<'_> {
    fn drop(&mut self) {
        *self.0.answers.write() = Answers::default();
    }
}

impl Challenges {
    /// Returns the body of the answer to `GET /.well-known/acme-challenge/TOKEN`.
    pub fn key_authorization(&self, token: &str) -> Option<String> {
        self.answers.read().http.get(token).cloned()
    }

    /// Returns the certificate for a handshake, and whether the handshake only looks for the answer
    /// to a challenge.
    pub fn of_handshake(&self, hello: &ClientHello<'_>) -> (bool, Option<Arc<CertifiedKey>>) {
        let mut protocols = hello.alpn().into_iter().flatten();
        if !protocols.any(|protocol| protocol == ALPN) {
            return (false, None);
        }
        let name = hello.server_name().map(str::to_ascii_lowercase);
        (true, name.and_then(|name| self.certificate(&name)))
    }

    fn certificate(&self, server_name: &str) -> Option<Arc<CertifiedKey>> {
        self.answers.read().tls.get(server_name).cloned()
    }

    /// Begins an order; the answers end when the returned value is dropped.
    pub(super) const fn begin(&self) -> OfferedAnswers<'_> {
        OfferedAnswers(self)
    }

    /// Answers an HTTP-01 challenge.
    pub(super) fn answer_http(&self, token: &str, key_authorization: &str) {
        let mut answers = self.answers.write();
        let answer = key_authorization.to_owned();
        answers.http.insert(token.to_owned(), answer);
    }

    /// Answers a TLS-ALPN-01 challenge. `digest`: SHA-256 of the key authorization.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the cryptography fails.
    pub(super) fn answer_tls(&self, name: &AcmeName, digest: &[u8]) -> Result<(), AcmeError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut parameters = CertificateParams::new(vec![name.to_string()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let made = parameters.self_signed(&key)?;
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        // The usual constructor refuses the critical extension, which only authorities know.
        let signer = provider().key_provider.load_private_key(private)?;
        let certified = CertifiedKey::new(vec![made.der().clone()], signer);
        let mut answers = self.answers.write();
        answers.tls.insert(name.server_name(), Arc::new(certified));
        Ok(())
    }
}

impl fmt::Debug for Challenges {
    /// Writes the number of answers, and nothing of their content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = self.answers.read();
        write!(f, "Challenges({})", answers.http.len() + answers.tls.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_there_during_an_order_and_only_for_its_tokens_and_names() {
        let challenges = Challenges::default();
        let order = challenges.begin();
        challenges.answer_http("token", "token.thumbprint");
        let name: AcmeName = "192.0.2.1".parse().expect("an address");
        challenges.answer_tls(&name, &[7; 32]).expect("an answer");
        let answer = challenges.key_authorization("token");
        assert_eq!(answer.as_deref(), Some("token.thumbprint"));
        assert_eq!(challenges.key_authorization("other"), None);
        assert!(challenges.certificate("1.2.0.192.in-addr.arpa").is_some());
        assert!(challenges.certificate("192.0.2.1").is_none());
        let printed = format!("{challenges:?}");
        assert!(!printed.contains("thumbprint"), "{printed}");
        drop(order);
        assert_eq!(challenges.key_authorization("token"), None);
        assert!(challenges.certificate("1.2.0.192.in-addr.arpa").is_none());
    }

    #[test]
    fn an_answer_within_tls_has_the_digest_in_a_critical_extension() {
        let challenges = Challenges::default();
        let _order = challenges.begin();
        let name: AcmeName = "media.example".parse().expect("a name");
        challenges.answer_tls(&name, &[7; 32]).expect("an answer");
        let certified = challenges.certificate("media.example").expect("an answer");
        // id-pe-acmeIdentifier, critical, OCTET STRING of OCTET STRING of 32 bytes (RFC 8737 §3).
        let extension = [
            &[0x06, 8, 0x2b, 0x06, 1, 5, 5, 7, 1, 0x1f, 1, 1, 0xff][..],
            &[0x04, 34, 0x04, 32],
            &[7; 32],
        ]
        .concat();
        let der: &[u8] = &certified.cert[0];
        let is_there = der.windows(extension.len()).any(|part| part == extension);
        assert!(is_there, "{der:02x?}");
    }
}
