//! Who may read and publish: one store for every way into the server.
//!
//! ```text
//! auth.users, users_file ─┐            ┌► is_open, token_opens: without a name
//! auth.*_token ───────────┴► Users ────┼► verify: HTTP, Basic (argon2id, remembered)
//!                                      ├► digest_secret: RTSP, Digest (RFC 7616)
//!                                      └► may: what a name may do to a stream
//! ```
//!
//! A password is kept as the argon2id hash of RFC 9106 and, for Digest, as the two
//! hashes of name, realm and password that RFC 7616 §3.4.2 computes with. Digest
//! needs those as they are, so whoever reads them can use them for RTSP: the file
//! that holds them is to be kept like a key.
//!
//! Nobody learns from the time an answer takes whether a name exists.

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

/// What names and passwords are for, as clients are told. It is part of what
/// Digest hashes, so it never changes.
pub const REALM: &str = "glassline";

/// Passwords hashed at once: each takes a core for some 20 ms and 19 MiB, and
/// strangers can ask for it.
const HASHING_MAX: usize = 2;

/// Users, tokens and their rights.
#[derive(Debug)]
pub struct Users {
    known: RwLock<Arc<Known>>,
    read_token: Option<Secret>,
    publish_token: Option<Secret>,
    hashing: Semaphore,
    /// Stands for the password of names that do not exist.
    nobody: PasswordHash,
    /// Likewise, for Digest: drawn at start, so no response is ever right.
    nobody_secret: String,
}

/// Who is known until the users are replaced.
#[derive(Debug)]
struct Known {
    accounts: BTreeMap<Name, Account>,
    /// Passwords of these accounts alone: they are forgotten with them.
    verified: Verified,
}

impl Known {
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
    /// The users and tokens of a configuration. Draws the keys of this run.
    pub fn new(auth: &Auth) -> Self {
        let mut nobody = [0u8; 32];
        rand::rng().fill_bytes(&mut nobody);
        Self {
            known: RwLock::new(Arc::new(Known::new(&auth.users))),
            read_token: auth.read_token.clone(),
            publish_token: auth.publish_token.clone(),
            hashing: Semaphore::new(HASHING_MAX),
            nobody: PasswordHash::of_nobody(),
            nobody_secret: nobody.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Knows these users from now on, and no others; false if they are the same. Who was
    /// let in stays until it leaves.
    pub fn replace(&self, accounts: &[Account]) -> bool {
        let known = Known::new(accounts);
        let is_new = known.accounts != self.known().accounts;
        if is_new {
            let mut current = self.known.write().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::new(known);
        }
        is_new
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// There are users, so that names and passwords are worth asking for.
    pub fn any(&self) -> bool {
        !self.known().accounts.is_empty()
    }

    /// There is a token that gives `access`.
    pub fn has_token(&self, access: Access) -> bool {
        self.token(access).is_some()
    }

    /// Whether `peer` needs to show nothing at all: to read while there are neither
    /// users nor a read token; to publish, from this machine, while there are
    /// neither users nor a publish token.
    pub fn is_open(&self, access: Access, peer: IpAddr) -> bool {
        let guarded = self.any() || self.has_token(access);
        let here = || peer.to_canonical().is_loopback();
        !guarded && (access == Access::Read || here())
    }

    /// Whether `token` is the one that gives `access`, to every stream.
    pub fn token_opens(&self, access: Access, token: &str) -> bool {
        self.token(access).is_some_and(|it| it.matches(token))
    }

    /// Whether `user`, whose password was found right, has `access` to `stream`: a
    /// stream's name or a file's path in the media folder.
    pub fn may(&self, user: &str, access: Access, stream: &str) -> bool {
        let known = self.known();
        let Some(account) = known.accounts.get(user) else {
            return false;
        };
        let patterns = match access {
            Access::Read => &account.read,
            Access::Publish => &account.publish,
        };
        patterns.iter().any(|pattern| pattern.matches(stream))
    }

    /// What `user` may read, as patterns.
    pub fn readable(&self, user: &str) -> Vec<String> {
        let known = self.known();
        let account = known.accounts.get(user);
        let patterns = account.into_iter().flat_map(|account| &account.read);
        patterns.map(ToString::to_string).collect()
    }

    /// The hash of name, realm and password that `user`'s Digest responses are made
    /// of, in hexadecimal. For a name that is unknown or has none it is a hash of
    /// nothing: checked like any other, it fails after the same time.
    pub fn digest_secret(&self, user: &str, algorithm: digest::Algorithm) -> String {
        let known = self.known();
        let account = known.accounts.get(user);
        let secret = account.and_then(|account| account.digest_secret(algorithm));
        secret.unwrap_or(&self.nobody_secret).to_owned()
    }

    /// Whether this is `user`'s password.
    ///
    /// Hashes on a blocking thread, a few at once; a pair that was right is
    /// remembered for some minutes and then costs nothing. Needs a tokio runtime.
    pub async fn verify(&self, user: &str, password: &str) -> bool {
        let known = self.known();
        let pair = known.verified.key(user, password);
        if known.verified.has(&pair, Instant::now()) {
            return true;
        }
        let permit = self.hashing.acquire().await;
        let _permit = permit.expect("nobody closes the semaphore");
        // A player's requests come together: the first one answered for all.
        if known.verified.has(&pair, Instant::now()) {
            return true;
        }
        let account = known.accounts.get(user);
        let hash = account.map_or(&self.nobody, |account| &account.password);
        let (hash, given) = (hash.clone(), password.to_owned());
        let checked = tokio::task::spawn_blocking(move || hash.is_of(&given)).await;
        let right = account.is_some() && checked.unwrap_or(false);
        if right {
            known.verified.remember(pair, Instant::now());
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

/// Sixteen bytes drawn for one user's password.
pub fn salt() -> [u8; 16] {
    let mut salt = [0; 16];
    rand::rng().fill_bytes(&mut salt);
    salt
}

#[cfg(test)]
mod tests;
