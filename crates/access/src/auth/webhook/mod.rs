//! Rights that a service of the operator decides about.
//!
//! ```text
//! question ─► cache? ─► same question under way? ─► Gate: address, places ─► Breaker ─► POST
//!                                │                                                      │
//!                                └── all who ask the same wait for one answer ◄─ decide ┘
//! ```
//!
//! Whatever is no clear answer refuses the client. A question runs as a task of its own, so a client
//! that leaves takes the answer from nobody, and no thread waits.

mod answer;
mod breaker;
mod cache;
mod counters;
mod gate;
mod question;
mod settings;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use axum::http::{Request, header};
use bytes::Bytes;
use glassline_runtime::{SourcePrefix, calendar};
use http_body_util::Full;
use parking_lot::Mutex;
use rand::RngCore;
use tokio::sync::watch;

use super::{Listener, Requester, holder_name};
use crate::outbound::{Bounds, BoxError, ClientError, HttpClient, SIGNATURE, Signer};
use answer::Decision;
use breaker::Breaker;
use cache::Answers;
use gate::{Entry, Gate};
use question::QuestionKey;

pub(super) use answer::Allowed;
#[cfg(any(test, fuzzing))]
pub use answer::fuzz_answer;
pub use counters::WebhookCounters;
pub use question::{Action, Credential, Question};
pub use settings::Webhook;
pub(super) use settings::checked;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Time after which a client should try again whose question got no answer, or was not sent.
const RETRY: Duration = Duration::from_secs(2);

/// The reason why a question is not answered by rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// Other credentials may be right.
    Wrong,
    /// The client is not allowed to do this.
    Refused,
    /// The webhook gave no clear answer.
    NoAnswer { retry_after: Duration },
    /// Too many questions wait.
    Crowded,
}

/// The answer to a question, and how it came.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) outcome: Result<Granted, Denial>,
    /// Whether the webhook was asked for this client, and not for another with the same question.
    pub(super) is_first: bool,
}

/// The rights that a client is granted: new rights, or those that the holder of this name has.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) holder: String,
    pub(super) new: Option<Allowed>,
}

type Outcome = Result<Granted, Denial>;

/// Asks the webhook of a configuration.
#[derive(Debug)]
pub(super) struct Asker {
    settings: Webhook,
    signer: Option<Signer>,
    /// Made when it is needed for the first time, since its file may be unusable.
    client: OnceLock<HttpClient>,
    /// Key of this run for the hashes of questions.
    key: hmac::Key,
    answers: Mutex<Answers>,
    under_way: Mutex<HashMap<QuestionKey, watch::Receiver<Option<Outcome>>>>,
    gate: Arc<Gate>,
    health: Mutex<Health>,
    counters: Arc<WebhookCounters>,
}

#[derive(Debug, Default)]
struct Health {
    breaker: Breaker,
    /// Whether the log has said that the webhook fails.
    is_logged: bool,
}

impl Asker {
    /// Creates what asks the webhook of `settings`, with the counts that go on from `counters`.
    pub(super) fn with_counters(settings: &Webhook, counters: Arc<WebhookCounters>) -> Arc<Self> {
        let mut key = [0; 32];
        rand::rng().fill_bytes(&mut key);
        let secret = settings.secret.as_ref();
        Arc::new(Self {
            settings: settings.clone(),
            signer: secret.map(|it| Signer::new(it.reveal().as_bytes())),
            client: OnceLock::new(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            answers: Mutex::default(),
            under_way: Mutex::default(),
            gate: Gate::new(),
            health: Mutex::default(),
            counters,
        })
    }

    pub(super) fn new(settings: &Webhook) -> Arc<Self> {
        Self::with_counters(settings, Arc::default())
    }

    pub(super) const fn settings(&self) -> &Webhook {
        &self.settings
    }

    /// Reads the file of trusted certificates.
    ///
    /// # Errors
    /// Returns [`ClientError`] if it cannot be used.
    pub(super) fn load(&self) -> Result<&HttpClient, ClientError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = HttpClient::new(self.settings.roots.as_deref())?;
        Ok(self.client.get_or_init(|| client))
    }

