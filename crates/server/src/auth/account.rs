use std::borrow::Borrow;
use std::fmt::{self, Write as _};

use glassline_rtsp::auth;
use glassline_rtsp::auth::digest::{self, Algorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{HIDDEN, PasswordHash, Pattern, REALM};

const NAME_BYTES_MAX: usize = 64;

/// One user as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// What the user is called.
    pub name: Name,
    /// Hash of the password, as `glassline user add` prints it.
    pub password: PasswordHash,
    /// For RTSP Digest with MD5: hash of name, realm and password. Without it and
    /// the next the user can come over HTTP and TLS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_md5: Option<DigestSecret<32>>,
    /// Likewise, for Digest with SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_sha256: Option<DigestSecret<64>>,
    /// Streams that the user may read: names, beginnings like `cam/*`, or `*`.
    #[serde(default)]
    pub read: Vec<Pattern>,
    /// Streams that the user may publish, likewise.
    #[serde(default)]
    pub publish: Vec<Pattern>,
}

impl Account {
    /// A user with this password, and what is kept of it. Hashes, so it takes some
    /// 20 ms; `salt` is drawn for this user alone.
    pub fn new(name: Name, password: &str, salt: &[u8; 16]) -> Self {
        let user = auth::User {
            name: name.0.clone(),
            password: password.to_owned(),
        };
        let digest = |algorithm| digest::secret(algorithm, &user, REALM);
        Self {
            name,
            password: PasswordHash::of(password, salt),
            digest_md5: Some(DigestSecret(digest(Algorithm::Md5))),
            digest_sha256: Some(DigestSecret(digest(Algorithm::Sha256))),
            read: Vec::new(),
            publish: Vec::new(),
        }
    }

    pub(super) fn digest_secret(&self, algorithm: Algorithm) -> Option<&str> {
        if algorithm.is_md5() {
            self.digest_md5.as_ref().map(|secret| secret.0.as_str())
        } else {
            self.digest_sha256.as_ref().map(|secret| secret.0.as_str())
        }
    }

    /// The user as an entry of the list in a file, secrets and all.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        // Between quotes every character that a value can have stands for itself,
        // but for the quote, which is doubled.
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let list = |patterns: &[Pattern]| {
            let patterns = patterns.iter().map(|pattern| quoted(&pattern.to_string()));
            format!("[{}]", patterns.collect::<Vec<_>>().join(", "))
        };
        let md5 = self.digest_md5.as_ref().map(|secret| &secret.0);
        let sha256 = self.digest_sha256.as_ref().map(|secret| &secret.0);
        let lines = [
            ("- name", Some(quoted(&self.name.0))),
            ("  password", Some(quoted(self.password.reveal()))),
            ("  digest_md5", md5.map(|text| quoted(text))),
            ("  digest_sha256", sha256.map(|text| quoted(text))),
            ("  read", Some(list(&self.read))),
            ("  publish", Some(list(&self.publish))),
        ];
        for (key, value) in lines {
            if let Some(value) = value {
                writeln!(out, "{key}: {value}").expect("a string takes everything");
            }
        }
        out
    }
}

/// The name of a user: 1–64 visible ASCII characters but `:`, `"`, `\`, which Basic
/// (RFC 7617 §2) and Digest give a meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Name(String);

impl Name {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`NameError`] says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(NameError::Length { bytes: text.len() });
        }
        let allowed = |c: char| c.is_ascii_graphic() && !":\"\\".contains(c);
        match text.chars().find(|c| !allowed(*c)) {
            Some(found) => Err(NameError::Character { found }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Empty or too long.
    #[error("a user's name has 1 to {NAME_BYTES_MAX} characters, this one has {bytes}")]
    Length {
        /// Length found.
        bytes: usize,
    },
    /// A character that the protocols have another use for.
    #[error("{found:?} in a user's name: use visible ASCII characters but ':', '\"' and '\\'")]
    Character {
        /// The first bad character.
        found: char,
    },
}

/// Hash of name, realm and password in `DIGITS` hexadecimal digits (RFC 7616
/// §3.4.2). As good as the password itself where Digest is spoken, so never printed.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct DigestSecret<const DIGITS: usize>(String);

impl<const DIGITS: usize> fmt::Debug for DigestSecret<DIGITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<const DIGITS: usize> Serialize for DigestSecret<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl<const DIGITS: usize> TryFrom<String> for DigestSecret<DIGITS> {
    type Error = DigestSecretError;

    fn try_from(text: String) -> Result<Self, DigestSecretError> {
        let is_hash = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(DigestSecretError { digits: DIGITS })
        }
    }
}

/// A text is not a [`DigestSecret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a digest secret of this kind has {digits} hexadecimal digits: `glassline user add NAME` makes it"
)]
pub struct DigestSecretError {
    /// How many there should be.
    pub digits: usize,
}
