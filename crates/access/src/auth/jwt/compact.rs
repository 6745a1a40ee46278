//! The compact form of a signed token (RFC 7515 §3.1), before anything of it is believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Algorithm, TokenError};

/// Most bytes of a token. Those of identity providers have some 1,500; a longer one would not fit
/// into the head of a request either.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Most bytes of a key's identifier.
const KEY_ID_BYTES_MAX: usize = 256;

/// The parts of a token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Compact<'a> {
    pub(super) algorithm: Algorithm,
    /// Identifier of the key that the token claims to be signed with.
    pub(super) key_id: Option<String>,
    /// Header and claims as they were signed.
    pub(super) signed: &'a str,
    claims: &'a str,
    pub(super) signature: Vec<u8>,
}

/// Members of a header that matter here. Keys that a token itself brings (`jwk`, `jku`, `x5c`) are
/// not looked at.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that must be understood (RFC 7515 §4.1.11); none are.
    #[serde(default)]
    crit: Option<IgnoredAny>,
}

/// Returns whether `text` has the form of a token: three parts of base64url with dots between them.
pub(in crate::auth) fn has_form(text: &str) -> bool {
    let is_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !part.is_empty() && part.bytes().all(allowed)
    };
    let mut parts = text.split('.');
    let is_three = (0..3).all(|_| parts.next().is_some_and(is_part));
    // A header is a JSON object, whose first byte gives `e` in base64.
    is_three && parts.next().is_none() && text.starts_with('e')
}

impl<'a> Compact<'a> {
    /// Parses `token`.
    ///
    /// # Errors
    /// Returns [`TokenError`] if it is too long, malformed, or of an algorithm that there is not.
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        if claims.contains('.') {
            return Err(TokenError::Malformed);
        }
        let header = object::<Header>(&decoded(header)?)?;
        let is_long = |id: &String| id.len() > KEY_ID_BYTES_MAX;
        if header.crit.is_some() || header.kid.as_ref().is_some_and(is_long) {
            return Err(TokenError::Malformed);
        }
        Ok(Self {
            algorithm: Algorithm::from_name(&header.alg).ok_or(TokenError::Algorithm)?,
            key_id: header.kid,
            signed,
            claims,
            signature: decoded(signature)?,
        })
    }

    /// Returns the claims as JSON text.
    ///
    /// # Errors
    /// Returns [`TokenError::Malformed`] if they are not base64url.
    pub(super) fn claims(&self) -> Result<Vec<u8>, TokenError> {
        decoded(self.claims)
    }
}

/// Reads a JSON object. A list, which serde takes for an object without names, is none.
pub(super) fn object<T: DeserializeOwned>(text: &[u8]) -> Result<T, TokenError> {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    let object = match first {
        Some(b'{') => serde_json::from_slice(text).ok(),
        _ => None,
    };
    object.ok_or(TokenError::Malformed)
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenError::Malformed)
}