    pub(super) const fn counters(&self) -> &Arc<WebhookCounters> {
        &self.counters
    }

    /// Returns whether no questions are sent because the webhook does not answer.
    pub(super) fn is_held_back(&self) -> bool {
        self.health.lock().breaker.is_open()
    }

    /// Returns whether the webhook decides about `action`.
    pub(super) fn decides(&self, action: Action) -> bool {
        self.settings.actions.contains(&action)
    }

    /// Returns whether the webhook is asked this at all. What it is not asked is refused.
    pub(super) fn takes(&self, question: &Question) -> bool {
        let is_known = self.settings.ask_anonymous || question.shows_something();
        is_known && self.decides(question.action) && question.has_possible_name()
    }

    /// Returns the answer to `question`. `is_kept` tells whether the rights of an earlier answer are
    /// still there.
    pub(super) async fn ask(
        self: &Arc<Self>,
        question: Question,
        is_kept: impl Fn(&str) -> bool,
    ) -> Answered {
        let (key, now) = (question.key(&self.key), Instant::now());
        let holder = holder_name::name_of_digest(&key);
        let known = self.answers.lock().get(&key, now);
        if let Some(known) = known.filter(|it| it.is_err() || is_kept(&holder)) {
            self.counters.cached.add(1);
            return Answered {
                outcome: known.map(|()| Granted { holder, new: None }),
                is_first: false,
            };
        }
        let (mut receiver, is_first) = match self.join_or_send(key, question, now) {
            Ok(under_way) => under_way,
            Err(denial) => {
                return Answered {
                    outcome: Err(denial),
                    is_first: false,
                };
            }
        };
        let answered = receiver.wait_for(Option::is_some).await;
        let outcome = answered.ok().and_then(|it| (*it).clone());
        // Without an outcome, the task has panicked.
        let lost = Err(Denial::NoAnswer { retry_after: RETRY });
        Answered {
            outcome: outcome.unwrap_or(lost),
            is_first,
        }
    }

    /// Joins those who wait for the answer to the same question, or sends it.
    fn join_or_send(
        self: &Arc<Self>,
        key: QuestionKey,
        question: Question,
        now: Instant,
    ) -> Result<(watch::Receiver<Option<Outcome>>, bool), Denial> {
        let mut under_way = self.under_way.lock();
        if let Some(receiver) = under_way.get(&key) {
            self.counters.cached.add(1);
            return Ok((receiver.clone(), false));
        }
        let from = SourcePrefix::from(question.by.address());
        let Some(entry) = self.gate.enter(from, now) else {
            self.counters.crowded.add(1);
            return Err(Denial::Crowded);
        };
        // A question waits for a place as long at most as for its answer.
        let longest = 2 * self.settings.deadline();
        let begun = self.health.lock().breaker.begin(now, longest);
        if let Err(retry_after) = begun {
            self.counters.held_back.add(1);
            return Err(Denial::NoAnswer { retry_after });
        }
        let (sender, receiver) = watch::channel(None);
        under_way.insert(key, receiver.clone());
        let sending = Sending {
            asker: Arc::clone(self),
            key,
        };
        tokio::spawn(async move {
            let outcome = sending.asker.send(key, &question, &entry).await;
            drop(sending);
            sender.send_replace(Some(outcome));
        });
        Ok((receiver, true))
    }

