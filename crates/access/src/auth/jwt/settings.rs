use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::super::Secret;
use super::Algorithm;
use crate::outbound::WebUrl;

/// Longest leeway, in seconds: a larger one would hide a clock that is wrong.
const LEEWAY_S_MAX: u64 = 300;

/// Shortest pause between two regular readings of keys, in seconds.
const REFRESH_S_MIN: u64 = 10;

/// Tokens that an identity provider signs (JSON Web Tokens). Exactly one of `secret`, `public_key`,
/// `jwks_file` and `jwks_url` names the keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// Algorithms of signatures: HS with `secret`; RS, PS, ES and `EdDSA` with public keys.
    pub algorithms: Vec<Algorithm>,
    /// Secret shared with the issuer: at least 32 characters for `HS256`, 48 for `HS384`, 64 for
    /// `HS512`.
    pub secret: Option<Secret>,
    /// PEM file with the issuer's public keys.
    pub public_key: Option<PathBuf>,
    /// File with the issuer's public keys as JWK Set.
    pub jwks_file: Option<PathBuf>,
    /// URL of the issuer's JWK Set: `https://`, or a service of this machine.
    pub jwks_url: Option<WebUrl>,
    /// PEM file with the root certificates of `jwks_url`. Null takes Mozilla's.
    pub jwks_roots: Option<PathBuf>,
    /// Seconds between two readings of the keys. An unknown key causes one more, at most every 10
    /// s.
    pub refresh_s: u64,
    /// Seconds for which the last keys are used while new ones cannot be read.
    pub stale_s: u64,
    /// Required value of a token's `iss`; null checks none, which `jwks_url` does not allow.
    pub issuer: Option<String>,
    /// Required value in a token's `aud`; null checks none, which `jwks_url` does not allow.
    pub audience: Option<String>,
    /// Claim with the rights, an object with `read`, `publish`, `call` and `admin`.
    pub claim: String,
    /// Seconds by which the clocks may differ, up to 300.
    pub leeway_s: u64,
}

impl Default for Jwt {
    fn default() -> Self {
        Self {
            algorithms: Vec::new(),
            secret: None,
            public_key: None,
            jwks_file: None,
            jwks_url: None,
            jwks_roots: None,
            refresh_s: 300,
            stale_s: 86_400,
            issuer: None,
            audience: None,
            claim: "glassline".to_owned(),
            leeway_s: 30,
        }
    }
}

impl Jwt {
    /// Returns the time between two readings of the keys.
    pub(super) const fn refresh(&self) -> Duration {
        Duration::from_secs(self.refresh_s)
    }

    /// Returns the time for which keys are used that cannot be read again.
    pub(super) const fn stale(&self) -> Duration {
        Duration::from_secs(self.stale_s)
    }

    /// Returns whether the tokens of `other` are those of this section: the keys are of the same
    /// place, and the same is demanded of a token.
    pub(in crate::auth) fn has_same_tokens(&self, other: &Self) -> bool {
        let kept = Self {
            refresh_s: self.refresh_s,
            stale_s: self.stale_s,
            leeway_s: self.leeway_s,
            jwks_roots: self.jwks_roots.clone(),
            ..other.clone()
        };
        kept == *self
    }

    /// Returns the files that the section names.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [
            &mut self.public_key,
            &mut self.jwks_file,
            &mut self.jwks_roots,
        ];
        files.into_iter().flatten()
    }

    fn check(&self) -> Result<(), JwtError> {
        let sources = [
            self.secret.is_some(),
            self.public_key.is_some(),
            self.jwks_file.is_some(),
            self.jwks_url.is_some(),
        ];
        if sources.iter().filter(|it| **it).count() != 1 {
            return Err(JwtError::Source);
        }
        if self.algorithms.is_empty() {
            return Err(JwtError::NoAlgorithm);
        }
        for algorithm in &self.algorithms {
            match (algorithm.secret_bytes_min(), &self.secret) {
                (Some(least), Some(secret)) if secret.reveal().len() < least => {
                    return Err(JwtError::ShortSecret(*algorithm, least));
                }
                (Some(_), None) => return Err(JwtError::Family(*algorithm, "`secret`")),
                (None, Some(_)) => return Err(JwtError::Family(*algorithm, "public keys")),
                _ => {}
            }
        }
        if let Some(url) = &self.jwks_url {
            if !url.is_protected() {
                return Err(JwtError::PlainUrl);
            }
            if self.issuer.is_none() || self.audience.is_none() {
                return Err(JwtError::Anybody);
            }
        }
        if self.leeway_s > LEEWAY_S_MAX {
            return Err(JwtError::Leeway);
        }
        if self.refresh_s < REFRESH_S_MIN || self.stale_s < self.refresh_s {
            return Err(JwtError::Refresh);
        }
        Ok(())
    }
}

/// Reads the section, whose keys have to fit together.
pub(in crate::auth) fn checked<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Jwt>, D::Error> {
    let jwt = Option::<Jwt>::deserialize(from)?;
    if let Some(jwt) = &jwt {
        jwt.check().map_err(D::Error::custom)?;
    }
    Ok(jwt)
}

/// Keys of the section do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum JwtError {
    #[error("name the keys of tokens once: `secret`, `public_key`, `jwks_file` or `jwks_url`")]
    Source,
    #[error("`algorithms` is empty: list what the issuer signs with, like [RS256]")]
    NoAlgorithm,
    #[error("{0} needs a secret of at least {1} characters: draw one, like `openssl rand -hex 64`")]
    ShortSecret(Algorithm, usize),
    #[error("{0} needs {1}: one section has either a secret, or public keys")]
    Family(Algorithm, &'static str),
    #[error("keys over plain http:// can be replaced on the way: use https:// for `jwks_url`")]
    PlainUrl,
    #[error(
        "set `issuer` and `audience`: the keys of `jwks_url` sign tokens for other services, too"
    )]
    Anybody,
    #[error("`leeway_s` is at most {LEEWAY_S_MAX}")]
    Leeway,
    #[error("`refresh_s` is at least {REFRESH_S_MIN}, and `stale_s` at least `refresh_s`")]
    Refresh,
}
