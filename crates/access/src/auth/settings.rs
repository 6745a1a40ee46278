//! Users and tokens in a configuration.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::jwt::{self, Jwt};
use super::webhook::{self, Action, Webhook};
use super::{Account, NamedToken, Secret, known_tokens};

/// Most users. They are looked up by name, so more cost only memory: half a kB each.
const USERS_MAX: usize = 10_000;

/// Rights to read and publish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Token of publishers; with null, only this machine publishes.
    pub publish_token: Option<Secret>,
    /// Token of viewers; with null, everybody watches if there are no users.
    pub read_token: Option<Secret>,
    /// Users with their rights; `glassline user add` prints entries. The first one with streams
    /// closes all streams, the first one with a role the admin port, to clients without a right.
    #[serde(deserialize_with = "list")]
    pub users: Vec<Account>,
    /// File with more users, a list like `users`; only the server should be able to read it.
    pub users_file: Option<PathBuf>,
    /// Tokens with a role on the admin port. The first one closes the port to everybody else.
    #[serde(deserialize_with = "known_tokens::checked")]
    pub tokens: Vec<NamedToken>,
    /// Tokens that an identity provider signs. They close everything to clients without a right.
    #[serde(deserialize_with = "jwt::checked")]
    pub jwt: Option<Jwt>,
    /// Service that decides who may read, publish and join rooms where neither users nor tokens do.
    /// It closes what it decides about.
    #[serde(deserialize_with = "webhook::checked")]
    pub webhook: Option<Webhook>,
}

impl Auth {
    /// Returns whether streams may be read only with a credential.
    pub fn closes_reading(&self) -> bool {
        self.users.iter().any(Account::is_of_streams) || self.guards_reading()
    }

    /// Returns whether streams may be read only with a credential even without users.
    pub fn guards_reading(&self) -> bool {
        self.read_token.is_some() || self.jwt.is_some() || self.webhook_of_reading().is_some()
    }

    /// Returns the webhook, if it is asked who may read.
    pub fn webhook_of_reading(&self) -> Option<&Webhook> {
        let is_asked = |it: &&Webhook| it.actions.contains(&Action::Read);
        self.webhook.as_ref().filter(is_asked)
    }

    /// Returns whether a user or token may have a role, so that the admin port is closed to others.
    pub fn closes_admin(&self) -> bool {
        let has_operators = self.users.iter().any(|it| it.role.is_some());
        has_operators || !self.tokens.is_empty() || self.jwt.is_some()
    }
}

/// Parses a list of users, checked entry by entry so that an error points at its line.
pub fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Account>, D::Error> {
    from.deserialize_seq(Entries)
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<Account>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of users, as `glassline user add NAME` prints them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut users = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        while let Some(user) = entries.next_element::<Account>()? {
            if !names.insert(user.name.clone()) {
                return Err(A::Error::custom(format_args!(
                    "user '{}' is there twice: keep one of the two",
                    user.name
                )));
            }
            if users.len() == USERS_MAX {
                let reason = format_args!("more than {USERS_MAX} users");
                return Err(A::Error::custom(reason));
            }
            users.push(user);
        }
        Ok(users)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }
}
