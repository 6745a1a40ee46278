//! Users, tokens and their rights: one store for every protocol of the server.
//!
//! ```text
//! auth.users, users_file ─┐            ┌► is_open, open_streams: without credentials
//! auth.*_token ───────────┤  Users     ├► verify: Basic (argon2id, remembered)
//! auth.jwt ───────────────┼►   │ ──────┼► verify_token: those of the configuration
//! auth.tokens ────────────┤   │        ├► verify_bearer: those that a provider signed
//! auth.webhook ───────────┘   │        ├► ask: what the operator's service decides
//!                             │        ├► verify_digest: RTSP, Digest (RFC 7616)
//!                             │        ├► may: what a name may do to a stream
//!                             │        └► operator_by_…, sign_in: who uses the admin port
//!                             └ Login, LoginLimit: what nothing accepts costs its address, not the server
//! cors.origins, http.hosts ─► Sites: which pages of browsers may use the server
//! ```
//!
//! A password is stored as its argon2id hash (RFC 9106) and, for Digest, as the two hashes of name,
//! realm and password that RFC 7616 §3.4.2 computes with. Digest needs these hashes unchanged, so a
//! person who reads them can use them for RTSP: protect the file that holds them like a private
//! key.
//!
//! A user with a Digest secret for SHA-256 has, in effect, two hashes of the same password. If all
//! users do, the fast one is compared first: a wrong password then costs microseconds, and argon2id
//! takes time only for passwords that are right. The file has the fast hash anyway, so this tells
//! its reader nothing new; guesses over the network are bounded by the limit of failed logins.
//!
//! The time that an answer takes does not depend on whether a name exists.

mod account;
mod asked;
mod bearer;
mod checked_pairs;
mod exclusions;
mod hash_threads;
mod holder_name;
mod holders;
mod jwt;
mod known_tokens;
mod login;
mod login_error;
mod login_limit;
mod operator;
mod operators;
mod password;
mod pattern;
mod prepared;
mod requester;
mod role;
mod secret;
mod settings;
mod sign_ins;
mod sites;
mod stream_rights;
mod token_digest;
mod user_table;
mod verifiers;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_rtsp::auth::{User, digest, same_secret};
use glassline_rtsp::server::Digest;
use parking_lot::{Mutex, RwLock};
use rand::RngCore;
use tokio::sync::watch;

use glassline_rooms as rooms;
use glassline_runtime::SourcePrefix;
use hash_threads::HashThreads;
use holders::Holders;
use login_limit::LoginLimit;
use sign_ins::SignIns;
use user_table::{Layers, UserTable};

pub use account::{Account, DigestSecret, DigestSecretError, Name, NameError};
pub use bearer::query_token;
pub use exclusions::{
    EXCLUSION_MAX, EXCLUSIONS_MAX, Excluded, Exclusion, Exclusions, Guest, TooManyExclusions,
};
pub use glassline_rtsp::server::Access;
#[cfg(any(test, fuzzing))]
pub use jwt::fuzz_token;
pub use jwt::{Algorithm, Jwt, KeyCounters, KeyRing, KeyRingError, TOKEN_BYTES_MAX, TokenError};
pub use known_tokens::{KnownToken, NamedToken, draw_token};
pub use login::Login;
pub use login_error::LoginError;
pub use login_limit::{FailureCounters, LoginCounters};
pub use operator::{Operator, OperatorId};
pub use password::{HashError, PasswordHash};
pub use pattern::{Pattern, PatternError};
pub use prepared::PreparedAuth;
pub use requester::{Listener, Requester};
pub use role::Role;
pub use secret::{
    HIDDEN, Secret, SecretError, SecretFile, SecretText, serialize_hidden, with_fingerprints,
};
pub use settings::{Auth, list};
pub use sites::{HostName, HostNameError, Origin, OriginError, PageHeaders, PageRefusal, Sites};
pub use stream_rights::{RightLists, StreamRights};
pub use token_digest::{TokenDigest, digest_of};
pub use user_table::Made;
#[cfg(any(test, fuzzing))]
pub use webhook::fuzz_answer;
pub use webhook::{
    Action, Credential, Question, TRIED_STREAM, Webhook, WebhookCounters, try_webhook,
};

