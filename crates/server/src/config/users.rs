//! The file with more users than the configuration has.

use std::path::Path;

use serde::de::{Deserialize, Deserializer};

use super::document::Document;
use super::load::{self, Error};
use crate::auth::{self, Account, Auth};

impl Auth {
    /// Adds the users of the file, if one is configured.
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
                others: Vec::new(),
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

/// Returns the users in the file at `path`: a list like `auth.users`.
///
/// # Errors
/// Returns [`Error`] with the file and, if there is one, the line.
pub fn users_of(path: &Path) -> Result<Vec<Account>, Error> {
    let (text, name) = load::read(path)?;
    users_in(&text, &name)
}

/// Parses the users in YAML text; `name` is the name of the file in errors.
///
/// # Errors
/// Returns [`Error`] with `name` and, if there is one, the line.
pub fn users_in(text: &str, name: &str) -> Result<Vec<Account>, Error> {
    if load::is_empty(text) {
        return Ok(Vec::new());
    }
    let mut document = Document::of_text(text, name)?;
    document.read_secret_files()?;
    document.deserialize::<List>().map(|List(users)| users)
}

struct List(Vec<Account>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        auth::list(from).map(Self)
    }
}
