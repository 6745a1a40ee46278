//! Users and tokens that were made over the API.

use std::sync::Arc;

use glassline_access::auth::{self, Account, KnownToken, Made, Name, Users, digest_of, draw_token};

use super::SharedFile;
use super::kept_logins::{KeptToken, KeptUser};
use super::login_rights::Rights;
use super::state_file::{Content, StateFileError};
use super::{Put, kept_logins::KeptError};

/// Most users, and most tokens, that may be made over the API.
const USERS_MAX: usize = 10_000;
const TOKENS_MAX: usize = 1_000;

/// Most patterns of a user or token. Each request for a stream is compared with all of them.
const PATTERNS_MAX: usize = 256;

/// The users and tokens that were made over the API.
#[derive(Debug)]
pub(crate) struct StoredLogins {
    file: SharedFile,
    users: Arc<Users>,
}

impl Rights {
    /// Checks the rights of the user or token `name`.
    fn check(&self, name: &Name) -> Result<(), LoginsError> {
        if *self == Self::default() {
            return Err(LoginsError::NoRights(name.clone()));
        }
        match self.streams.patterns() {
            patterns if patterns > PATTERNS_MAX => Err(LoginsError::TooManyPatterns(patterns)),
            _ => Ok(()),
        }
    }
}

/// The wanted properties of a user.
#[derive(Debug)]
pub(crate) struct UserChange {
    /// The new password; `None` keeps the one that the user has.
    pub(crate) password: Option<String>,
    pub(crate) rights: Rights,
}

/// The reason why a user or token was not made, changed or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LoginsError {
    /// The configuration has a user or token of this name.
    #[error("the configuration has '{0}', and only its file can change it: choose another name")]
    Configured(Name),
    /// There is no such user or token.
    #[error("the API has made no '{0}'")]
    Absent(Name),
    /// The user is new and has no password.
    #[error("'{0}' is new, and needs a `password`")]
    NoPassword(Name),
    /// The user or token would be of no use.
    #[error(
        "'{0}' would have no rights: give `role`, `read`, `publish`, `ptz`, `playback`, `record` or `export`"
    )]
    NoRights(Name),
    /// Nobody could administer the server any more.
    #[error(
        "nobody would have the role admin, so that nobody could change this again: keep or make an admin first"
    )]
    NoAdmin,
    /// There are too many.
    #[error("there are {0} already, and more cannot be made: delete one first")]
    TooMany(usize),
    /// The user or token has too many patterns.
    #[error(
        "the lists of streams have {0} patterns together, and may have {PATTERNS_MAX}: use patterns that end in `*`"
    )]
    TooManyPatterns(usize),
    /// The password could not be hashed.
    #[error("the password could not be hashed: {0}")]
    Hashing(String),
    /// The file cannot be written.
    #[error("not kept: {0}")]
    File(#[from] StateFileError),
    /// A deletion is in force, and is not in the file.
    #[error(
        "it is deleted until the server starts again, which would find it in its file; delete it again once the file can be written: {0}"
    )]
    DeletedUntilStart(StateFileError),
}

impl StoredLogins {
    /// Gives the users and tokens of the file to `users`. One that is damaged is left out, and stays in
    /// the file until it is made again or deleted.
    pub(super) fn load(file: SharedFile, content: &Content, users: &Arc<Users>) -> Self {
        let left_out = |name: &Name, error: &KeptError| {
            tracing::error!(%name, %error, "a user or token that was made over the API is left out");
        };
        let mut made = Made::default();
        for (name, kept) in &content.users {
            match kept.account(name) {
                Ok(account) => made.accounts.push(account),
                Err(error) => left_out(name, &error),
            }
        }
        for (name, kept) in &content.tokens {
            match kept.known(name) {
                Ok(token) => made.tokens.push(token),
                Err(error) => left_out(name, &error),
            }
        }
        users.replace_made(made);
        Self {
            file,
            users: Arc::clone(users),
        }
    }

    /// Returns all users by name, and whether each is of the configuration.
    pub(crate) fn users(&self) -> Vec<(Account, bool)> {
        let configured = self.users.configured_accounts().into_iter();
        let made = self.users.made().accounts.into_iter();
        let mut all: Vec<_> = configured.map(|it| (it, true)).collect();
        all.extend(made.map(|it| (it, false)));
        // A name of the configuration wins.
        all.sort_by(|(a, of_a), (b, of_b)| (&a.name, !of_a).cmp(&(&b.name, !of_b)));
        all.dedup_by(|(later, _), (earlier, _)| later.name == earlier.name);
        all
    }

    /// Returns all tokens by name, and whether each is of the configuration.
    pub(crate) fn tokens(&self) -> Vec<(KnownToken, bool)> {
        let configured = self.users.configured_tokens().into_iter();
        let made = self.users.made().tokens.into_iter();
        let mut all: Vec<_> = configured.map(|it| (it, true)).collect();
        all.extend(made.map(|it| (it, false)));
        all.sort_by(|(a, of_a), (b, of_b)| (&a.name, !of_a).cmp(&(&b.name, !of_b)));
        all.dedup_by(|(later, _), (earlier, _)| later.name == earlier.name);
        all
    }