/// The authentication realm that clients are told. It is part of what Digest hashes, so it must
/// never change.
pub const REALM: &str = "glassline";

/// Time after which a client should try again that was refused because too many passwords wait.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// Users, tokens and their rights.
#[derive(Debug)]
pub struct Users {
    /// The layers that the table is made of.
    layers: Mutex<Layers>,
    table: RwLock<Arc<UserTable>>,
    /// Number of times that the users were replaced.
    generation: AtomicU64,
    /// Whether there is, or was, a provider or a webhook, whose rights end by themselves.
    have_ends: AtomicBool,
    replaced: watch::Sender<()>,
    holders: Holders,
    sign_ins: SignIns,
    exclusions: Exclusions,
    limit: Arc<LoginLimit>,
    hashing: HashThreads,
    /// Hash that is checked for names that do not exist.
    nobody: PasswordHash,
    /// Digest secret of names that do not exist: drawn at start, so no response is ever right.
    nobody_secret: String,
}

/// The streams that a request may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Every stream, the voices of rooms included.
    All,
    /// Every stream but the voices of rooms.
    AllButRooms,
    /// The streams for which this user, or holder of a token, has the right.
    OfUser(String),
}

impl Readable {
    /// Returns whether `stream` is one of them.
    pub fn has(&self, users: &Users, stream: &str) -> bool {
        match self {
            Self::All => true,
            Self::AllButRooms => !rooms::is_voice(stream),
            Self::OfUser(name) => users.may(name, Access::Read, stream),
        }
    }
}

impl Users {
    /// Creates the store of a configuration's users and tokens. Draws the keys of this run.
    pub fn new(auth: &Auth) -> Self {
        let mut nobody = [0u8; 32];
        rand::rng().fill_bytes(&mut nobody);
        let layers = Layers::of(auth);
        Self {
            table: RwLock::new(Arc::new(UserTable::new(&layers))),
            have_ends: AtomicBool::new(layers.verifiers.have_ends()),
            layers: Mutex::new(layers),
            generation: AtomicU64::new(0),
            replaced: watch::Sender::new(()),
            holders: Holders::default(),
            sign_ins: SignIns::default(),
            exclusions: Exclusions::default(),
            limit: Arc::new(LoginLimit::new()),
            hashing: HashThreads::new(),
            nobody: PasswordHash::of_nobody(),
            nobody_secret: nobody.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Returns the number of times that the users were replaced. A right that was granted at
    /// another number must be checked again before it is used.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns who is kept away for some time, whatever the rights.
    pub const fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }

    /// Returns a receiver that tells when the users are replaced.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.replaced.subscribe()
    }

    /// Returns whether there are users of streams, so that clients should be asked for name and
    /// password.
    pub fn any(&self) -> bool {
        self.table().has_users_of_streams()
    }

    /// Returns whether names get rights to streams by logging in: those of users, of the holders of
    /// tokens, or of clients that the webhook allows.
    pub fn has_logins(&self) -> bool {
        self.has_own_logins() || self.has_webhook()
    }

    fn has_own_logins(&self) -> bool {
        let table = self.table();
        table.verifiers.jwt.is_some()
            || table.has_users_of_streams()
            || table.has_tokens_of_streams()
    }

    /// Returns whether there is a token that gives `access`.
    pub fn has_token(&self, access: Access) -> bool {
        self.token(access).is_some()
    }

    /// Returns the counts of failed logins.
    pub fn failures(&self) -> &LoginCounters {
        self.limit.counters()
    }

    /// Returns whether `by` needs no credentials: to read if there are neither users nor a read
    /// token; to publish from this machine if there are neither users nor a publish token. Which
    /// streams an open server lets a client read: [`open_streams`](Self::open_streams).
    pub fn is_open(&self, access: Access, by: &Requester) -> bool {
        let guarded =
            self.has_own_logins() || self.webhook_decides(access) || self.has_token(access);
        !guarded && (access == Access::Read || by.is_local())
    }

