//! The list of users, checked entry by entry so that an error points at its line,
//! and the file that may hold more of them.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

use super::Auth;
use super::load::{self, Error};
use crate::auth::Account;

/// Users are looked up by name, so their number costs memory only: half a kB each.
const USERS_MAX: usize = 10_000;

impl Auth {
    /// Adds the users of the file, if one is named.
    pub(super) fn load_users_file(&mut self) -> Result<(), Error> {
        let Some(path) = &self.users_file else {
            return Ok(());
        };
        let known = |name: &str| self.users.iter().any(|it| it.name.as_str() == name);
        let more = users_of(path)?;
        if let Some(twice) = more.iter().find(|it| known(it.name.as_str())) {
            return Err(Error {
                file: path.display().to_string(),
                place: None,
                reason: format!(
                    "user '{}' stands in `auth.users` too: keep one of the two",
                    twice.name
                ),
            });
        }
        self.users.extend(more);
        Ok(())
    }
}

/// The users in the file at `path`: a list like `auth.users`.
///
/// # Errors
/// [`Error`] names the file and, where there is one, the line.
pub fn users_of(path: &Path) -> Result<Vec<Account>, Error> {
    let (text, name) = load::read(path)?;
    users_in(&text, &name)
}

/// The users in YAML text; `name` stands for the file in errors.
///
/// # Errors
/// [`Error`] names `name` and, where there is one, the line.
pub fn users_in(text: &str, name: &str) -> Result<Vec<Account>, Error> {
    if load::is_empty(text) {
        return Ok(Vec::new());
    }
    load::parse::<List>(text, name).map(|List(users)| users)
}

struct List(Vec<Account>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        list(from).map(Self)
    }
}

pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Account>, D::Error> {
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
