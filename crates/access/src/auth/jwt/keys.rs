//! Keys that signatures are verified with, from a secret, PEM text or a JWK Set (RFC 7517).

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::Value;

use super::algorithm::Verification;
use super::compact::Compact;
use super::{Algorithm, KeysError, TokenError};

/// Most keys that are taken of a set; identity providers have two or three.
const KEYS_MAX: usize = 32;

/// Most keys that one signature is tried with, if its token names none.
const TRIED_MAX: usize = 8;

/// The keys of one source. Each is for one algorithm, so that no key is used otherwise than its
/// owner meant.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(derive_more::Debug)]
#[debug("Key {{ id: {id:?}, algorithm: {algorithm:?}, .. }}")]
struct Key {
    /// Identifier that tokens name; `None` if the key has none.
    id: Option<String>,
    algorithm: Algorithm,
    verifier: Verifier,
}

enum Verifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

/// One key of a set, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct JwkSet {
    /// Keys that cannot be parsed are left out one by one (RFC 7517 §5).
    keys: Vec<Value>,
}

impl KeySet {
    /// Returns the number of keys; a key that serves several algorithms counts for each.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the key of a secret that the issuer shares with this server.
    pub(super) fn of_secret(secret: &str, algorithms: &[Algorithm]) -> Self {
        let keys = algorithms.iter().filter_map(|algorithm| {
            let Verification::Hmac(hmac) = algorithm.verification() else {
                return None;
            };
            Some(Key {
                id: None,
                algorithm: *algorithm,
                verifier: Verifier::Secret(Box::new(hmac::Key::new(hmac, secret.as_bytes()))),
            })
        });
        Self(keys.collect())
    }

    /// Returns the public keys in PEM text (`-----BEGIN PUBLIC KEY-----`).
    ///
    /// # Errors
    /// Returns [`KeysError`] if there is none for the algorithms.
    pub(super) fn of_pem(text: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for der in SubjectPublicKeyInfoDer::pem_slice_iter(text).take(KEYS_MAX) {
            let der = der.map_err(|_| KeysError::Pem)?;
            for algorithm in algorithms {
                let parsed = match algorithm.verification() {
                    Verification::Hmac(_) => continue,
                    Verification::Rsa(rsa) => ParsedPublicKey::new(rsa, &der),
                    Verification::Curve(curve, ..) => ParsedPublicKey::new(curve, &der),
                    Verification::Edwards(curve) => ParsedPublicKey::new(curve, &der),
                };
                keys.extend(parsed.ok().map(|key| Key {
                    id: None,
                    algorithm: *algorithm,
                    verifier: Verifier::Public(key),
                }));
            }
        }
        Self(keys).unless_empty()
    }

    /// Returns the keys of a JWK Set that verify signatures of `algorithms`. Secrets in it are left
    /// out: a set may be public.
    ///
    /// # Errors
    /// Returns [`KeysError`] if the text is no JWK Set, or has no such key.
    pub(super) fn of_jwks(text: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeysError> {
        let set = serde_json::from_slice::<JwkSet>(text).map_err(|_| KeysError::NoSet)?;
        let mut keys = Vec::new();
        for jwk in set.keys.into_iter().take(KEYS_MAX) {
            let Ok(jwk) = serde_json::from_value::<Jwk>(jwk) else {
                continue;
            };
            let usable = algorithms.iter().filter(|it| jwk.is_for(**it));
            keys.extend(usable.filter_map(|algorithm| {
                let key = jwk.public_key(*algorithm)?;
                Some(Key {
                    id: jwk.kid.clone(),
                    algorithm: *algorithm,
                    verifier: Verifier::Public(key),
                })
            }));
        }
        Self(keys).unless_empty()
    }

    fn unless_empty(self) -> Result<Self, KeysError> {
        match self.0.is_empty() {
            true => Err(KeysError::Unusable),
            false => Ok(self),
        }
    }

    /// Verifies the signature of a token.
    ///
    /// # Errors
    /// Returns [`TokenError::UnknownKey`] if the token names a key that is not in the set, and
    /// [`TokenError::Signature`] if no key made the signature.
    pub(super) fn verify(&self, token: &Compact<'_>) -> Result<(), TokenError> {
        let named = |key: &&Key| match (&token.key_id, &key.id) {
            (Some(named), Some(id)) => named == id,
            _ => true,
        };
        let of_algorithm = self.0.iter().filter(|it| it.algorithm == token.algorithm);
        let mut keys = of_algorithm.filter(named).take(TRIED_MAX).peekable();
        if keys.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        match keys.any(|key| key.verifier.is_right(token)) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }
}

impl Verifier {
    fn is_right(&self, token: &Compact<'_>) -> bool {
        let signed = token.signed.as_bytes();
        match self {
            Self::Secret(key) => hmac::verify(key, signed, &token.signature).is_ok(),
            Self::Public(key) => key.verify_sig(signed, &token.signature).is_ok(),
        }
    }
}

impl Jwk {
    /// Returns whether the key's owner lets it verify signatures of `algorithm`.
    fn is_for(&self, algorithm: Algorithm) -> bool {
        let stated = self.alg.as_deref().map(Algorithm::from_name);
        let is_verifying = |ops: &Vec<String>| ops.iter().any(|it| it == "verify");
        stated.is_none_or(|it| it == Some(algorithm))
            && self.purpose.as_deref().is_none_or(|it| it == "sig")
            && self.key_ops.as_ref().is_none_or(is_verifying)
    }

    /// Returns the public key for `algorithm`; `None` if the key is of another kind or malformed.
    fn public_key(&self, algorithm: Algorithm) -> Option<ParsedPublicKey> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        match (algorithm.verification(), self.kty.as_str()) {
            (Verification::Rsa(rsa), "RSA") => {
                let (n, e) = (bytes(&self.n)?, bytes(&self.e)?);
                RsaPublicKeyComponents { n: &n, e: &e }
                    .to_parsed_public_key(rsa)
                    .ok()
            }
            (Verification::Curve(curve, name, size), "EC") if self.crv.as_deref() == Some(name) => {
                let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
                if x.len() != size || y.len() != size {
                    return None;
                }
                // An uncompressed point (SEC 1 §2.3.3).
                let point = [&[4], &*x, &*y].concat();
                ParsedPublicKey::new(curve, point).ok()
            }
            (Verification::Edwards(curve), "OKP") if self.crv.as_deref() == Some("Ed25519") => {
                ParsedPublicKey::new(curve, bytes(&self.x)?).ok()
            }
            _ => None,
        }
    }
}
