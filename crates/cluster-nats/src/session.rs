//! The time from one connection to its loss: buckets, subscriptions, and the tasks of requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use glassline_cluster::engine::{
    Answered, Call, CallError, Entry, Incoming, QuestionId, Reply, STORE_TIMEOUT, Scope,
    VALUE_BYTES_MAX, Version,
};
use glassline_cluster::name::{decode, encode};
use glassline_cluster::{Key, NodeId, StreamName};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::is_deletion;
use crate::bucket::CHANGED;
use crate::connection::{Connection, NoAnswer};
use crate::link::SessionLink;
use crate::options::Options;
use crate::queue::{Pledge, Queue};
use crate::store::{self, Outcome, Trouble};
use crate::watch as stream_watch;

/// Header with the name of the node that asks, encoded as in keys.
const FROM: &str = "Glassline-Node";

/// Header of a republished record: its number in the bucket.
const SEQUENCE: &str = "Nats-Sequence";

/// Most questions that wait for the core's reply; the oldest is dropped for a new one.
const QUESTIONS_MAX: usize = 256;

/// Most streams of which a node wants notices one by one.
const NAMES_MAX: usize = 4_096;

/// A connection with the tasks that read it. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Session {
    link: Arc<SessionLink>,
    beat_subject: String,
    /// Subject of the beats that nodes of all regions hear. Rights to `glassline.beat.>` cover it.
    far_subject: String,
    node: String,
    /// Whether marks of deletions may have a time to live.
    has_ttl: AtomicBool,
    scope: Mutex<Watched>,
    questions: Mutex<Questions>,
    next_question: Arc<AtomicU64>,
    /// Readers of beats and questions.
    readers: Mutex<Vec<Task>>,
    ended: watch::Sender<bool>,
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The keys that the core wants to hear of.
#[derive(Debug, Default)]
struct Watched {
    all: Vec<Task>,
    names: HashMap<StreamName, Task>,
}

/// Reply subjects of questions that the core has, from the oldest on.
#[derive(Debug, Default)]
struct Questions(std::collections::VecDeque<(QuestionId, String)>);

impl Session {
    pub(crate) fn new(
        connection: Connection,
        number: u64,
        options: &Options,
        queue: Arc<Queue>,
        next_question: Arc<AtomicU64>,
        has_ttl: bool,
    ) -> Self {
        let (region, node) = (
            encode(options.region.as_str()),
            encode(options.node.as_str()),
        );
        Self {
            link: Arc::new(SessionLink::new(connection, number, queue)),
            beat_subject: format!("glassline.beat.{region}.{node}"),
            far_subject: format!("glassline.beat.all.{region}.{node}"),
            node,
            has_ttl: AtomicBool::new(has_ttl),
            scope: Mutex::default(),
            questions: Mutex::default(),
            next_question,
            readers: Mutex::default(),
            ended: watch::Sender::new(false),
        }
    }

    /// Begins to hear beats of the region and questions to this node. Returns when the server has
    /// both subscriptions.
    pub(crate) async fn listen(self: &Arc<Self>) -> Result<(), String> {
        let client = &self.link.connection.client;
        let region = self.beat_subject.rsplit_once('.').map_or("", |(it, _)| it);
        let failed = |error: async_nats::SubscribeError| error.to_string();
        let beats = client
            .subscribe(format!("{region}.*"))
            .await
            .map_err(failed)?;
        let asks = format!("glassline.ask.{}", self.node);
        let asks = client.subscribe(asks).await.map_err(failed)?;
        let tasks = vec![
            self.read(beats, Self::on_beat),
            self.read(asks, Self::on_question),
        ];
        *self.readers.lock() = tasks;
        let listening = self.link.connection.round_trip().await;
        listening.map_err(|_| "the server takes no subscriptions".to_owned())
    }