    /// Returns the streams that `by` may read without credentials; `None` for no stream. Voices of
    /// rooms are private: without credentials, only this machine hears them, as only this machine
    /// may join a room.
    pub fn open_streams(&self, by: &Requester) -> Option<Readable> {
        if !self.is_open(Access::Read, by) {
            None
        } else if self.is_open(Access::Publish, by) {
            Some(Readable::All)
        } else {
            Some(Readable::AllButRooms)
        }
    }

    /// Returns whether `token` gives `access`; a token gives it to every stream. Only for tokens
    /// that [`verify_token`](Self::verify_token) has accepted, since failures are not counted here.
    pub fn token_opens(&self, access: Access, token: &str) -> bool {
        self.token(access).is_some_and(|it| it.matches(token))
    }

    /// Checks that `token` gives one of `accesses`.
    ///
    /// # Errors
    /// Returns [`LoginError`]. Somebody else may know the token: [`verify_bearer`](Self::verify_bearer),
    /// [`ask`](Self::ask).
    pub fn verify_token(
        &self,
        login: &mut Login,
        accesses: &[Access],
        token: &str,
    ) -> Result<(), LoginError> {
        let opens = || accesses.iter().any(|it| self.token_opens(*it, token));
        let is_other = self.is_signed(token) && !opens();
        if is_other || !accesses.iter().any(|access| self.has_token(*access)) {
            return Err(LoginError::Wrong);
        }
        let (table, now) = (self.table(), Instant::now());
        // No user's name has a colon.
        let kind = match accesses {
            [Access::Read] => ":read",
            [Access::Publish | Access::Past] => ":publish",
            _ => ":any",
        };
        let at = login.place(None, token);
        let from = SourcePrefix::from(login.by().address());
        let pair = table.verified.key(from, kind, token);
        if table.verified.has(&pair, now) && opens() {
            self.accept(login, at, now);
            return Ok(());
        }
        self.check(login, at, &table, pair, opens)
    }

    /// Returns whether `password` is a token that gives `access`, presented as the password of a
    /// user of any name. It is not wrong if it is none, since it may be the user's password; an
    /// address that has failed too often gets no answer.
    pub fn is_token(&self, login: &mut Login, accesses: &[Access], password: &str) -> bool {
        let opens = accesses.iter().any(|it| self.token_opens(*it, password));
        let (at, now) = (login.place(None, password), Instant::now());
        let is_token = opens && self.limit.may_begin(login.by(), now);
        if is_token {
            self.accept(login, at, now);
        }
        is_token
    }

    /// Checks the credentials of a Digest request (RFC 7616).
    ///
    /// # Errors
    /// Returns [`LoginError`] if the response is wrong or the address has to wait.
    pub fn verify_digest(&self, login: &mut Login, response: &Digest) -> Result<(), LoginError> {
        let (user, now) = (response.user(), Instant::now());
        let at = login.place(Some(user), user);
        self.begin(login, at, now)?;
        if response.verify(&self.digest_secret(user, response.algorithm())) {
            self.accept(login, at, now);
            return Ok(());
        }
        login.refuse(at, true);
        Err(LoginError::Wrong)
    }

    /// Returns whether `user`, whose password or token was verified, has `access` to `stream`, which is a
    /// stream's name or a file's path in the media folder.
    pub fn may(&self, user: &str, access: Access, stream: &str) -> bool {
        self.may_do(user, access.into(), stream)
    }

    /// Returns whether `user`, whose password or token was verified, may do `action` to `stream`: a list
    /// of the user has it, or it is one of the [actions of operators](Action::is_of_operators) and the
    /// user has that role.
    pub fn may_do(&self, user: &str, action: Action, stream: &str) -> bool {
        let is_operator = || {
            let holder = self.holders.get(user, Instant::now());
            let role = match holder {
                Some(holder) => holder.role,
                None => self.table().accounts.get(user).and_then(|it| it.role),
            };
            role >= Some(Role::Operator)
        };
        action.is_of_operators() && is_operator() || self.has_listed(user, action, stream)
    }

    fn has_listed(&self, user: &str, action: Action, stream: &str) -> bool {
        if let Some(holder) = self.holders.get(user, Instant::now()) {
            return stream_rights::grants_access(&holder.rights.lists(), action, stream);
        }
        let table = self.table();
        let account = table.accounts.get(user);
        account.is_some_and(|it| stream_rights::grants_access(&it.lists(), action, stream))
    }

