//! Logins by a token that an identity provider signed, or that was made over the API.
//!
//! Its holder is a user for as long as the token lasts, with a name that no user has: all that asks
//! for the rights of a name serves both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{SourcePrefix, calendar};
use tokio::sync::watch;

use super::holder_name;
use super::holders::{Holder, HolderOrigin};
use super::token_digest::digest_of;
use super::verifiers::Verifiers;
use super::{
    Access, KeyRing, KeyRingError, Login, LoginError, Pattern, TokenError, Users, jwt, known_tokens,
};

/// Stands for the name in the pairs that are remembered. No user's name has a colon.
const SIGNED: &str = ":signed";

/// Time after which a client should try again while there are no keys.
const KEYS_RETRY: Duration = Duration::from_secs(5);

impl Users {
    /// Returns whether `token` has the form of a token whose holder has a name: one that an identity
    /// provider signs, or that was made over the API, and there are such tokens.
    pub fn is_signed(&self, token: &str) -> bool {
        self.has_provider() && jwt::has_form(token)
            || known_tokens::is_drawn(token) && self.has_made_tokens()
    }

    /// Returns whether `token` gives `access` to every stream, or has to be asked for with
    /// [`verify_bearer`](Self::verify_bearer).
    pub fn may_be_token(&self, access: Access) -> bool {
        self.has_token(access) || self.has_logins_by_token()
    }

    fn has_logins_by_token(&self) -> bool {
        self.has_provider() || self.has_made_tokens() || self.has_webhook()
    }

    /// Checks a token that an identity provider signed, or that was made over the API, and returns the
    /// name of its holder, whose rights [`may`](Self::may) tells until the token ends.
    ///
    /// A token that names an unknown key waits up to 5 s for newer keys.
    ///
    /// # Errors
    /// Returns [`LoginError`]. The reason is [`LoginError::Busy`] while there are no keys at all.
    pub async fn verify_bearer(
        &self,
        login: &mut Login,
        token: &str,
    ) -> Result<String, LoginError> {
        let (table, now) = (self.table(), Instant::now());
        let name = holder_name::name_of(token);
        let at = login.place(None, token);
        let from = SourcePrefix::from(login.by().address());
        let pair = table.verified.key(from, SIGNED, token);
        if table.verified.has(&pair, now) && self.holders.get(&name, now).is_some() {
            self.accept(login, at, now);
            return Ok(name);
        }
        if let Some(known) = table.tokens.get(&digest_of(token)) {
            self.check(login, at, &table, pair, || true)?;
            self.holders.insert(&name, Holder::of_known(known, now));
            return Ok(name);
        }
        let verifier = table.verifiers.jwt.as_ref();
        let Some(verifier) = verifier.filter(|_| jwt::has_form(token)) else {
            let wrong = self.check(login, at, &table, pair, || false);
            return Err(wrong.err().unwrap_or(LoginError::Wrong));
        };
        // A player repeats the token that it has: that is no guess.
        let is_new = !table.refused.has(&pair, now);
        if is_new {
            self.begin(login, at, now)?;
        }
        let mut verified = verifier.verify(token, now, calendar::now());
        if verified == Err(TokenError::UnknownKey) && verifier.ring().renewed(now).await {
            verified = verifier.verify(token, Instant::now(), calendar::now());
        }
        match verified {
            Ok(grant) => {
                let left = grant.until.duration_since(calendar::now());
                // A time beyond what the clock can tell is as good as none.
                let until = now.checked_add(left.unwrap_or_default());
                let holder = Holder {
                    rights: grant.rights,
                    role: grant.role,
                    subject: grant.subject,
                    origin: HolderOrigin::Provider,
                    until: until.unwrap_or_else(|| now + Duration::from_secs(1 << 30)),
                };
                self.holders.insert(&name, holder);
                table.verified.remember(pair, now);
                self.accept(login, at, now);
                Ok(name)
            }
            Err(TokenError::UnknownKey) if verifier.ring().age(now).0 == 0 => {
                self.leave_untold(login, at, now);
                self.limit.count_busy(login.by());
                let retry_after = KEYS_RETRY;
                Err(LoginError::Busy { retry_after })
            }
            Err(error) => {
                table.refused.remember(pair, now);
                login.refuse(at, is_new);
                tracing::debug!(from = %login.by().address(), %error, "token refused");
                Err(LoginError::Token(error))
            }
        }
    }

