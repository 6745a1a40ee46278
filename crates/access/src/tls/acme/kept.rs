//! The account and the certificate in the state folder.

use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};

use super::{Acme, AcmeError, AcmeName};
use crate::tls::Certificate;
use crate::tls::state_folder::StateFolder;

const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.json";

/// The folder of the account and the certificate.
#[derive(Clone, Debug)]
pub(super) struct Kept(StateFolder);

/// The account at one authority.
#[derive(Serialize, Deserialize)]
struct KeptAccount {
    directory: String,
    credentials: AccountCredentials,
}

/// A certificate and what it was ordered for. One file has both halves, so that a crash leaves a
/// pair that belongs together.
#[derive(Serialize, Deserialize)]
struct KeptCertificate {
    directory: String,
    names: Vec<AcmeName>,
    issued: Issued,
}

/// A certificate as the authority issued it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Issued {
    /// PEM of the chain, the server's own certificate first.
    pub(super) chain: String,
    /// PEM of the private key.
    pub(super) key: String,
}

impl Issued {
    /// Returns the certificate for handshakes.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if it is no PEM, or the key does not belong to it.
    pub(super) fn certificate(&self) -> Result<Certificate, AcmeError> {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| AcmeError::NoPem)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        let key = key.map_err(|_| AcmeError::NoPem)?;
        Ok(Certificate::new(chain, key)?)
    }
}

impl Kept {
    pub(super) const fn new(folder: StateFolder) -> Self {
        Self(folder)
    }

    /// Returns the certificate for the names of `settings` by their authority, if one is kept.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the file cannot be read or is damaged.
    pub(super) fn certificate(&self, settings: &Acme) -> Result<Option<Certificate>, AcmeError> {
        let Some(text) = self.0.read(CERTIFICATE)? else {
            return Ok(None);
        };
        let damaged = |_| AcmeError::Damaged { file: CERTIFICATE };
        let kept: KeptCertificate = serde_json::from_str(&text).map_err(damaged)?;
        let is_wanted = kept.directory == settings.directory && kept.names == settings.names;
        match is_wanted {
            true => kept.issued.certificate().map(Some),
            false => Ok(None),
        }
    }

    /// Keeps a certificate for the next start.
    ///
    /// # Errors
    /// Returns [`AcmeError::State`] if the file cannot be written.
    pub(super) async fn keep_certificate(
        &self,
        settings: &Acme,
        issued: &Issued,
    ) -> Result<(), AcmeError> {
        let kept = KeptCertificate {
            directory: settings.directory.clone(),
            names: settings.names.clone(),
            issued: issued.clone(),
        };
        self.write(CERTIFICATE, &kept).await
    }

    /// Returns the account at the authority of `directory`, if one is kept.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the file cannot be read or is damaged.
    pub(super) fn account(&self, directory: &str) -> Result<Option<AccountCredentials>, AcmeError> {
        let Some(text) = self.0.read(ACCOUNT)? else {
            return Ok(None);
        };
        let damaged = |_| AcmeError::Damaged { file: ACCOUNT };
        let kept: KeptAccount = serde_json::from_str(&text).map_err(damaged)?;
        Ok((kept.directory == directory).then_some(kept.credentials))
    }

    /// Keeps an account for later orders.
    ///
    /// # Errors
    /// Returns [`AcmeError::State`] if the file cannot be written.
    pub(super) async fn keep_account(
        &self,
        directory: &str,
        credentials: AccountCredentials,
    ) -> Result<(), AcmeError> {
        let directory = directory.to_owned();
        let kept = KeptAccount {
            directory,
            credentials,
        };
        self.write(ACCOUNT, &kept).await
    }

    async fn write<T: Serialize>(&self, file: &'static str, kept: &T) -> Result<(), AcmeError> {
        let text = serde_json::to_string_pretty(kept);
        let text = text.map_err(|_| AcmeError::Damaged { file })?;
        let folder = self.0.clone();
        // A disk may be slow.
        let written = tokio::task::spawn_blocking(move || folder.write(file, &text)).await;
        Ok(written.map_err(|_| AcmeError::Damaged { file })??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(name: &str) -> Issued {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("made");
        Issued {
            chain: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }

    #[tokio::test]
    async fn a_certificate_is_used_again_for_the_same_names_and_authority_only() {
        let parent = std::env::temp_dir().join(format!("glassline-acme-{}", std::process::id()));
        let kept = Kept::new(StateFolder::open(&parent, "acme").expect("a folder"));
        let settings = Acme {
            names: vec!["media.example".parse().expect("a name")],
            ..Acme::default()
        };
        assert!(kept.certificate(&settings).expect("readable").is_none());
        let certificate = issued("media.example");
        let keeping = kept.keep_certificate(&settings, &certificate).await;
        keeping.expect("written");
        let read = kept.certificate(&settings).expect("readable");
        let expected = certificate.certificate().expect("a certificate");
        assert_eq!(read.expect("a certificate").chain(), expected.chain());
        let others = [
            Acme {
                names: vec!["other.example".parse().expect("a name")],
                ..settings.clone()
            },
            Acme {
                directory: "https://other.example/".to_owned(),
                ..settings.clone()
            },
        ];
        for other in others {
            assert!(kept.certificate(&other).expect("readable").is_none());
        }
        std::fs::write(parent.join("acme/certificate.json"), "{").expect("ours");
        let error = kept.certificate(&settings).map(drop).expect_err("damaged");
        assert!(error.to_string().contains("certificate.json"), "{error}");
        std::fs::remove_dir_all(parent).expect("ours");
    }
}
