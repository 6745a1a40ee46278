//! Who uses the admin port, and with which role.

use std::time::{Duration, Instant};

use glassline_runtime::SourcePrefix;

use super::operator::{Operator, Proof};
use super::sign_ins::SignIn;
use super::token_digest::digest_of;
use super::{Login, LoginError, Requester, Role, Users, jwt};

/// Stands for the name in the pairs that are remembered. No user's name has a colon.
const OPERATOR: &str = ":operator";

/// Name of somebody on this machine, while nobody needs a credential.
const THIS_MACHINE: &str = "this machine";

impl Users {
    /// Returns whether the admin port is closed to everybody without a role: as soon as a user, a
    /// token, or one of an identity provider may have one.
    pub fn guards_admin(&self) -> bool {
        self.table().closes_admin()
    }

    /// Returns whether a user has a role.
    pub fn has_operators(&self) -> bool {
        self.table().accounts.values().any(|it| it.role.is_some())
    }

    /// Returns `by` as an operator without a credential: a client on this machine, while the admin
    /// port is not closed.
    pub fn operator_here(&self, by: &Requester) -> Option<Operator> {
        (by.is_local() && !self.guards_admin()).then(|| Operator {
            shown: THIS_MACHINE.to_owned(),
            proof: Proof::Nothing,
        })
    }

    /// Logs an operator in by a user's name and password.
    ///
    /// # Errors
    /// Returns [`LoginError`]; a wrong name or password is counted.
    pub async fn operator_by_password(
        &self,
        by: &Requester,
        user: &str,
        password: &str,
    ) -> Result<Operator, LoginError> {
        let mut login = Login::new(*by).with_user(Some((user, password)));
        let verified = self.verify(&mut login, user, password).await;
        self.concluded(login, verified)?;
        let table = self.table();
        let account = table.accounts.get(user).ok_or(LoginError::Wrong)?;
        Ok(Operator {
            shown: user.to_owned(),
            proof: Proof::Password {
                name: user.to_owned(),
                hash: account.password.clone(),
            },
        })
    }

    /// Logs an operator in by a token that the server knows, or one that an identity provider signed.
    ///
    /// # Errors
    /// Returns [`LoginError`]; a wrong token is counted.
    pub async fn operator_by_token(
        &self,
        by: &Requester,
        token: &str,
    ) -> Result<Operator, LoginError> {
        let mut login = Login::new(*by).with_token(Some(token));
        let operator = self.operator_of(&mut login, token).await;
        self.concluded(login, operator)
    }

    async fn operator_of(&self, login: &mut Login, token: &str) -> Result<Operator, LoginError> {
        let (table, now) = (self.table(), Instant::now());
        let digest = digest_of(token);
        let found = table.tokens.get(&digest);
        if found.is_none() && self.is_signed(token) {
            return self.operator_by_signature(login, token).await;
        }
        let at = login.place(None, token);
        let from = SourcePrefix::from(login.by().address());
        let pair = table.verified.key(from, OPERATOR, token);
        if found.is_some() && table.verified.has(&pair, now) {
            self.accept(login, at, now);
        } else {
            self.check(login, at, &table, pair, || found.is_some())?;
        }
        let found = found.ok_or(LoginError::Wrong)?;
        Ok(Operator {
            shown: found.name.to_string(),
            proof: Proof::Token(digest),
        })
    }

    async fn operator_by_signature(
        &self,
        login: &mut Login,
        token: &str,
    ) -> Result<Operator, LoginError> {
        let name = self.verify_bearer(login, token).await?;
        let holder = self.holders.get(&name, Instant::now());
        let expired = LoginError::Token(jwt::TokenError::Expired);
        let subject = holder.ok_or(expired)?.subject.clone();
        Ok(Operator {
            shown: subject.unwrap_or_else(|| name.clone()),
            proof: Proof::Signed(name),
        })
    }

    /// Returns what an operator may do now; `None` if that is nothing, or nothing any more.
    pub fn role_of(&self, operator: &Operator) -> Option<Role> {
        match &operator.proof {
            Proof::Nothing => (!self.guards_admin()).then_some(Role::Admin),
            Proof::Password { name, hash } => {
                let table = self.table();
                let account = table.accounts.get(name.as_str())?;
                account.role.filter(|_| account.password == *hash)
            }
            Proof::Token(digest) => self.table().tokens.get(digest)?.role,
            Proof::Signed(name) => self.holders.get(name, Instant::now())?.role,
        }
    }

    /// Returns the time until the credential of `operator` ends by itself; `None` if it does not.
    fn credential_lasts(&self, operator: &Operator, now: Instant) -> Option<Duration> {
        match &operator.proof {
            Proof::Signed(name) => {
                let holder = self.holders.get(name, now);
                let until = holder.map_or(now, |it| it.until);
                Some(until.saturating_duration_since(now))
            }
            _ => None,
        }
    }

    /// Signs an operator in, and returns the secret that the operator's browser keeps.
    pub fn sign_in(&self, operator: Operator) -> SignIn {
        let now = Instant::now();
        let lasts = self.credential_lasts(&operator, now);
        self.sign_ins.begin(operator, lasts, now)
    }

    /// Returns who signed in with this secret, unless the time is over.
    pub fn signed_in(&self, secret: &str) -> Option<Operator> {
        self.sign_ins.get(secret, Instant::now())
    }

    /// Forgets who signed in with this secret.
    pub fn sign_out(&self, secret: &str) {
        self.sign_ins.end(secret);
    }
}
