//! Signed tokens of an identity provider: JSON Web Tokens (RFC 7519) in the compact form of JWS.
//!
//! ```text
//! token ─► Compact: form, size ─► algorithm pinned? ─► KeyRing: signature ─► Grant: claims, rights
//!                                                          ▲
//!            secret · PEM file · JWK Set in a file or at a URL, read again every refresh_s
//! ```
//!
//! The configuration names the algorithms, and each key serves the algorithms of its own kind only:
//! a token decides neither (RFC 8725 §3.1). Claims are read after the signature was verified.

mod algorithm;
mod claims;
mod compact;
mod key_ring;
mod keys;
mod settings;

use std::time::{Duration, Instant, SystemTime};

pub use algorithm::Algorithm;
pub(super) use claims::Grant;
pub use compact::TOKEN_BYTES_MAX;
pub(super) use compact::has_form;
pub use key_ring::{KeyCounters, KeyRing, KeyRingError};
pub use settings::Jwt;
pub(super) use settings::checked;

use compact::Compact;

/// The claims that a token must have, and the place of its rights.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    algorithms: Vec<Algorithm>,
    issuer: Option<String>,
    audience: Option<String>,
    claim: String,
    leeway: Duration,
}

impl Rules {
    pub(super) fn of(jwt: &Jwt) -> Self {
        Self {
            algorithms: jwt.algorithms.clone(),
            issuer: jwt.issuer.clone(),
            audience: jwt.audience.clone(),
            claim: jwt.claim.clone(),
            leeway: Duration::from_secs(jwt.leeway_s),
        }
    }
}

/// The reason why a token gives no right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is no token, or a part of it cannot be read.
    #[error("the token is malformed")]
    Malformed,
    /// The configuration does not have the token's algorithm.
    #[error("the token is signed with an algorithm that `auth.jwt.algorithms` does not list")]
    Algorithm,
    /// There is no key of the token's identifier and algorithm.
    #[error("the token is signed with a key that this server does not know")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// The token has no `exp`.
    #[error("the token has no `exp`: issue it with an end")]
    NoExpiry,
    /// The token's time is over.
    #[error("the token has expired")]
    Expired,
    /// The token's time has not begun.
    #[error("the token is not valid yet: compare the clocks of issuer and server")]
    TooEarly,
    /// `iss` is missing or another.
    #[error("the token is not of the issuer that `auth.jwt.issuer` names")]
    Issuer,
    /// `aud` is missing or another.
    #[error("the token is not for the audience that `auth.jwt.audience` names")]
    Audience,
    /// The claim with the rights is malformed.
    #[error(
        "the token's rights are malformed: write lists of patterns like {{\"read\": [\"cam/*\"]}}, and \
         as `admin` one of viewer, operator, admin"
    )]
    Rights,
}

/// The reason why a text gives no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The text is no PEM.
    #[error("it is no PEM text with public keys")]
    Pem,
    /// The text is no JWK Set.
    #[error("it is no JWK Set, which is a JSON object with `keys`")]
    NoSet,
    /// No key is usable.
    #[error("none of its keys is a public one for `auth.jwt.algorithms`")]
    Unusable,
}

/// Verifies tokens by the rules and keys of a configuration.
#[derive(Debug)]
pub(super) struct TokenVerifier {
    settings: Jwt,
    rules: Rules,
    ring: KeyRing,
}

impl TokenVerifier {
    /// Creates the verifier of a configuration, whose files are not read yet.
    pub(super) fn new(jwt: &Jwt) -> Self {
        Self {
            settings: jwt.clone(),
            rules: Rules::of(jwt),
            ring: KeyRing::new(jwt),
        }
    }

    pub(super) const fn settings(&self) -> &Jwt {
        &self.settings
    }

    pub(super) const fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Returns the rights of `token` at the time `now`, which is `calendar` by the calendar.
    ///
    /// # Errors
    /// Returns [`TokenError`]; with [`TokenError::UnknownKey`], newer keys may have the token's.
    pub(super) fn verify(
        &self,
        token: &str,
        now: Instant,
        calendar: SystemTime,
    ) -> Result<Grant, TokenError> {
        let token = Compact::parse(token)?;
        if !self.rules.algorithms.contains(&token.algorithm) {
            return Err(TokenError::Algorithm);
        }
        self.ring.keys(now).verify(&token)?;
        Grant::of(&token.claims()?, &self.rules, calendar)
    }
}

/// Drives the parsers of tokens, claims and key sets for the fuzz target `token`.
///
/// The first byte chooses the parser; the others are its input. A signature that was not made with
/// the secret is never right.
///
/// # Panics
/// An invariant does not hold.
#[cfg(any(test, fuzzing))]
pub fn fuzz_token(bytes: &[u8]) {
    let Some((&choice, input)) = bytes.split_first() else {
        return;
    };
    let algorithms = [
        Algorithm::HS256,
        Algorithm::RS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
    ];
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    let rules = Rules {
        algorithms: algorithms.to_vec(),
        issuer: (choice & 4 != 0).then(|| "i".to_owned()),
        audience: (choice & 8 != 0).then(|| "a".to_owned()),
        claim: "glassline".to_owned(),
        leeway: Duration::from_secs(30),
    };
    match choice & 3 {
        0 => {
            let text = String::from_utf8_lossy(input);
            let secret = keys::KeySet::of_secret("a secret that no input knows: 81", &algorithms);
            if let Ok(token) = Compact::parse(&text) {
                assert!(text.len() <= TOKEN_BYTES_MAX);
                assert!(
                    secret.verify(&token).is_err(),
                    "a forged signature is right"
                );
            }
        }
        1 => {
            if let Ok(grant) = Grant::of(input, &rules, now) {
                assert!(grant.until > now);
                assert!(grant.rights.read.len() <= 128 && grant.rights.publish.len() <= 128);
            }
        }
        2 => {
            if let Ok(set) = keys::KeySet::of_jwks(input, &algorithms) {
                assert!(set.len() > 0, "a set without keys is an error");
            }
        }
        _ => drop(keys::KeySet::of_pem(input, &algorithms)),
    }
}

#[cfg(test)]
mod tests;