    /// Reads a subscription as long as the session lasts.
    fn read(
        self: &Arc<Self>,
        mut messages: Subscriber,
        work: impl Fn(&Self, Message) + Send + 'static,
    ) -> Task {
        // The task must not keep the session that ends it.
        let session = Arc::downgrade(self);
        Task(tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let Some(session) = session.upgrade() else {
                    return;
                };
                if message.payload.len() <= VALUE_BYTES_MAX {
                    work(&session, message);
                }
            }
        }))
    }

    pub(crate) fn link(&self) -> &SessionLink {
        &self.link
    }

    /// Remembers whether the bucket of streams takes a time to live.
    pub(crate) fn set_ttl(&self, has_ttl: bool) {
        self.has_ttl.store(has_ttl, Ordering::Relaxed);
    }

    /// Ends all requests under way and all tasks.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
        self.readers.lock().clear();
        let watched = std::mem::take(&mut *self.scope.lock());
        drop(watched);
    }

    /// Makes a call in a task of its own.
    pub(crate) fn start(self: &Arc<Self>, call: Call, pledge: Pledge) {
        if let Call::Changes { scope } = call {
            return self.change_scope(scope, pledge);
        }
        let session = Arc::clone(self);
        let mut ended = self.ended.subscribe();
        tokio::spawn(async move {
            // What is dropped here is answered by the pledge.
            tokio::select! {
                result = session.call(call) => pledge.answer(result),
                _ = ended.wait_for(|is_ended| *is_ended) => {}
            }
        });
    }

    async fn call(&self, call: Call) -> Result<Answered, CallError> {
        let connection = &self.link.connection;
        match call {
            Call::Get { key } => self
                .judged(store::get(connection, &key).await)
                .map(Answered::Got),
            Call::List { kind } => {
                let listed = self.judged(store::list(connection, kind).await);
                listed.map(Answered::Listed)
            }
            Call::PutIf {
                key,
                value,
                expected,
            } => {
                let put = store::put_if(connection, &key, value, expected).await;
                self.judged(put).map(Answered::Put)
            }
            Call::DeleteIf { key, expected } => {
                let has_ttl = self.has_ttl.load(Ordering::Relaxed);
                let deleted = store::delete_if(connection, &key, expected, has_ttl).await;
                self.judged(deleted).map(|()| Answered::Deleted)
            }
            Call::Changes { .. } => Ok(Answered::Watching),
            Call::Beat { payload, is_far } => {
                if is_far {
                    // What the others miss they hear with the next one.
                    let _ = self.beat(&self.far_subject, payload.clone()).await;
                }
                self.beat(&self.beat_subject, payload).await
            }
            Call::Ask {
                node,
                question,
                within,
            } => self.ask(&node, question, within).await,
        }
    }

    fn judged<T>(&self, (result, trouble): Outcome<T>) -> Result<T, CallError> {
        if trouble == Trouble::Suspected {
            self.link.suspect_buckets();
        }
        result
    }

    async fn beat(&self, subject: &str, payload: Bytes) -> Result<Answered, CallError> {
        within_limit(&payload)?;
        let client = &self.link.connection.client;
        let publishing = client.publish(subject.to_owned(), payload);
        match tokio::time::timeout(STORE_TIMEOUT, publishing).await {
            Ok(Ok(())) => Ok(Answered::Sent),
            Ok(Err(_)) | Err(_) => Err(CallError::Away),
        }
    }

    async fn ask(
        &self,
        node: &NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Answered, CallError> {
        within_limit(&question)?;
        let subject = format!("glassline.ask.{}", encode(node.as_str()));
        let mut headers = HeaderMap::new();
        headers.insert(FROM, self.node.as_str());
        let asked = self
            .link
            .connection
            .request(subject, headers, question, within);
        match asked.await {
            Ok(message) if message.payload.len() <= VALUE_BYTES_MAX => {
                Ok(Answered::Reply(message.payload))
            }
            Err(NoAnswer::NotSent) => Err(CallError::Away),
            Ok(_) | Err(NoAnswer::NobodyListens | NoAnswer::Silence) => Err(CallError::Unknown),
        }
    }

    fn on_beat(&self, message: Message) {
        let node = message.subject.rsplit('.').next();
        if let Some(node) = node.and_then(node_of) {
            let payload = message.payload;
            self.link.notice(Incoming::Beat { node, payload });
        }
    }

    fn on_question(&self, message: Message) {
        let headers = message.headers.as_ref();
        let from = headers.and_then(|it| it.get(FROM));
        let from = from.and_then(|it| node_of(it.as_str()));
        let (Some(from), Some(reply)) = (from, message.reply) else {
            return;
        };
        let id = QuestionId(self.next_question.fetch_add(1, Ordering::Relaxed));
        let mut questions = self.questions.lock();
        if questions.0.len() == QUESTIONS_MAX {
            questions.0.pop_front();
        }
        questions.0.push_back((id, reply.to_string()));
        drop(questions);
        let payload = message.payload;
        self.link.notice(Incoming::Question { from, id, payload });
    }

    /// Sends the core's reply to a question; one that is too old, or of another session, is
    /// dropped.
    pub(crate) fn reply(self: &Arc<Self>, reply: Reply) {
        let mut questions = self.questions.lock();
        let at = questions.0.iter().position(|(id, _)| *id == reply.question);
        let taken = at.and_then(|at| questions.0.remove(at));
        drop(questions);
        if let Some((_, subject)) = taken {
            let session = Arc::clone(self);
            tokio::spawn(async move {
                let publishing = session
                    .link
                    .connection
                    .client
                    .publish(subject, reply.payload);
                // Who asked waits no longer than this.
                let _ = tokio::time::timeout(STORE_TIMEOUT, publishing).await;
            });
        }
    }

    fn change_scope(self: &Arc<Self>, scope: Scope, pledge: Pledge) {
        let mut watched = self.scope.lock();
        if *self.ended.borrow() {
            // The pledge answers.
            return;
        }
        match scope {
            Scope::Everything => {
                watched.names.clear();
                let link = Arc::clone(&self.link);
                let watch = Task(tokio::spawn(stream_watch::run(link, pledge)));
                let nodes = self.subscribe(format!("{CHANGED}n.>"), change_of, None);
                let beats = self.subscribe("glassline.beat.all.>".to_owned(), far_beat_of, None);
                watched.all = vec![watch, nodes, beats];
            }
            Scope::Region(region) => {
                watched.names.clear();
                let subject = format!("{CHANGED}n.{}.*", encode(region.as_str()));
                watched.all = vec![self.subscribe(subject, change_of, Some(pledge))];
            }
            Scope::Stream(name) => {
                let is_room = watched.names.len() < NAMES_MAX || watched.names.contains_key(&name);
                if !is_room {
                    let reason = format!("notices of more than {NAMES_MAX} streams");
                    return pledge.answer(Err(CallError::Refused(reason)));
                }
                let subject = format!("{CHANGED}{}", Key::Stream(name.clone()));
                let task = self.subscribe(subject, change_of, Some(pledge));
                watched.names.insert(name, task);
            }
            Scope::Forget(name) => {
                watched.names.remove(&name);
                drop(watched);
                pledge.answer(Ok(Answered::Watching));
            }
        }
    }

    /// Hears changes that the leaders of the buckets republish, or beats of all regions.
    fn subscribe(self: &Arc<Self>, subject: String, read: Reader, pledge: Option<Pledge>) -> Task {
        let weak = Arc::downgrade(self);
        let client = self.link.connection.client.clone();
        Task(tokio::spawn(async move {
            let Ok(mut messages) = client.subscribe(subject).await else {
                return;
            };
            if let Some(pledge) = pledge {
                let Some(session) = weak.upgrade() else {
                    return;
                };
                // The server has the subscription before the core reads on.
                let trip = session.link.connection.round_trip().await;
                let watching = trip.map(|()| Answered::Watching);
                pledge.answer(watching.map_err(|_| CallError::Away));
            }
            while let Some(message) = messages.next().await {
                let Some(session) = weak.upgrade() else {
                    return;
                };
                if let Some(notice) = read(&message) {
                    session.link.notice(notice);
                }
            }
        }))
    }
}

