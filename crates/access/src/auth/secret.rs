use std::cell::Cell;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use subtle::ConstantTimeEq;

/// The text that is printed in place of a secret.
pub const HIDDEN: &str = "<hidden>";

const BYTES_MAX: usize = 1024;

thread_local! {
    /// Whether this thread compares secrets at the moment.
    static FINGERPRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `compare`, in which secrets are serialized as their hashes, so that two values can be
/// compared key by key. What is serialized must not leave `compare`.
pub fn with_fingerprints<T>(compare: impl FnOnce() -> T) -> T {
    FINGERPRINTS.set(true);
    let compared = compare();
    FINGERPRINTS.set(false);
    compared
}

/// How a secret stands in a configuration file: the text itself, or the file that has the text. Only
/// the schema of the configuration needs this type.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum SecretText {
    /// The text itself.
    Text(String),
    /// The file that has the text.
    File(SecretFile),
}

/// The file that has a secret.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "the parser of the configuration reads the file")]
pub struct SecretFile {
    /// Path of the file, relative to the file in which this stands. A newline at the end of the text
    /// is left out.
    file: String,
}

/// A token that is compared and never printed.
///
/// It has 1–1024 visible ASCII characters, so that it fits into an `Authorization` header and a URL
/// query.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema, derive_more::Debug)]
#[debug("{HIDDEN}")]
#[serde(try_from = "String")]
#[schemars(with = "SecretText")]
pub struct Secret(String);

impl Secret {
    /// Creates a token of `text`.
    ///
    /// # Errors
    /// Returns [`SecretError`] with the rule that `text` breaks, without repeating the text.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if text.len() > BYTES_MAX {
            return Err(SecretError::TooLong { bytes: text.len() });
        }
        if let Some(place) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(SecretError::Character { place: place + 1 });
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text, for a header that has to contain it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `candidate` is this token. The time does not depend on where the two differ,
    /// but on the length, which is no secret.
    pub fn matches(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.as_bytes()).into()
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hidden(&self.0, serializer)
    }
}

/// Writes that there is a secret, or within [`with_fingerprints`] its fingerprint.
pub fn serialize_hidden<S: Serializer>(secret: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match FINGERPRINTS.get() {
        true => serializer.serialize_bytes(&super::token_digest::digest_of(secret)),
        false => serializer.serialize_str(HIDDEN),
    }
}

impl TryFrom<String> for Secret {
    type Error = SecretError;

    fn try_from(text: String) -> Result<Self, SecretError> {
        Self::new(&text)
    }
}

impl std::str::FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        Self::new(text)
    }
}

/// The reason why a text is not a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text is empty.
    #[error("the token is empty: remove the key to have no token")]
    Empty,
    /// The text is longer than a header should be.
    #[error("the token has {bytes} characters, at most {BYTES_MAX} are allowed")]
    TooLong {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The text has a character that does not fit into a header.
    #[error("character {place} of the token is not visible ASCII, so no HTTP header can carry it")]
    Character {
        /// Position of the first such character, counted from 1.
        place: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_themselves_only() {
        let token = Secret::new("s3cret").expect("a good token");
        assert!(token.matches("s3cret"));
        for other in ["", "s3cre", "s3crets", "S3cret"] {
            assert!(!token.matches(other), "{other}");
        }
    }

    #[test]
    fn tokens_never_show() {
        let token = Secret::new("s3cret").expect("a good token");
        assert_eq!(format!("{token:?}"), HIDDEN);
        let json = serde_json::to_string(&token).expect("a string");
        assert!(!json.contains("s3cret"), "{json}");
    }

    #[test]
    fn tokens_that_no_header_can_carry_are_refused() {
        assert_eq!(Secret::new(""), Err(SecretError::Empty));
        assert_eq!(
            Secret::new("ab c"),
            Err(SecretError::Character { place: 3 })
        );
        assert_eq!(
            Secret::new(&"x".repeat(1025)),
            Err(SecretError::TooLong { bytes: 1025 })
        );
    }
}
