//! The file with more users than the configuration has.

use std::path::Path;

use glassline_access::auth::{self, Account, Auth};
use serde::de::{Deserialize, Deserializer};

use super::document::Document;
use super::load::{self, Error};

/// Adds the users of the file to `auth`, if one is configured.
pub(super) fn load_users_file(auth: &mut Auth) -> Result<(), Error> {
    let Some(path) = &auth.users_file else {
        return Ok(());
    };
    let known = |name: &str| auth.users.iter().any(|it| it.name.as_str() == name);
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
    auth.users.extend(more);
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn settings_that_do_not_fit_together_are_refused() {
        let read = |text: &str| {
            let text = format!("auth:\n  jwt: {text}\n");
            let config = Config::from_yaml(&text, "a.yml");
            config.map_err(|error| error.to_string())
        };
        let long = "x".repeat(64);
        for good in [
            format!("{{algorithms: [HS256, HS512], secret: {long}}}"),
            "{algorithms: [RS256, ES512, EdDSA], jwks_file: keys.json}".to_owned(),
            "{algorithms: [RS256], jwks_url: 'https://a/k', issuer: i, audience: a}".to_owned(),
        ] {
            assert!(read(&good).is_ok(), "{:?}", read(&good));
        }
        for (bad, why) in [
            ("{}".to_owned(), "name the keys"),
            (format!("{{secret: {long}}}"), "`algorithms` is empty"),
            (
                format!("{{algorithms: [HS256], secret: {long}, public_key: a}}"),
                "once",
            ),
            (
                "{algorithms: [HS256], secret: short}".to_owned(),
                "at least 32",
            ),
            (
                format!("{{algorithms: [HS512], secret: {}}}", &long[..63]),
                "at least 64",
            ),
            (
                format!("{{algorithms: [RS256], secret: {long}}}"),
                "public keys",
            ),
            (
                "{algorithms: [HS256], public_key: a.pem}".to_owned(),
                "`secret`",
            ),
            ("{algorithms: [none], public_key: a.pem}".to_owned(), "none"),
            (
                "{algorithms: [RS256], jwks_url: 'https://a/k'}".to_owned(),
                "`issuer`",
            ),
            (
                "{algorithms: [RS256], jwks_url: 'http://a/k', issuer: i, audience: a}".to_owned(),
                "plain http",
            ),
            (
                format!("{{algorithms: [HS256], secret: {long}, leeway_s: 301}}"),
                "leeway_s",
            ),
            (
                format!("{{algorithms: [HS256], secret: {long}, refresh_s: 5}}"),
                "refresh_s",
            ),
        ] {
            let error = read(&bad).expect_err(&bad);
            assert!(error.contains(why), "{bad}: {error}");
            assert!(!error.contains(&long), "a secret shows: {error}");
        }
    }
}