    /// Gives `user` the streams of `pattern` until `until`, if it is the holder of a token that
    /// another server of the cluster has verified. Users and tokens that this server knows have the
    /// rights that they have here.
    pub fn vouch(&self, user: &str, pattern: &Pattern, until: Instant) {
        let known = self.holders.get(user, Instant::now());
        let known = known.as_deref();
        if !holder_name::is_holder(user) || known.is_some_and(|it| it.origin == HolderOrigin::Known)
        {
            return;
        }
        // A ticket is for media: cameras are moved, and recordings are watched, at the server that has them.
        let mut rights = known.map(|it| it.rights.clone()).unwrap_or_default();
        for list in [&mut rights.read, &mut rights.publish] {
            if !list.contains(pattern) {
                list.push(pattern.clone());
            }
        }
        let holder = Holder {
            rights,
            role: known.and_then(|it| it.role),
            subject: known.and_then(|it| it.subject.clone()),
            origin: known.map_or(HolderOrigin::Ticket, |it| it.origin),
            until: known.map_or(until, |it| it.until),
        };
        self.holders.insert(user, holder);
    }

    /// Returns the end of the rights of `user`; `None` for a user whose rights have none.
    pub fn until(&self, user: &str) -> Option<Instant> {
        let now = Instant::now();
        let holder = self.holders.get(user, now);
        // Rights that have ended meanwhile end now.
        let ended = holder_name::is_holder(user).then_some(now);
        holder.map(|holder| holder.until).or(ended)
    }

    /// Returns whether `user` is the holder of a token that has ended.
    pub fn has_ended(&self, user: &str) -> bool {
        holder_name::is_holder(user) && self.holders.get(user, Instant::now()).is_none()
    }

    /// Forgets the holders of tokens that have ended. Returns whether there were any, whose sessions
    /// are to end, too.
    pub fn expire(&self, now: Instant) -> bool {
        let has_expired = self.holders.expire(now);
        if has_expired {
            self.replaced.send_replace(());
        }
        has_expired
    }

    /// Reads the keys of the identity provider for the first time, and the certificates that the
    /// webhook is trusted by.
    ///
    /// # Errors
    /// Returns [`KeyRingError`] if a file cannot be used.
    pub async fn load_keys(&self) -> Result<(), KeyRingError> {
        self.table().verifiers.load(&Verifiers::default()).await
    }

    /// Reads the keys again and again, until `stopped` becomes true. Follows a change of the
    /// provider.
    pub async fn keep_keys_fresh(&self, stopped: watch::Receiver<bool>) {
        let mut replaced = self.watch();
        loop {
            replaced.mark_unchanged();
            let verifier = self.table().verifiers.jwt.clone();
            let is_other = async {
                // The sender is `self`, so a change is the only end.
                while replaced.changed().await.is_ok() {
                    let now = self.table().verifiers.jwt.clone();
                    if now.as_ref().map(Arc::as_ptr) != verifier.as_ref().map(Arc::as_ptr) {
                        return;
                    }
                }
            };
            let fresh = async {
                if let Some(verifier) = &verifier {
                    verifier.ring().keep_fresh(stopped.clone()).await;
                }
                // Keys of the configuration itself never change.
                std::future::pending::<()>().await;
            };
            let mut until = stopped.clone();
            tokio::select! {
                () = fresh => {}
                () = is_other => {}
                _ = until.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Calls `with` with the keys of the identity provider, if one is configured.
    pub fn with_keys(&self, with: impl FnOnce(&KeyRing)) {
        if let Some(verifier) = &self.table().verifiers.jwt {
            with(verifier.ring());
        }
    }

    fn has_provider(&self) -> bool {
        self.table().verifiers.jwt.is_some()
    }
}

/// Returns the token in the query of a URL, for clients that cannot set headers.
pub fn query_token(query: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(name, value)| matches!(&*name, "token" | "jwt").then(|| value.into_owned()))
}
