//! One login: the credentials that a request shows, and what became of each.
//!
//! ```text
//! request ─► Login: all that it shows ─► verify…, ask: one after another ─► conclude
//!                                          accepted, wrong, or not for them      └─► LoginLimit
//! ```
//!
//! A request may show a token and a password, and several parts of the server may know one of them:
//! users, tokens, an identity provider, the webhook. None of them can tell that a credential is wrong,
//! because the next one may accept it. So each notes its verdict here, and the end of the login counts
//! what nobody accepted: also what no part looked at, since the refusal tells its owner as much. A
//! client that leaves before the end has its failures counted, too: what it waits for tells something.

use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::SourcePrefix;

use super::checked_pairs::Pair;
use super::login_limit::LoginLimit;
use super::user_table::UserTable;
use super::{Access, LoginError, Requester, Users};

/// Stands for the name in the pairs of credentials that no part looked at. No user's name has a colon.
const UNSEEN: &str = ":unseen";

/// The credentials of one request. What nothing accepted is counted when the login is dropped.
#[must_use = "a login is concluded with the answer to its request"]
#[derive(derive_more::Debug)]
#[debug("Login {{ by: {by:?}, credentials: {:?}, .. }}", self.shown.len())]
pub struct Login {
    by: Requester,
    shown: Vec<Shown>,
    /// Where failures are counted; `None` as long as no part has looked at a credential.
    limit: Option<Arc<LoginLimit>>,
    /// The reason why a credential was not looked at: the address has failed too often.
    limited: Option<LoginError>,
}

/// A credential that the request shows, with the verdict on it.
struct Shown {
    /// Name that it is for; `None` for a token.
    user: Option<String>,
    secret: String,
    verdict: Verdict,
    /// Whether the address has paid for a failure that is not certain yet.
    holds_token: bool,
    /// Whether the failure is another one than before, for which the address pays.
    is_new: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No part looked at the credential.
    Unseen,
    /// A part could not tell, because it was busy or had no answer.
    Untold,
    /// A part looked at it, and does not know it.
    Wrong,
    Accepted,
}

/// Index of a credential of a login.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownIndex(usize);

impl Login {
    /// Begins a login that shows nothing yet.
    pub const fn new(by: Requester) -> Self {
        Self {
            by,
            shown: Vec::new(),
            limit: None,
            limited: None,
        }
    }

    /// Adds a token that the request shows.
    pub fn with_token(mut self, token: Option<&str>) -> Self {
        if let Some(token) = token {
            self.place(None, token);
        }
        self
    }

    /// Adds a name with a password, or with another proof that stands in its place.
    pub fn with_user(mut self, user: Option<(&str, &str)>) -> Self {
        if let Some((user, secret)) = user {
            self.place(Some(user), secret);
        }
        self
    }

    /// Returns the client that logs in.
    pub const fn by(&self) -> &Requester {
        &self.by
    }

    /// Returns the place of the credential with this secret. A password may be a token, too.
    pub(super) fn place(&mut self, user: Option<&str>, secret: &str) -> ShownIndex {
        let known = self.shown.iter().position(|it| it.secret == secret);
        ShownIndex(known.unwrap_or_else(|| {
            self.shown.push(Shown {
                user: user.map(str::to_owned),
                secret: secret.to_owned(),
                verdict: Verdict::Unseen,
                holds_token: false,
                is_new: false,
            });
            self.shown.len() - 1
        }))
    }

    /// Notes that a part does not know the credential. A failure that is not `is_new` was paid for
    /// before.
    pub(super) fn refuse(&mut self, at: ShownIndex, is_new: bool) {
        let shown = &mut self.shown[at.0];
        if shown.verdict != Verdict::Accepted {
            shown.verdict = Verdict::Wrong;
            shown.is_new |= is_new;
        }
    }
}

impl Users {
    /// Begins to check a credential, for which the address pays until the login is right.
    ///
    /// # Errors
    /// Returns [`LoginError::Limited`] if the address has failed too often.
    pub(super) fn begin(
        &self,
        login: &mut Login,
        at: ShownIndex,
        now: Instant,
    ) -> Result<(), LoginError> {
        login.limit.get_or_insert_with(|| Arc::clone(&self.limit));
        if !login.shown[at.0].holds_token {
            // Told once, whatever else looks at the login.
            let told = login.limited.map_or(Ok(()), Err);
            let begun = told.and_then(|()| self.limit.begin(&login.by, now));
            login.limited = begun.err();
            begun?;
            login.shown[at.0].holds_token = true;
        }
        Ok(())
    }

    /// Gives back what the address has paid, until the failure is certain: any number of users behind
    /// one address may log in at the same time.
    pub(super) fn release(&self, login: &mut Login, at: ShownIndex, now: Instant) {
        if std::mem::take(&mut login.shown[at.0].holds_token) {
            self.limit.succeed(&login.by, now);
        }
    }

    /// Notes that a part accepts the credential: the login costs nothing.
    pub(super) fn accept(&self, login: &mut Login, at: ShownIndex, now: Instant) {
        self.release(login, at, now);
        login.shown[at.0].verdict = Verdict::Accepted;
    }