    /// Makes a user, or changes one.
    ///
    /// # Errors
    /// Returns [`LoginsError`] with what is wrong; everything is then as before.
    pub(crate) async fn put_user(
        &self,
        name: &Name,
        UserChange { password, rights }: UserChange,
    ) -> Result<Put, LoginsError> {
        let is_configured = |it: &Account| it.name == *name;
        if self.users.configured_accounts().iter().any(is_configured) {
            return Err(LoginsError::Configured(name.clone()));
        }
        rights.check(name)?;
        // Hashing takes long, and changes nothing.
        let hashed = match password {
            Some(password) => Some(hashed(name.clone(), password).await?),
            None => None,
        };
        let mut file = self.file.lock().await;
        let mut made = self.users.made();
        let before = made.accounts.iter().position(|it| it.name == *name);
        let known = before.map(|at| made.accounts.remove(at));
        let account = hashed.or(known);
        let account = account.ok_or_else(|| LoginsError::NoPassword(name.clone()))?;
        if made.accounts.len() >= USERS_MAX {
            return Err(LoginsError::TooMany(USERS_MAX));
        }
        let account = Account {
            role: rights.role,
            ..account
        };
        made.accounts.push(account.with_rights(rights.streams));
        self.keep(&mut file, made)?;
        Ok(match before {
            Some(_) => Put::Changed,
            None => Put::Created,
        })
    }

    /// Deletes a user, whose sessions end as those of a user that the configuration loses.
    ///
    /// # Errors
    /// Returns [`LoginsError`] if there is no such user, or the file cannot be written: the user is then
    /// without rights until the server starts again.
    pub(crate) async fn delete_user(&self, name: &Name) -> Result<(), LoginsError> {
        let mut file = self.file.lock().await;
        let mut made = self.users.made();
        let before = made.accounts.len();
        made.accounts.retain(|it| it.name != *name);
        // One that is damaged, or could not be deleted before, is in the file alone.
        if made.accounts.len() == before && !file.content().users.contains_key(name) {
            let configured = self.users.configured_accounts();
            return Err(match configured.iter().any(|it| it.name == *name) {
                true => LoginsError::Configured(name.clone()),
                false => LoginsError::Absent(name.clone()),
            });
        }
        self.drop_from(&mut file, made)
    }

    /// Makes a token and returns its text, which nobody can read again; or gives a token other rights,
    /// and returns `None`.
    ///
    /// # Errors
    /// Returns [`LoginsError`] with what is wrong; everything is then as before.
    pub(crate) async fn put_token(
        &self,
        name: &Name,
        rights: Rights,
    ) -> Result<Option<String>, LoginsError> {
        let configured = self.users.configured_tokens();
        if configured.iter().any(|it| it.name == *name) {
            return Err(LoginsError::Configured(name.clone()));
        }
        rights.check(name)?;
        let mut file = self.file.lock().await;
        let mut made = self.users.made();
        let known = made.tokens.iter().position(|it| it.name == *name);
        let known = known.map(|at| made.tokens.remove(at).digest);
        if made.tokens.len() >= TOKENS_MAX {
            return Err(LoginsError::TooMany(TOKENS_MAX));
        }
        let drawn = known.is_none().then(draw_token);
        let digest = known.unwrap_or_else(|| digest_of(drawn.as_deref().unwrap_or_default()));
        made.tokens.push(KnownToken {
            name: name.clone(),
            digest,
            role: rights.role,
            rights: rights.streams,
        });
        self.keep(&mut file, made)?;
        Ok(drawn)
    }

    /// Deletes a token, with which nothing can be opened any more.
    ///
    /// # Errors
    /// Returns [`LoginsError`] if there is no such token, or the file cannot be written: the token opens
    /// nothing then until the server starts again.
    pub(crate) async fn delete_token(&self, name: &Name) -> Result<(), LoginsError> {
        let mut file = self.file.lock().await;
        let mut made = self.users.made();
        let before = made.tokens.len();
        made.tokens.retain(|it| it.name != *name);
        // One that is damaged, or could not be deleted before, is in the file alone.
        if made.tokens.len() == before && !file.content().tokens.contains_key(name) {
            let configured = self.users.configured_tokens();
            return Err(match configured.iter().any(|it| it.name == *name) {
                true => LoginsError::Configured(name.clone()),
                false => LoginsError::Absent(name.clone()),
            });
        }
        self.drop_from(&mut file, made)
    }

    /// Writes what is to be, and puts it into force.
    fn keep(&self, file: &mut super::StateFile, made: Made) -> Result<(), LoginsError> {
        if !self.users.keeps_an_admin(&made) {
            return Err(LoginsError::NoAdmin);
        }
        file.write(&content_with(file, &made))?;
        self.users.replace_made(made);
        Ok(())
    }

    /// Puts a deletion into force and writes it. What cannot be written is in force all the same: a
    /// full disk must not keep a stolen token alive.
    fn drop_from(&self, file: &mut super::StateFile, made: Made) -> Result<(), LoginsError> {
        if !self.users.keeps_an_admin(&made) {
            return Err(LoginsError::NoAdmin);
        }
        let content = content_with(file, &made);
        self.users.replace_made(made);
        file.write(&content).map_err(LoginsError::DeletedUntilStart)
    }
}

/// Returns the content of the file with other users and tokens.
fn content_with(file: &super::StateFile, made: &Made) -> Content {
    let mut content = file.content().clone();
    let users = made.accounts.iter();
    content.users = users
        .map(|it| (it.name.clone(), KeptUser::of(it)))
        .collect();
    let tokens = made.tokens.iter();
    content.tokens = tokens
        .map(|it| (it.name.clone(), KeptToken::of(it)))
        .collect();
    content
}

/// Hashes a password, on a thread that may take its time.
async fn hashed(name: Name, password: String) -> Result<Account, LoginsError> {
    let hashing = super::CHANGING.run(move || Account::new(name, &password, &auth::salt()));
    hashing
        .await
        .map_err(|error| LoginsError::Hashing(error.to_string()))
}