    /// Returns whether there is a user of this name, or a holder of a token whose time is not over.
    pub fn has(&self, user: &str) -> bool {
        let is_holder = || self.holders.get(user, Instant::now()).is_some();
        is_holder() || self.table().accounts.contains_key(user)
    }

    /// Returns the patterns of the streams that `user` may read.
    pub fn readable(&self, user: &str) -> Vec<String> {
        if let Some(holder) = self.holders.get(user, Instant::now()) {
            return holder.rights.read.iter().map(ToString::to_string).collect();
        }
        let table = self.table();
        let account = table.accounts.get(user);
        let patterns = account.into_iter().flat_map(|account| &account.read);
        patterns.map(ToString::to_string).collect()
    }

    /// Returns the hash of name, realm and password that `user`'s Digest responses are made of, in
    /// hexadecimal. For a name that is unknown or has no such hash, a random value is returned: a
    /// response is checked in the same time and fails.
    fn digest_secret(&self, user: &str, algorithm: digest::Algorithm) -> String {
        let table = self.table();
        let account = table.accounts.get(user);
        let secret = account.and_then(|account| account.digest_secret(algorithm));
        secret.unwrap_or(&self.nobody_secret).to_owned()
    }

    /// Checks that this is `user`'s password.
    ///
    /// A right pair of name and password is remembered for some minutes and then costs nothing, for
    /// the address that it came from. Others are hashed on threads of low priority.
    ///
    /// # Errors
    /// Returns [`LoginError`] if user or password is wrong or the address has to wait.
    pub async fn verify(
        &self,
        login: &mut Login,
        user: &str,
        password: &str,
    ) -> Result<(), LoginError> {
        let (table, now) = (self.table(), Instant::now());
        let at = login.place(Some(user), password);
        let from = SourcePrefix::from(login.by().address());
        let pair = table.verified.key(from, user, password);
        if table.verified.has(&pair, now) {
            self.accept(login, at, now);
            return Ok(());
        }
        let account = table.accounts.get(user);
        let is_likely = table.has_fast_hashes && self.has_fast_hash(account, user, password);
        if table.has_fast_hashes && !is_likely {
            return self.check(login, at, &table, pair, || false);
        }
        if table.refused.has(&pair, now) {
            login.refuse(at, false);
            return Err(LoginError::Wrong);
        }
        self.begin(login, at, now)?;
        if is_likely {
            self.release(login, at, now);
        }
        let hash = account.map_or(&self.nobody, |account| &account.password);
        let answer = self
            .hashing
            .compare(hash.clone(), password.to_owned(), !is_likely);
        let compared = match answer {
            // An error means that the hashing thread is gone.
            Some(answer) => answer.await.ok(),
            None => None,
        };
        match compared.map(|is_right| is_right && account.is_some()) {
            Some(true) => {
                table.verified.remember(pair, now);
                self.accept(login, at, now);
                Ok(())
            }
            Some(false) => {
                table.refused.remember(pair, now);
                login.refuse(at, true);
                Err(LoginError::Wrong)
            }
            None => {
                self.leave_untold(login, at, now);
                self.limit.count_busy(login.by());
                let retry_after = BUSY_RETRY;
                Err(LoginError::Busy { retry_after })
            }
        }
    }

    /// Returns whether the password has the account's fast hash; false for no account, in the same
    /// time.
    fn has_fast_hash(&self, account: Option<&Account>, user: &str, password: &str) -> bool {
        let shown = User {
            name: user.to_owned(),
            password: password.to_owned(),
        };
        let shown = digest::secret(digest::Algorithm::Sha256, &shown, REALM);
        let known = account.and_then(|it| it.digest_secret(digest::Algorithm::Sha256));
        same_secret(&shown, known.unwrap_or(&self.nobody_secret))
    }

    fn token(&self, access: Access) -> Option<Secret> {
        let table = self.table();
        match access {
            Access::Read => table.verifiers.read_token.clone(),
            // Whoever may publish has the recordings, too.
            Access::Publish | Access::Past => table.verifiers.publish_token.clone(),
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