/// Reads what a message tells; `None` if it is none of ours.
type Reader = fn(&Message) -> Option<Incoming>;

/// Reads a beat that all regions hear.
fn far_beat_of(message: &Message) -> Option<Incoming> {
    let node = message.subject.rsplit('.').next().and_then(node_of)?;
    let payload = message.payload.clone();
    (payload.len() <= VALUE_BYTES_MAX).then_some(Incoming::FarBeat { node, payload })
}

/// Reads a record that was republished; `None` if it is none.
fn change_of(message: &Message) -> Option<Incoming> {
    let key = Key::parse(message.subject.strip_prefix(CHANGED)?).ok()?;
    let headers = message.headers.as_ref();
    let sequence = headers?.get(SEQUENCE)?.as_str().parse().ok()?;
    if message.payload.len() > VALUE_BYTES_MAX {
        return None;
    }
    let entry = (!is_deletion(headers)).then(|| Entry {
        value: message.payload.clone(),
        version: Version(sequence),
    });
    Some(Incoming::Changed { key, entry })
}

fn node_of(encoded: &str) -> Option<NodeId> {
    NodeId::new(&decode(encoded).ok()?).ok()
}

fn within_limit(payload: &Bytes) -> Result<(), CallError> {
    match payload.len() {
        len if len > VALUE_BYTES_MAX => Err(CallError::Refused(format!(
            "a message of {len} bytes is too large"
        ))),
        _ => Ok(()),
    }
}
