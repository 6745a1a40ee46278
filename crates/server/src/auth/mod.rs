//! Users, tokens and their rights: one store for every protocol of the server.
//!
//! ```text
//! auth.users, users_file ─┐            ┌► is_open, token_opens: without a name
//! auth.*_token ───────────┴► Users ────┼► verify: HTTP, Basic (argon2id, remembered)
//!                                      ├► digest_secret: RTSP, Digest (RFC 7616)
//!                                      └► may: what a name may do to a stream
//! ```
//!
//! A password is stored as its argon2id hash (RFC 9106) and, for Digest, as the two hashes of name,
//! realm and password that RFC 7616 §3.4.2 computes with. Digest needs these hashes unchanged, so a
//! person who reads them can use them for RTSP: protect the file that holds them like a private
//! key.
//!
//! The time that an answer takes does not depend on whether a name exists.

mod account;
mod password;
mod pattern;
mod secret;
mod settings;
mod verified;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use glassline_rtsp::auth::digest;
use rand::RngCore;
use tokio::sync::Semaphore;

use verified::Verified;

pub use account::{Account, DigestSecret, DigestSecretError, Name, NameError};
pub use glassline_rtsp::server::Access;
pub use password::{HashError, PasswordHash};
pub use pattern::{Pattern, PatternError};
pub(crate) use secret::HIDDEN;
pub use secret::{Secret, SecretError};
pub use settings::Auth;
pub(crate) use settings::list;

/// The authentication realm that clients are told. It is part of what Digest hashes, so it must
/// never change.
pub const REALM: &str = "glassline";

/// Most passwords that are hashed at the same time: each takes a core for some 20 ms and 19 MiB,
/// and strangers can cause it.
const HASHING_MAX: usize = 2;

/// Users, tokens and their rights.
#[derive(Debug)]
pub struct Users {
    table: RwLock<Arc<UserTable>>,
    read_token: Option<Secret>,
    publish_token: Option<Secret>,
    hashing: Semaphore,
    /// Hash that is checked for names that do not exist.
    nobody: PasswordHash,
    /// Digest secret of names that do not exist: drawn at start, so no response is ever right.
    nobody_secret: String,
}

/// The users until they are replaced.
#[derive(Debug)]
struct UserTable {
    accounts: BTreeMap<Name, Account>,
    /// Verified passwords of these accounts; they are dropped together with the accounts.
    verified: Verified,
}

impl UserTable {
    fn new(accounts: &[Account]) -> Self {
        let accounts = accounts.iter();
        let accounts = accounts.map(|account| (account.name.clone(), account.clone()));
        let mut key = [0; 32];
        rand::rng().fill_bytes(&mut key);
        Self {
            accounts: accounts.collect(),
            verified: Verified::new(key),
        }
    }
}

impl Users {
    /// Creates the store of a configuration's users and tokens. Draws the keys of this run.
    pub fn new(auth: &Auth) -> Self {
        let mut nobody = [0u8; 32];
        rand::rng().fill_bytes(&mut nobody);
        Self {
            table: RwLock::new(Arc::new(UserTable::new(&auth.users))),
            read_token: auth.read_token.clone(),
            publish_token: auth.publish_token.clone(),
            hashing: Semaphore::new(HASHING_MAX),
            nobody: PasswordHash::of_nobody(),
            nobody_secret: nobody.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Replaces all users. Returns false if they are the same. A client that is connected stays
    /// connected.
    pub fn replace(&self, accounts: &[Account]) -> bool {
        let table = UserTable::new(accounts);
        let is_new = table.accounts != self.table().accounts;
        if is_new {
            let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::new(table);
        }
        is_new
    }

    fn table(&self) -> Arc<UserTable> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether there are users, so that clients should be asked for name and password.
    pub fn any(&self) -> bool {
        !self.table().accounts.is_empty()
    }

    /// Returns whether there is a token that gives `access`.
    pub fn has_token(&self, access: Access) -> bool {
        self.token(access).is_some()
    }

    /// Returns whether `peer` needs no credentials: to read if there are neither users nor a read
    /// token; to publish from this machine if there are neither users nor a publish token.
    pub fn is_open(&self, access: Access, peer: IpAddr) -> bool {
        let guarded = self.any() || self.has_token(access);
        let here = || peer.to_canonical().is_loopback();
        !guarded && (access == Access::Read || here())
    }

    /// Returns whether `token` gives `access`; a token gives it to every stream.
    pub fn token_opens(&self, access: Access, token: &str) -> bool {
        self.token(access).is_some_and(|it| it.matches(token))
    }

    /// Returns whether `user`, whose password was verified, has `access` to `stream`, which is a
    /// stream's name or a file's path in the media folder.
    pub fn may(&self, user: &str, access: Access, stream: &str) -> bool {
        let table = self.table();
        let Some(account) = table.accounts.get(user) else {
            return false;
        };
        let patterns = match access {
            Access::Read => &account.read,
            Access::Publish => &account.publish,
        };
        patterns.iter().any(|pattern| pattern.matches(stream))
    }

    /// Returns the patterns of the streams that `user` may read.
    pub fn readable(&self, user: &str) -> Vec<String> {
        let table = self.table();
        let account = table.accounts.get(user);
        let patterns = account.into_iter().flat_map(|account| &account.read);
        patterns.map(ToString::to_string).collect()
    }

    /// Returns the hash of name, realm and password that `user`'s Digest responses are made of, in
    /// hexadecimal. For a name that is unknown or has no such hash, a random value is returned: a
    /// response is checked in the same time and fails.
    pub fn digest_secret(&self, user: &str, algorithm: digest::Algorithm) -> String {
        let table = self.table();
        let account = table.accounts.get(user);
        let secret = account.and_then(|account| account.digest_secret(algorithm));
        secret.unwrap_or(&self.nobody_secret).to_owned()
    }

    /// Returns whether this is `user`'s password.
    ///
    /// The password is hashed on a blocking thread, and only a few at once. A right pair of name
    /// and password is remembered for some minutes and then costs nothing. Needs a tokio runtime.
    pub async fn verify(&self, user: &str, password: &str) -> bool {
        let table = self.table();
        let pair = table.verified.key(user, password);
        if table.verified.has(&pair, Instant::now()) {
            return true;
        }
        let permit = self.hashing.acquire().await;
        let _permit = permit.expect("nobody closes the semaphore");
        // A player's requests arrive together: the first one that was verified counts for all.
        if table.verified.has(&pair, Instant::now()) {
            return true;
        }
        let account = table.accounts.get(user);
        let hash = account.map_or(&self.nobody, |account| &account.password);
        let (hash, given) = (hash.clone(), password.to_owned());
        let checked = tokio::task::spawn_blocking(move || hash.is_of(&given)).await;
        let right = account.is_some() && checked.unwrap_or(false);
        if right {
            table.verified.remember(pair, Instant::now());
        }
        right
    }

    fn token(&self, access: Access) -> Option<&Secret> {
        match access {
            Access::Read => self.read_token.as_ref(),
            Access::Publish => self.publish_token.as_ref(),
        }
    }
}

/// Returns sixteen random bytes for one user's password.
pub fn salt() -> [u8; 16] {
    let mut salt = [0; 16];
    rand::rng().fill_bytes(&mut salt);
    salt
}

#[cfg(test)]
mod tests;
