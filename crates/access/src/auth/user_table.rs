//! The users and tokens of the present moment: those of the configuration, which files replace, and
//! those that were made over the API. A name of the configuration wins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::RngCore as _;

use super::checked_pairs::CheckedPairs;
use super::known_tokens::{KnownToken, KnownTokens};
use super::verifiers::Verifiers;
use super::{Account, Auth, Name, Role, Users};

/// Users and tokens that were made over the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// Users with their rights.
    pub accounts: Vec<Account>,
    /// Tokens with their rights.
    pub tokens: Vec<KnownToken>,
}

/// Users and tokens by where they come from.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) configured: Vec<Account>,
    pub(super) tokens: KnownTokens,
    pub(super) verifiers: Verifiers,
    made: Made,
}

/// The users until they are replaced.
#[derive(Debug)]
pub(super) struct UserTable {
    pub(super) accounts: BTreeMap<Name, Account>,
    /// Tokens of the configuration, and those that were made over the API.
    pub(super) tokens: KnownTokens,
    /// Tokens for all streams, the identity provider, and the webhook.
    pub(super) verifiers: Verifiers,
    /// Passwords and tokens that were right; they are dropped together with the accounts.
    pub(super) verified: CheckedPairs,
    /// Passwords and tokens that were wrong: a player that repeats the same one guesses nothing.
    pub(super) refused: CheckedPairs,
    /// Whether every account has the fast hash that is compared before argon2id.
    pub(super) has_fast_hashes: bool,
}

impl Layers {
    pub(super) fn of(auth: &Auth) -> Self {
        Self {
            configured: auth.users.clone(),
            tokens: KnownTokens::new(&auth.tokens),
            verifiers: Verifiers::of(auth, &Verifiers::default()),
            made: Made::default(),
        }
    }

    /// Returns the users with the names that are in force.
    fn accounts(&self) -> BTreeMap<Name, Account> {
        let all = self.made.accounts.iter().chain(&self.configured);
        all.map(|it| (it.name.clone(), it.clone())).collect()
    }
}

impl UserTable {
    pub(super) fn new(layers: &Layers) -> Self {
        let accounts = layers.accounts();
        let pairs = || {
            let mut key = [0; 32];
            rand::rng().fill_bytes(&mut key);
            CheckedPairs::new(key)
        };
        Self {
            has_fast_hashes: accounts.values().all(|it| it.digest_sha256.is_some()),
            accounts,
            tokens: layers.tokens.with(&layers.made.tokens),
            verifiers: layers.verifiers.clone(),
            verified: pairs(),
            refused: pairs(),
        }
    }

    pub(super) fn has_users_of_streams(&self) -> bool {
        self.accounts.values().any(Account::is_of_streams)
    }

    pub(super) fn has_tokens_of_streams(&self) -> bool {
        self.tokens.iter().any(KnownToken::is_of_streams)
    }

    /// Returns whether streams are read only with a credential.
    fn closes_reading(&self) -> bool {
        let has_logins = self.has_users_of_streams() || self.has_tokens_of_streams();
        has_logins || self.verifiers.guard_reading()
    }

    /// Returns whether only those with a role use the admin port.
    pub(super) fn closes_admin(&self) -> bool {
        let has_operators = self.accounts.values().any(|it| it.role.is_some());
        let has_tokens = self.tokens.iter().any(|it| it.role.is_some());
        has_operators || has_tokens || self.verifiers.jwt.is_some()
    }
}

impl Users {
    /// Replaces all users of the configuration. Returns false if they are the same. What was granted
    /// before must be checked again, since [`generation`](Self::generation) has changed.
    pub fn replace(&self, accounts: &[Account]) -> bool {
        self.change(|layers| layers.configured = accounts.to_vec())
    }

    /// Replaces all users and tokens that were made over the API, as [`replace`](Self::replace) does
    /// those of the configuration.
    pub fn replace_made(&self, made: Made) -> bool {
        self.change(|layers| layers.made = made)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Layers)) -> bool {
        let mut layers = self.layers.lock();
        change(&mut layers);
        let table = Arc::new(UserTable::new(&layers));
        let before = self.table();
        let is_new = table.accounts != before.accounts
            || table.tokens != before.tokens
            || table.verifiers != before.verifiers;
        if is_new {
            let mut current = self.table.write();
            *current = Arc::clone(&table);
            drop(current);
            self.holders.renew(&table.tokens);
            self.holders
                .end_of_others(&before.verifiers, &table.verifiers);
            self.generation.fetch_add(1, Ordering::Release);
            self.replaced.send_replace(());
        }
        is_new
    }

    pub(super) fn table(&self) -> Arc<UserTable> {
        Arc::clone(&self.table.read())
    }

    /// Returns the users of the configuration.
    pub fn configured_accounts(&self) -> Vec<Account> {
        self.layers.lock().configured.clone()
    }

    /// Returns the tokens of the configuration.
    pub fn configured_tokens(&self) -> Vec<KnownToken> {
        self.layers.lock().tokens.iter().cloned().collect()
    }

    /// Returns what was made over the API.
    pub fn made(&self) -> Made {
        self.layers.lock().made.clone()
    }

    /// Returns whether `auth` in place of the configuration's section would open streams that need
    /// a credential now.
    pub fn would_open_streams(&self, auth: &Auth) -> bool {
        let table = self.table_with(auth);
        self.table().closes_reading() && !table.closes_reading()
    }

    /// Returns whether `auth` in place of the configuration's section would open the admin port,
    /// which needs a role now.
    pub fn would_open_admin(&self, auth: &Auth) -> bool {
        let table = self.table_with(auth);
        self.table().closes_admin() && !table.closes_admin()
    }

    /// Returns the table that `auth` would make together with what was made over the API.
    fn table_with(&self, auth: &Auth) -> UserTable {
        let layers = self.layers.lock();
        let made = layers.made.clone();
        drop(layers);
        UserTable::new(&Layers {
            made,
            ..Layers::of(auth)
        })
    }

    /// Returns whether somebody can administer the server with `made` in place of what was made over
    /// the API: an admin is left, or nobody has a role and nobody had one, or an identity provider may
    /// name an admin.
    pub fn keeps_an_admin(&self, made: &Made) -> bool {
        let layers = self.layers.lock();
        let roles_with = |made: &Made| {
            let of_accounts = made.accounts.iter().chain(&layers.configured);
            let of_tokens = made.tokens.iter().chain(layers.tokens.iter());
            let roles = of_accounts.filter_map(|it| it.role);
            roles.chain(of_tokens.filter_map(|it| it.role)).max()
        };
        let (before, after) = (roles_with(&layers.made), roles_with(made));
        layers.verifiers.jwt.is_some()
            || after == Some(Role::Admin)
            || before.is_none() && after.is_none()
    }

    /// Returns whether a token that was made over the API may have rights to streams.
    pub(super) fn has_made_tokens(&self) -> bool {
        self.table().has_tokens_of_streams()
    }
}
