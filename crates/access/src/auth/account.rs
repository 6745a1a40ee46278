use std::borrow::Borrow;
use std::fmt::Write as _;

use glassline_rtsp::auth;
use glassline_rtsp::auth::digest::{self, Algorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{HIDDEN, PasswordHash, Pattern, REALM, RightLists, Role, SecretText, StreamRights};

const NAME_BYTES_MAX: usize = 64;

/// One user as a file or the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Name of the user.
    pub name: Name,
    /// Hash of the password, as `glassline user add` prints it.
    pub password: PasswordHash,
    /// Hash of name, realm and password for RTSP Digest with MD5. Without a Digest hash, RTSP works
    /// within TLS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_md5: Option<DigestSecret<32>>,
    /// Hash of name, realm and password for RTSP Digest with SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_sha256: Option<DigestSecret<64>>,
    /// Patterns of streams that the user may read.
    #[serde(default)]
    pub read: Vec<Pattern>,
    /// Patterns of streams that the user may publish.
    #[serde(default)]
    pub publish: Vec<Pattern>,
    /// Patterns of streams whose cameras the user may move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ptz: Vec<Pattern>,
    /// Patterns of streams whose recordings the user may watch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub playback: Vec<Pattern>,
    /// Patterns of streams whose recording the user may start, stop and mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record: Vec<Pattern>,
    /// Patterns of streams whose recordings the user may export as files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export: Vec<Pattern>,
    /// The role of the user on the admin port; null for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl Account {
    /// Creates a user with the hashes of this password. Hashing takes some 20 ms; `salt` must be
    /// drawn for this user alone.
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
            ptz: Vec::new(),
            playback: Vec::new(),
            record: Vec::new(),
            export: Vec::new(),
            role: None,
        }
    }

    /// Returns whether the entry says who may use streams: it does, even if it gives no right to any,
    /// unless it only gives a role.
    pub fn is_of_streams(&self) -> bool {
        self.role.is_none() || self.lists().iter().any(|(_, list)| !list.is_empty())
    }

    /// Returns the user's rights to streams.
    pub fn lists(&self) -> RightLists<'_> {
        [
            ("read", &self.read),
            ("publish", &self.publish),
            ("ptz", &self.ptz),
            ("playback", &self.playback),
            ("record", &self.record),
            ("export", &self.export),
        ]
    }

    /// Returns a copy of the user's rights to streams.
    pub fn rights(&self) -> StreamRights {
        StreamRights {
            read: self.read.clone(),
            publish: self.publish.clone(),
            ptz: self.ptz.clone(),
            playback: self.playback.clone(),
            record: self.record.clone(),
            export: self.export.clone(),
        }
    }

    /// Returns the user with `rights` to streams in place of the former ones.
    pub fn with_rights(self, rights: StreamRights) -> Self {
        let StreamRights {
            read,
            publish,
            ptz,
            playback,
            record,
            export,
        } = rights;
        Self {
            read,
            publish,
            ptz,
            playback,
            record,
            export,
            ..self
        }
    }

    pub(super) fn digest_secret(&self, algorithm: Algorithm) -> Option<&str> {
        if algorithm.is_md5() {
            self.digest_md5.as_ref().map(|secret| secret.0.as_str())
        } else {
            self.digest_sha256.as_ref().map(|secret| secret.0.as_str())
        }
    }

    /// Returns the user as an entry of the list in a file, secrets included.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        // Within single quotes every character stands for itself, except the quote, which is
        // doubled.
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
        ];
        // An entry says of reading and publishing even that nothing may be read or published.
        let shown = self
            .lists()
            .into_iter()
            .filter(|(name, list)| !list.is_empty() || matches!(*name, "read" | "publish"));
        let rights = shown.map(|(name, patterns)| format!("  {name}: {}", list(patterns)));
        let role = self.role.map(|role| format!("  role: {}", role.as_str()));
        let secrets = lines
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| format!("{key}: {value}")));
        for line in secrets.chain(rights).chain(role) {
            writeln!(out, "{line}").expect("a string takes everything");
        }
        out
    }
}

/// The name of a user: 1–64 visible ASCII characters except `:`, `"` and `\`, which have a meaning
/// in Basic (RFC 7617 §2) and Digest.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    derive_more::Display,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Name(String);

impl Name {
    /// Checks `text`.
    ///
    /// # Errors
    /// Returns [`NameError`] with the rule that `text` breaks.
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

    /// Returns the name as text.
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

/// The reason why a text is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty or too long.
    #[error("a user's name has 1 to {NAME_BYTES_MAX} characters, this one has {bytes}")]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The name has a character that the protocols use otherwise.
    #[error("{found:?} in a user's name: use visible ASCII characters except ':', '\"' and '\\'")]
    Character {
        /// The first such character.
        found: char,
    },
}

/// Hash of name, realm and password in `DIGITS` hexadecimal digits (RFC 7616 §3.4.2). It is as good
/// as the password itself for Digest, so it is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema, derive_more::Debug)]
#[debug("{HIDDEN}")]
#[serde(try_from = "String")]
#[schemars(with = "SecretText")]
pub struct DigestSecret<const DIGITS: usize>(String);

impl<const DIGITS: usize> DigestSecret<DIGITS> {
    /// Returns the hash as text, to be written into a file that only the server reads.
    pub fn reveal(&self) -> &str {
        &self.0
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
    /// Number of digits that the kind of secret has.
    pub digits: usize,
}
