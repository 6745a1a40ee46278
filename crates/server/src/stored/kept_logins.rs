//! Users and tokens in the form of the file: with the hashes that everything else hides.

use glassline_access::auth::{
    Account, DigestSecret, DigestSecretError, HashError, KnownToken, Name, PasswordHash,
    TokenDigest,
};
use serde::{Deserialize, Serialize};

use super::login_rights::Rights;

/// A user with the hashes of the password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptUser {
    password: KeptSecret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest_md5: Option<KeptSecret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest_sha256: Option<KeptSecret>,
    #[serde(flatten)]
    rights: Rights,
}

/// A token with its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptToken {
    sha256: KeptSecret,
    #[serde(flatten)]
    rights: Rights,
}

/// A text that is written into the file, and shown nowhere else.
#[derive(Clone, PartialEq, Serialize, Deserialize, derive_more::Debug)]
#[debug("<hidden>")]
struct KeptSecret(String);

/// The reason why a user or token of the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeptError {
    #[error(transparent)]
    Password(#[from] HashError),
    #[error(transparent)]
    Digest(#[from] DigestSecretError),
    #[error("its hash is not one of SHA-256, in 64 hexadecimal digits")]
    Token,
}

impl KeptUser {
    pub(super) fn of(account: &Account) -> Self {
        let md5 = account.digest_md5.as_ref().map(DigestSecret::reveal);
        let sha256 = account.digest_sha256.as_ref().map(DigestSecret::reveal);
        let kept = |text: &str| KeptSecret(text.to_owned());
        Self {
            password: kept(account.password.reveal()),
            digest_md5: md5.map(kept),
            digest_sha256: sha256.map(kept),
            rights: Rights {
                role: account.role,
                streams: account.rights(),
            },
        }
    }

    /// Returns the user as the server knows it.
    ///
    /// # Errors
    /// Returns [`KeptError`] if a hash has been damaged.
    pub(super) fn account(&self, name: &Name) -> Result<Account, KeptError> {
        let text = |kept: &KeptSecret| kept.0.clone();
        let account = Account {
            name: name.clone(),
            password: PasswordHash::parse(&self.password.0)?,
            digest_md5: self
                .digest_md5
                .as_ref()
                .map(text)
                .map(DigestSecret::try_from)
                .transpose()?,
            digest_sha256: self
                .digest_sha256
                .as_ref()
                .map(text)
                .map(DigestSecret::try_from)
                .transpose()?,
            role: self.rights.role,
            read: Vec::new(),
            publish: Vec::new(),
            ptz: Vec::new(),
            playback: Vec::new(),
            record: Vec::new(),
            export: Vec::new(),
        };
        Ok(account.with_rights(self.rights.streams.clone()))
    }
}

impl KeptToken {
    pub(super) fn of(token: &KnownToken) -> Self {
        let digits = token.digest.iter();
        let sha256 = digits.fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Self {
            sha256: KeptSecret(sha256),
            rights: Rights {
                role: token.role,
                streams: token.rights.clone(),
            },
        }
    }

    /// Returns the token as the server knows it.
    ///
    /// # Errors
    /// Returns [`KeptError`] if the hash has been damaged.
    pub(super) fn known(&self, name: &Name) -> Result<KnownToken, KeptError> {
        let digits = self.sha256.0.as_bytes();
        let mut digest = TokenDigest::default();
        if digits.len() != 2 * digest.len() {
            return Err(KeptError::Token);
        }
        for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| KeptError::Token)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| KeptError::Token)?;
        }
        Ok(KnownToken {
            name: name.clone(),
            digest,
            role: self.rights.role,
            rights: self.rights.streams.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_access::auth::{Pattern, Role, StreamRights, digest_of, draw_token};

    #[test]
    fn users_and_tokens_come_back_from_the_file_and_are_shown_nowhere() {
        let name = Name::parse("ann").expect("a name");
        let account = Account {
            role: Some(Role::Admin),
            read: vec![Pattern::parse("cam*").expect("a pattern")],
            ..Account::new(name.clone(), "open sesame", &[7; 16])
        };
        let kept = KeptUser::of(&account);
        assert!(!format!("{kept:?}").contains("argon2"), "{kept:?}");
        let text = serde_json::to_string(&kept).expect("plain data");
        let read: KeptUser = serde_json::from_str(&text).expect("our own");
        assert_eq!(read.account(&name).expect("whole"), account);
        let token = draw_token();
        let known = KnownToken {
            name: name.clone(),
            digest: digest_of(&token),
            role: None,
            rights: StreamRights {
                publish: vec![Pattern::parse("*").expect("a pattern")],
                export: vec![Pattern::parse("yard*").expect("a pattern")],
                ..StreamRights::default()
            },
        };
        let text = serde_json::to_string(&KeptToken::of(&known)).expect("plain data");
        assert!(!text.contains(&token), "{text}");
        let read: KeptToken = serde_json::from_str(&text).expect("our own");
        assert_eq!(read.known(&name).expect("whole"), known);
    }

    #[test]
    fn damaged_hashes_are_refused() {
        let name = Name::parse("ann").expect("a name");
        for damaged in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            let kept = KeptToken {
                sha256: KeptSecret(damaged.to_owned()),
                rights: Rights::default(),
            };
            assert!(kept.known(&name).is_err(), "{damaged}");
        }
    }
}
