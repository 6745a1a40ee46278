//! Tokens that have a name and a role.

use std::collections::BTreeSet;

use rand::RngCore as _;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::token_digest::{TokenDigest, digest_of};
use super::{Name, Role, Secret, StreamRights};

/// Fewest characters of a token that opens the admin port. A random one of this length cannot be
/// guessed.
const CHARACTERS_MIN: usize = 16;

/// Most tokens. A request is compared with each of them.
const TOKENS_MAX: usize = 1_000;

/// A token of the configuration with its role on the admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedToken {
    /// Name of the holder in log and audit log.
    pub name: Name,
    /// The token: 16 to 1024 visible ASCII characters (`openssl rand -hex 24`).
    pub token: Secret,
    /// The role of the holder on the admin port.
    pub role: Role,
}

/// Beginning of the tokens that the server draws, by which they are told from passwords.
const DRAWN: &str = "glt_";

/// The tokens that the server knows, as their hashes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownTokens(Vec<KnownToken>);

/// One token that the server knows.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownToken {
    /// Name by which operators know the token.
    pub name: Name,
    /// Hash of the token, by which a presented one is found.
    pub digest: TokenDigest,
    /// The role of the holder on the admin port.
    pub role: Option<Role>,
    /// The rights of the holder on streams.
    pub rights: StreamRights,
}

impl KnownToken {
    /// Returns whether the token has rights to streams.
    pub fn is_of_streams(&self) -> bool {
        !self.rights.is_empty()
    }
}

impl KnownTokens {
    pub(super) fn new(tokens: &[NamedToken]) -> Self {
        let known = tokens.iter().map(|it| KnownToken {
            name: it.name.clone(),
            digest: digest_of(it.token.reveal()),
            role: Some(it.role),
            rights: StreamRights::default(),
        });
        Self(known.collect())
    }

    /// Returns these tokens and those of `made` whose names are not among these.
    pub(super) fn with(&self, made: &[KnownToken]) -> Self {
        let is_new = |it: &&KnownToken| !self.0.iter().any(|own| own.name == it.name);
        let made = made.iter().filter(is_new);
        Self(self.0.iter().chain(made).cloned().collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KnownToken> {
        self.0.iter()
    }

    /// Returns the token that has this hash. The time does not depend on which one that is.
    pub(super) fn get(&self, digest: &TokenDigest) -> Option<&KnownToken> {
        let same = |it: &KnownToken| bool::from(it.digest.ct_eq(digest));
        self.0.iter().fold(None, |found, it| match same(it) {
            true => Some(it),
            false => found,
        })
    }
}

/// Draws a new token of 192 random bits.
pub fn draw_token() -> String {
    let mut bytes = [0_u8; 24];
    rand::rng().fill_bytes(&mut bytes);
    let digits = bytes.iter();
    digits.fold(DRAWN.to_owned(), |token, byte| format!("{token}{byte:02x}"))
}

/// Returns whether `token` has the form of those that the server draws.
pub(super) fn is_drawn(token: &str) -> bool {
    token.starts_with(DRAWN)
}

/// Reads the list of tokens, each of which has a name and a text of its own.
pub(super) fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NamedToken>, D::Error> {
    let tokens = Option::<Vec<NamedToken>>::deserialize(from)?.unwrap_or_default();
    if tokens.len() > TOKENS_MAX {
        let reason = format_args!("more than {TOKENS_MAX} tokens");
        return Err(D::Error::custom(reason));
    }
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for NamedToken { name, token, .. } in &tokens {
        if token.reveal().len() < CHARACTERS_MIN {
            return Err(D::Error::custom(format_args!(
                "token '{name}' has less than {CHARACTERS_MIN} characters: draw one, like `openssl rand -hex 24`"
            )));
        }
        if !names.insert(name) || !texts.insert(token.reveal()) {
            return Err(D::Error::custom(format_args!(
                "token '{name}' has the name or the text of another one: give each its own"
            )));
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::super::Auth;
    use super::*;

    fn auth(tokens: &serde_json::Value) -> Result<Auth, String> {
        let auth = serde_json::json!({ "tokens": tokens });
        serde_json::from_value(auth).map_err(|error| error.to_string())
    }

    #[test]
    fn each_token_has_a_name_and_a_text_of_its_own_that_cannot_be_guessed() {
        let token = |name: &str, token: &str| serde_json::json!({"name": name, "token": token, "role": "viewer"});
        let (a, b) = ("0123456789abcdef", "0123456789abcdeg");
        let good = auth(&vec![token("ann", a), token("bob", b)].into()).expect("two tokens");
        let known = KnownTokens::new(&good.tokens);
        let found = known.get(&digest_of(b)).expect("it is there");
        assert_eq!(
            (found.name.as_str(), found.role),
            ("bob", Some(Role::Viewer))
        );
        assert!(known.get(&digest_of("0123456789abcde")).is_none());
        for (bad, told) in [
            (vec![token("ann", "short")], "less than 16"),
            (vec![token("ann", a), token("ann", b)], "'ann'"),
            (vec![token("ann", a), token("bob", a)], "'bob'"),
        ] {
            let error = auth(&bad.into()).expect_err(told);
            assert!(error.contains(told) && !error.contains(a), "{error}");
        }
    }
}
