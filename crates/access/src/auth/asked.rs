//! Logins that the webhook decides about.
//!
//! Who is allowed is the holder of what was asked, as the holder of a token is: a user with a name
//! that no user has, for as long as the rights last. All that asks for the rights of a name serves
//! both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_runtime::SourcePrefix;

use super::holder_name;
use super::holders::{Holder, HolderOrigin};
use super::webhook::{Action, Allowed, Asker, Denial, Question, WebhookCounters};
use super::{Access, Login, LoginError, Users};

/// Stands for the name in the pairs of credentials that the webhook refused. No user's name has a
/// colon.
const ASKED: &str = ":asked";

/// Time for which rights without an end last: as good as forever.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Time after which a client should try again that found too many questions waiting.
const CROWDED_RETRY: Duration = Duration::from_secs(1);

impl Users {
    /// Returns whether a webhook decides about some rights.
    pub fn has_webhook(&self) -> bool {
        self.asker().is_some()
    }

    fn asker(&self) -> Option<Arc<Asker>> {
        self.table().verifiers.webhook.clone()
    }

    /// Returns whether a webhook decides who has `access`.
    pub(super) fn webhook_decides(&self, access: Access) -> bool {
        let webhook = self.asker();
        webhook.is_some_and(|it| it.decides(Action::from(access)))
    }

    /// Returns whether names and passwords are asked for, because there are users of streams, or a
    /// webhook that may know them.
    pub fn asks_for_names(&self) -> bool {
        self.any() || self.has_webhook()
    }

    /// Returns whether a name and password are checked here, and not by the webhook.
    pub fn checks_here(&self, user: &str) -> bool {
        match self.asker() {
            Some(_) => self.table().accounts.contains_key(user),
            None => self.any(),
        }
    }

    /// Returns whether the webhook is to be asked `question`.
    pub fn takes(&self, question: &Question) -> bool {
        let webhook = self.asker();
        webhook.is_some_and(|it| it.takes(question))
    }

    /// Asks the webhook, and returns the name of the holder of the rights that it gives, which
    /// [`may`](Self::may) tells until they end. Must be called within tokio; no thread waits.
    ///
    /// # Errors
    /// Returns [`LoginError`]. Without a clear answer in time, the error is [`LoginError::NoAnswer`].
    pub async fn ask(&self, login: &mut Login, question: Question) -> Result<String, LoginError> {
        let Some(webhook) = self.asker().filter(|it| it.takes(&question)) else {
            return Err(LoginError::Wrong);
        };
        let now = Instant::now();
        let secret = question.secret().map(str::to_owned);
        let table = self.table();
        let shown = secret.map(|secret| {
            let from = SourcePrefix::from(login.by().address());
            let pair = table.refused.key(from, ASKED, &secret);
            (login.place(question.user(), &secret), pair)
        });
        if let Some((at, _)) = shown {
            self.begin(login, at, now)?;
            self.release(login, at, now);
        }
        let is_kept = |holder: &str| self.holders.get(holder, Instant::now()).is_some();
        let answered = webhook.ask(question, is_kept).await;
        let now = Instant::now();
        if let Some((at, pair)) = shown {
            match &answered.outcome {
                Ok(_) => self.accept(login, at, now),
                Err(Denial::Wrong | Denial::Refused) => {
                    // A guess is paid for once, even if its client did not wait for the first answer.
                    let is_new = answered.is_first || !table.refused.has(&pair, now);
                    table.refused.remember(pair, now);
                    login.refuse(at, is_new);
                }
                Err(Denial::NoAnswer { .. } | Denial::Crowded) => {
                    self.leave_untold(login, at, now);
                }
            }
        }
        match answered.outcome {
            Ok(granted) => {
                if let Some(allowed) = granted.new {
                    self.holders
                        .insert(&granted.holder, holder_of(allowed, now));
                }
                Ok(granted.holder)
            }
            Err(Denial::Wrong) => Err(LoginError::Wrong),
            Err(Denial::Refused) if shown.is_some() => Err(LoginError::Refused),
            // A client that has shown nothing is asked to show something.
            Err(Denial::Refused) => Err(LoginError::Wrong),
            Err(Denial::NoAnswer { retry_after }) => Err(LoginError::NoAnswer { retry_after }),
            Err(Denial::Crowded) => {
                self.limit.count_busy(login.by());
                let retry_after = CROWDED_RETRY;
                Err(LoginError::Busy { retry_after })
            }
        }
    }

    /// Returns the name of a holder of the rights of both: what one of them may do, until the first
    /// ends.
    pub fn both(&self, one: &str, other: &str) -> String {
        let now = Instant::now();
        let holders = (self.holders.get(one, now), self.holders.get(other, now));
        let (Some(first), Some(second)) = holders else {
            return one.to_owned();
        };
        let name = holder_name::name_of(&format!("{one} {other}"));
        let holder = Holder {
            rights: first.rights.clone().and(&second.rights),
            role: None,
            subject: first.subject.clone().or_else(|| second.subject.clone()),
            origin: HolderOrigin::Webhook,
            until: first.until.min(second.until),
        };
        self.holders.insert(&name, holder);
        name
    }

    /// Returns whether `holder` has a right to any stream.
    pub fn has_rights(&self, holder: &str) -> bool {
        let holder = self.holders.get(holder, Instant::now());
        holder.is_some_and(|it| !it.rights.is_empty())
    }

    /// Returns the counts of questions, and whether none are sent because the webhook does not
    /// answer; `None` without a webhook.
    pub fn webhook(&self) -> Option<(Arc<WebhookCounters>, bool)> {
        let webhook = self.asker()?;
        Some((Arc::clone(webhook.counters()), webhook.is_held_back()))
    }

    /// Returns whether rights may end by themselves, so that sessions have to end with them.
    pub fn have_ends(&self) -> bool {
        self.have_ends.load(Ordering::Relaxed)
    }
}

fn holder_of(allowed: Allowed, now: Instant) -> Holder {
    Holder {
        rights: allowed.rights,
        // Nobody becomes an operator by this way.
        role: None,
        subject: allowed.user,
        origin: HolderOrigin::Webhook,
        until: now + allowed.left.unwrap_or(FOREVER),
    }
}