    /// Notes that a part cannot tell whether it knows the credential.
    pub(super) fn leave_untold(&self, login: &mut Login, at: ShownIndex, now: Instant) {
        let verdict = &mut login.shown[at.0].verdict;
        // Another part may have told already that it does not know it.
        if *verdict == Verdict::Unseen {
            *verdict = Verdict::Untold;
            self.release(login, at, now);
        }
    }

    /// Runs a check that takes no time, within the limit of failed logins.
    pub(super) fn check(
        &self,
        login: &mut Login,
        at: ShownIndex,
        table: &UserTable,
        pair: Pair,
        is_right: impl FnOnce() -> bool,
    ) -> Result<(), LoginError> {
        let now = Instant::now();
        login.limit.get_or_insert_with(|| Arc::clone(&self.limit));
        if table.refused.has(&pair, now) {
            login.refuse(at, false);
            return Err(LoginError::Wrong);
        }
        self.begin(login, at, now)?;
        if is_right() {
            table.verified.remember(pair, now);
            self.accept(login, at, now);
            return Ok(());
        }
        table.refused.remember(pair, now);
        login.refuse(at, true);
        Err(LoginError::Wrong)
    }

    /// Ends a login, which has failed once if it shows a credential that nothing has accepted. A
    /// credential that nothing has looked at is none where the request `is_granted` all the same, or
    /// where the server knows no credentials.
    ///
    /// # Errors
    /// Returns [`LoginError::Limited`] if the address has failed too often.
    pub fn conclude(&self, mut login: Login, is_granted: bool) -> Result<(), LoginError> {
        login.limit.get_or_insert_with(|| Arc::clone(&self.limit));
        if login.limited.is_some() || is_granted || !self.knows_credentials() {
            return Ok(());
        }
        let (table, now) = (self.table(), Instant::now());
        let from = SourcePrefix::from(login.by.address());
        for at in 0..login.shown.len() {
            let shown = &login.shown[at];
            if shown.verdict != Verdict::Unseen {
                continue;
            }
            let pair = table.refused.key(from, UNSEEN, &shown.secret);
            if !table.refused.has(&pair, now) {
                self.begin(&mut login, ShownIndex(at), now)?;
                table.refused.remember(pair, now);
            }
            login.refuse(ShownIndex(at), false);
        }
        Ok(())
    }

    /// Ends a login with its answer.
    ///
    /// # Errors
    /// Returns the error of `answer`, or [`LoginError::Limited`] in place of one.
    pub(super) fn concluded<T>(
        &self,
        login: Login,
        answer: Result<T, LoginError>,
    ) -> Result<T, LoginError> {
        let concluded = self.conclude(login, answer.is_ok());
        match (answer, concluded) {
            (Err(LoginError::Wrong), Err(limited)) => Err(limited),
            (answer, _) => answer,
        }
    }

    /// Returns whether there is a credential that a client could guess.
    fn knows_credentials(&self) -> bool {
        self.has_logins() || self.has_token(Access::Read) || self.has_token(Access::Publish)
    }
}

impl Drop for Login {
    /// Counts the login as failed once if a credential is wrong. An address that has failed too often
    /// was told so instead.
    fn drop(&mut self) {
        let Some(limit) = self.limit.take().filter(|_| self.limited.is_none()) else {
            return;
        };
        let (mut failed, now) = (None, Instant::now());
        for shown in &mut self.shown {
            if shown.verdict == Verdict::Wrong {
                if shown.is_new && !shown.holds_token {
                    // The failure is paid for now: a login that is right never holds anything.
                    let _ = limit.begin(&self.by, now);
                }
                failed.get_or_insert(shown.user.take());
            }
        }
        if let Some(user) = failed {
            limit.fail(&self.by, user.as_deref(), now);
        }
    }
}

#[cfg(test)]
impl Users {
    /// Logs in by a name and a password alone.
    pub(super) async fn log_in(
        &self,
        by: &Requester,
        user: &str,
        password: &str,
    ) -> Result<(), LoginError> {
        let mut login = Login::new(*by);
        let verified = self.verify(&mut login, user, password).await;
        self.concluded(login, verified)
    }

    /// Logs in by a token alone.
    pub(super) fn log_in_by_token(
        &self,
        by: &Requester,
        accesses: &[Access],
        token: &str,
    ) -> Result<(), LoginError> {
        let mut login = Login::new(*by);
        let verified = self.verify_token(&mut login, accesses, token);
        self.concluded(login, verified)
    }

    /// Logs in by the webhook alone.
    pub(super) async fn log_in_by_asking(
        &self,
        question: super::Question,
    ) -> Result<String, LoginError> {
        let mut login = Login::new(question.by);
        let answered = self.ask(&mut login, question).await;
        self.concluded(login, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Listener;
    use super::*;

    #[test]
    fn a_client_that_leaves_before_the_answer_has_its_guess_counted() {
        let auth = super::super::Auth {
            read_token: super::super::Secret::new("look-1234567").ok(),
            ..super::super::Auth::default()
        };
        let users = Users::new(&auth);
        let by = Requester::direct([192, 0, 2, 1].into(), Listener::Http);
        for expected in 1..=3 {
            let mut login = Login::new(by);
            let wrong = users.verify_token(&mut login, &[Access::Read], "guess");
            assert_eq!(wrong, Err(LoginError::Wrong));
            drop(login);
            assert_eq!(users.failures().of(Listener::Http).wrong.get(), expected);
        }
    }
}
