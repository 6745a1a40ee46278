//! The private authority: a root certificate that people trust, and the leaf that it vouches for.

use std::fmt;
use std::time::{Duration, SystemTime};

use glassline_quic::Fingerprint;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::LanError;
use super::names::{self, LanNames};
use crate::tls::state_folder::StateFolder;
use crate::tls::{Certificate, validity};

/// Lifetime of the root. People trust it once.
const ROOT_LIFETIME: Duration = Duration::from_secs(3_650 * 86_400);

/// Lifetime of the leaf. Browsers pin a certificate of at most two weeks (W3C WebTransport, "verify
/// a certificate hash"), so that pages may use the leaf without trusting the root.
const LEAF_LIFETIME: Duration = Duration::from_secs(13 * 86_400);

/// Time before its end at which a leaf is replaced.
const LEAF_RENEWAL: Duration = Duration::from_secs(3 * 86_400);

/// Time before they were made from which certificates are valid, for clients whose clocks are late.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);

const ROOT_KEY: &str = "root.key.pem";
const ROOT: &str = "root.pem";
const LEAF: &str = "leaf.pem";

/// Beginning of a line before a certificate, with the names that it is for.
const NAMES: &str = "names: ";

/// The authority of one machine, whose key and certificate are kept in a folder.
pub(super) struct LanAuthority {
    folder: StateFolder,
    key: KeyPair,
    root: RootCertificate,
    /// Name of the machine when the root was made, for which the root may vouch.
    host: Option<String>,
}

/// The certificate that people trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootCertificate {
    /// The certificate in DER.
    pub der: CertificateDer<'static>,
    /// The certificate as PEM text.
    pub pem: String,
}

impl RootCertificate {
    /// Returns the SHA-256 of the certificate, to compare it before it is trusted.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }
}

impl LanAuthority {
    /// Reads the authority from its folder, or makes a new one there.
    ///
    /// # Errors
    /// Returns [`LanError`] with the file, or the fault of what it contains.
    pub(super) fn open(folder: StateFolder, now: SystemTime) -> Result<Self, LanError> {
        let kept = folder.read(ROOT_KEY)?.zip(folder.read(ROOT)?);
        if let Some((key, pem)) = kept {
            let key = KeyPair::from_pem(&key).map_err(|_| LanError::Damaged { file: ROOT_KEY })?;
            let damaged = || LanError::Damaged { file: ROOT };
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())?;
            let end = validity::not_after(&der).ok_or_else(damaged)?;
            if now + LEAF_LIFETIME < end {
                let (first, rest) = pem.split_once('\n').unwrap_or_default();
                let (host, pem) = match first.strip_prefix(NAMES) {
                    Some(host) => (Some(host.to_owned()), rest.to_owned()),
                    None => (None, pem),
                };
                let root = RootCertificate { der, pem };
                return Ok(Self {
                    folder,
                    key,
                    root,
                    host,
                });
            }
            tracing::warn!(
                "the root certificate of the private authority ends: devices must trust a new one"
            );
        }
        Self::make(folder, now)
    }

    fn make(folder: StateFolder, now: SystemTime) -> Result<Self, LanError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let host = names::machine_label();
        let mut parameters = issuer_parameters(&key);
        parameters.not_before = (now - CLOCK_SKEW).into();
        parameters.not_after = (now + ROOT_LIFETIME).into();
        parameters.name_constraints = Some(names::constraints(host.as_deref()));
        let certificate = parameters.self_signed(&key)?;
        let pem = certificate.pem();
        let note = host.as_ref().map(|host| format!("{NAMES}{host}\n"));
        // The key first: a certificate without its key would look like an authority that is whole.
        folder.write(ROOT_KEY, &key.serialize_pem())?;
        folder.write(ROOT, &(note.unwrap_or_default() + &pem))?;
        let root = RootCertificate {
            der: certificate.der().clone(),
            pem,
        };
        tracing::info!(sha256 = %root.fingerprint(), "made a private authority: devices trust its root certificate once");
        Ok(Self {
            folder,
            key,
            root,
            host,
        })
    }

    pub(super) const fn root(&self) -> &RootCertificate {
        &self.root
    }

    /// Returns the name of the machine for which the root may vouch.
    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns the leaf that was kept, if it is for these names and not due to be replaced at `now`.
    pub(super) fn kept_leaf(&self, names: &LanNames, now: SystemTime) -> Option<Certificate> {
        let text = self.folder.read(LEAF).ok()??;
        let first = text.lines().next()?;
        if first.strip_prefix(NAMES)? != names.to_texts().join(" ") {
            return None;
        }
        let chain = CertificateDer::pem_slice_iter(text.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok()?;
        let leaf = Certificate::new(chain, key).ok()?;
        // Of an authority that was removed.
        let is_ours = leaf.chain().get(1) == Some(&self.root.der);
        (is_ours && !is_due(&leaf, now)).then_some(leaf)
    }

    /// Makes a leaf for `names` and keeps it.
    ///
    /// # Errors
    /// Returns [`LanError`] if the cryptography fails or the leaf cannot be kept.
    pub(super) fn issue(&self, names: &LanNames, now: SystemTime) -> Result<Certificate, LanError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "glassline");
        parameters.subject_alt_names = names.subject_names();
        parameters.not_before = (now - CLOCK_SKEW).into();
        parameters.not_after = (now - CLOCK_SKEW + LEAF_LIFETIME).into();
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let issuer = Issuer::new(issuer_parameters(&self.key), &self.key);
        let leaf = parameters.signed_by(&key, &issuer)?;
        let text = format!(
            "{NAMES}{}\n{}{}{}",
            names.to_texts().join(" "),
            leaf.pem(),
            self.root.pem,
            key.serialize_pem(),
        );
        self.folder.write(LEAF, &text)?;
        let private = PrivateKeyDer::try_from(key.serialize_der());
        let private = private.map_err(|_| LanError::Damaged { file: LEAF })?;
        let chain = vec![leaf.der().clone(), self.root.der.clone()];
        Ok(Certificate::new(chain, private)?)
    }
}

/// Returns whether a leaf must be replaced: its end is near, or the calendar went back so far that
/// clients take it for one of the future.
pub(super) fn is_due(leaf: &Certificate, now: SystemTime) -> bool {
    let Some(end) = leaf.not_after() else {
        return true;
    };
    end < now + LEAF_RENEWAL || now + LEAF_LIFETIME + CLOCK_SKEW < end
}

/// Returns what is the same in every certificate of the authority with this key.
fn issuer_parameters(key: &KeyPair) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let number = Fingerprint::of(key.der_bytes()).to_string();
    let mut name = DistinguishedName::new();
    // Two servers in a network have authorities of their own, which lists of certificates show.
    name.push(
        DnType::CommonName,
        format!("Glassline private authority {}", &number[..8]),
    );
    parameters.distinguished_name = name;
    parameters
}

impl fmt::Debug for LanAuthority {
    /// Writes the root's fingerprint, and nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LanAuthority({})", self.root.fingerprint())
    }
}