    /// Sends a question once it has a place.
    async fn send(&self, key: QuestionKey, question: &Question, entry: &Entry) -> Outcome {
        let deadline = self.settings.deadline();
        let Ok(_place) = tokio::time::timeout(deadline, entry.pass()).await else {
            self.counters.crowded.add(1);
            return Err(Denial::Crowded);
        };
        let mut id = [0; 8];
        rand::rng().fill_bytes(&mut id);
        let id = format!("{:016x}", u64::from_be_bytes(id));
        let begin = Instant::now();
        let answer = self.exchange(&id, question).await;
        let now = Instant::now();
        self.counters.note_time(now - begin);
        let decided = match &answer {
            Ok(answer) => {
                self.health.lock().breaker.answered();
                let decided = answer::decide(question, answer, calendar::now());
                decided.map_err(|error| error.to_string())
            }
            Err(error) => {
                self.health.lock().breaker.missed(now);
                Err(error.to_string())
            }
        };
        self.log(decided.as_ref().err());
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                self.counters.failed.add(1);
                tracing::debug!(id, ?question, error, "the webhook of rights gave no answer");
                return Err(Denial::NoAnswer { retry_after: RETRY });
            }
        };
        tracing::debug!(
            id,
            ?question,
            ?decision,
            "the webhook of rights has answered"
        );
        self.remember(key, decision, now)
    }

    /// Keeps a decision for the next who asks the same.
    fn remember(&self, key: QuestionKey, decision: Decision, now: Instant) -> Outcome {
        let time = self.settings.cached();
        let denial = match decision {
            Decision::Allowed(allowed) => {
                self.counters.allowed.add(1);
                let time = allowed.left.map_or(time, |left| left.min(time));
                self.answers.lock().allow(key, time, now);
                return Ok(Granted {
                    holder: holder_name::name_of_digest(&key),
                    new: Some(allowed),
                });
            }
            Decision::Wrong => Denial::Wrong,
            Decision::Refused => Denial::Refused,
        };
        self.counters.denied.add(1);
        self.answers.lock().deny(key, denial, time, now);
        Err(denial)
    }

    async fn exchange(
        &self,
        id: &str,
        question: &Question,
    ) -> Result<axum::http::Response<Bytes>, BoxError> {
        let body = question.body(id);
        let mut request = Request::post(self.settings.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        if let Some(signer) = &self.signer {
            request = request.header(SIGNATURE, signer.sign(&body));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let bounds = Bounds {
            time: self.settings.deadline(),
            body_bytes: ANSWER_BYTES_MAX,
        };
        self.load()?.fetch(request, bounds).await
    }

    /// Writes a line when the webhook fails for the first time, and when it answers again.
    fn log(&self, error: Option<&String>) {
        let was_logged = std::mem::replace(&mut self.health.lock().is_logged, error.is_some());
        match error {
            Some(error) if !was_logged => tracing::warn!(
                url = %self.settings.url, error,
                "the webhook of rights (auth.webhook) gives no answer: clients are refused until it does"
            ),
            None if was_logged => tracing::info!("the webhook of rights answers again"),
            _ => {}
        }
    }
}

/// The stream that a trial asks about.
pub const TRIED_STREAM: &str = "a-stream-of-a-trial";

/// Asks the webhook about a client of this machine that shows nothing, and returns what it decides.
///
/// # Errors
/// Returns why the answer decides nothing, or why there is none.
pub async fn try_webhook(settings: &Webhook) -> Result<&'static str, String> {
    let question = Question {
        by: Requester::direct(Ipv4Addr::LOCALHOST.into(), Listener::Http),
        action: Action::Read,
        protocol: "http",
        name: Some(TRIED_STREAM.to_owned()),
        is_folder: false,
        credential: Credential::Nothing,
        query: None,
        user_agent: Some("glassline".to_owned()),
    };
    let answer = Asker::new(settings).exchange("trial", &question).await;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer::decide(&question, &answer, calendar::now()) {
        Ok(Decision::Allowed(_)) => Ok("allowed"),
        Ok(Decision::Wrong | Decision::Refused) => Ok("refused"),
        Err(error) => Err(error.to_string()),
    }
}

/// A question under way, which ends however its task ends.
struct Sending {
    asker: Arc<Asker>,
    key: QuestionKey,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.asker.under_way.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests;
