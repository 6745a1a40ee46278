//! An engine in memory for virtual time, which delays, loses, doubles, forgets and divides.

mod audience;
mod client;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sim::Rng;

use audience::Audience;
use client::Client;
use glassline_cluster::engine::{
    Answer, Answered, Call, CallError, Entry, Incoming, KeyKind, QuestionId, Reply, Request,
    RequestId, STORE_TIMEOUT, Version,
};
use glassline_cluster::name::{Key, NodeId, Region};

/// How far back [`Memory::roll_back`] can go.
const LOG_FOR: Duration = Duration::from_secs(120);

/// An engine that all nodes of a simulation share.
#[derive(Debug)]
pub struct Memory {
    rng: Rng,
    values: BTreeMap<Key, Entry>,
    versions: u64,
    /// The entries that writes replaced, oldest first.
    log: VecDeque<(Instant, Key, Option<Entry>)>,
    clients: BTreeMap<NodeId, Client>,
    audience: Audience,
    queue: BTreeMap<(Instant, u64), Step>,
    steps: u64,
    questions: BTreeMap<QuestionId, Asker>,
    next_question: u64,
    faults: Faults,
    /// Writes that were applied, for tests: time, key, and value.
    pub writes: Vec<(Instant, Key, Option<Bytes>)>,
    /// Whether [`Memory::writes`] is kept.
    pub keeps_writes: bool,
}

/// How the engine misbehaves.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Shortest and longest time of one way.
    pub delay: (Duration, Duration),
    /// Share of answers, notices, beats and questions that are lost.
    pub loss: f64,
    /// Share of notices and beats that arrive twice.
    pub doubled: f64,
    /// Until when the store has no leader: reads and writes time out, beats and questions pass.
    pub leaderless_until: Option<Instant>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            delay: (Duration::from_micros(200), Duration::from_millis(2)),
            loss: 0.0,
            doubled: 0.0,
            leaderless_until: None,
        }
    }
}

/// A delivery to a node.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Answer to a request of the node.
    Answer(Answer),
    /// A message of the engine that nobody asked for.
    Incoming(Incoming),
}

#[derive(Debug)]
enum Step {
    Execute(NodeId, u64, Request),
    Deliver(NodeId, u64, Delivery),
    AskOver(QuestionId),
    Replied(QuestionId, Bytes),
}

#[derive(Debug)]
struct Asker {
    node: NodeId,
    generation: u64,
    request: RequestId,
}

impl Memory {
    /// Returns an empty engine whose chance follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            values: BTreeMap::new(),
            versions: 0,
            log: VecDeque::new(),
            clients: BTreeMap::new(),
            audience: Audience::default(),
            queue: BTreeMap::new(),
            steps: 0,
            questions: BTreeMap::new(),
            next_question: 0,
            faults: Faults::default(),
            writes: Vec::new(),
            keeps_writes: false,
        }
    }

    /// Returns how the engine misbehaves, for change.
    pub const fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Returns the value under a key.
    pub fn value(&self, key: &Key) -> Option<&Entry> {
        self.values.get(key)
    }

    /// Returns all keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.values.keys()
    }

    /// Connects a process; the node hears [`Incoming::Connected`].
    pub fn connect(&mut self, now: Instant, node: &NodeId, region: &Region) {
        if self.is_connected(node) {
            return;
        }
        let generation = self.clients.get(node).map_or(0, |it| it.generation) + 1;
        let client = Client::new(region.clone(), generation);
        self.clients.insert(node.clone(), client);
        self.audience.join(node, region);
        let connected = Delivery::Incoming(Incoming::Connected);
        self.deliver(now, node, connected);
    }

    /// Cuts a node off; it hears [`Incoming::Disconnected`], and its requests under way come to
    /// nothing.
    pub fn disconnect(&mut self, now: Instant, node: &NodeId) {
        if let Some(client) = self.clients.get_mut(node) {
            client.is_connected = false;
            client.generation += 1;
            let gone = Delivery::Incoming(Incoming::Disconnected);
            self.deliver(now, node, gone);
        }
    }

    /// Whether a node is connected.
    pub fn is_connected(&self, node: &NodeId) -> bool {
        self.clients.get(node).is_some_and(|it| it.is_connected)
    }

    /// Takes a request of a node.
    pub fn request(&mut self, now: Instant, node: &NodeId, request: Request) {
        let Some(client) = self.clients.get(node).filter(|it| it.is_connected) else {
            let result = Err(CallError::Away);
            let answer = Answer {
                id: request.id,
                result,
            };
            return self.deliver(now, node, Delivery::Answer(answer));
        };
        let generation = client.generation;
        let at = now + self.delay();
        self.push(at, Step::Execute(node.clone(), generation, request));
    }

    /// Takes the reply of a node to a question.
    pub fn reply(&mut self, now: Instant, node: &NodeId, reply: Reply) {
        if self.is_connected(node) && !self.is_lost() {
            let at = now + self.delay();
            self.push(at, Step::Replied(reply.question, reply.payload));
        }
    }

    /// Returns when [`Memory::poll_delivery`] has something next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// Returns what arrives by now, one at a time, and the node where it arrives.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<(NodeId, Delivery)> {
        loop {
            let first = self.queue.first_entry()?;
            let at = first.key().0;
            if at > now {
                return None;
            }
            match first.remove() {
                Step::Deliver(node, generation, delivery) => {
                    let client = self.clients.get(&node);
                    let is_current = client.is_none_or(|it| it.generation == generation);
                    if is_current {
                        return Some((node, delivery));
                    }
                    if let Delivery::Answer(answer) = delivery {
                        let result = Err(CallError::Unknown);
                        let answer = Answer { result, ..answer };
                        return Some((node, Delivery::Answer(answer)));
                    }
                }
                Step::Execute(node, generation, request) => {
                    self.execute(at, node, generation, request);
                }
                Step::AskOver(question) => {
                    self.finish(at, question, Err(CallError::Unknown));
                }
                Step::Replied(question, payload) => {
                    self.finish(at, question, Ok(Answered::Reply(payload)));
                }
            }
        }
    }

    /// Undoes all writes since `to`, as a store does that lost its last log entries. Nobody is
    /// told, and versions are given out again.
    pub fn roll_back(&mut self, to: Instant) {
        let mut count = 0;
        while self.log.back().is_some_and(|(at, ..)| *at > to) {
            let Some((_, key, before)) = self.log.pop_back() else {
                break;
            };
            count += 1;
            match before {
                Some(entry) => self.values.insert(key, entry),
                None => self.values.remove(&key),
            };
        }
        self.versions = self.versions.saturating_sub(count);
    }

    /// Deletes everything, as an operator does who removes the buckets.
    pub fn delete_everything(&mut self) {
        self.values.clear();
        self.log.clear();
    }

    /// Writes a value whatever stands under `key`, and tells the watchers.
    pub fn put(&mut self, now: Instant, key: &Key, value: Bytes) -> Version {
        self.versions += 1;
        let version = Version(self.versions);
        self.set(now, key, Some(&Entry { value, version }));
        version
    }

    /// Loses each value with a probability, as a store does whose replicas disagree.
    pub fn lose_values(&mut self, probability: f64) {
        self.values.retain(|_, _| !self.rng.chance(probability));
    }

    fn push(&mut self, at: Instant, step: Step) {
        self.queue.insert((at, self.steps), step);
        self.steps += 1;
    }

    fn delay(&mut self) -> Duration {
        let (least, most) = self.faults.delay;
        let span = u64::try_from((most - least).as_micros()).unwrap_or(0);
        least + Duration::from_micros(self.rng.below(span))
    }

    fn is_lost(&mut self) -> bool {
        self.faults.loss > 0.0 && self.rng.chance(self.faults.loss)
    }

    fn deliver(&mut self, at: Instant, node: &NodeId, delivery: Delivery) {
        let generation = self.clients.get(node).map_or(0, |it| it.generation);
        self.push(at, Step::Deliver(node.clone(), generation, delivery));
    }

    fn answer(
        &mut self,
        now: Instant,
        node: &NodeId,
        id: RequestId,
        result: Result<Answered, CallError>,
    ) {
        // A back end answers in any case: what is lost on the way is a time-out.
        let (wait, result) = match self.is_lost() {
            true => (STORE_TIMEOUT, Err(CallError::Unknown)),
            false => (self.delay(), result),
        };
        let answer = Answer { id, result };
        self.deliver(now + wait, node, Delivery::Answer(answer));
    }

    fn execute(&mut self, now: Instant, node: NodeId, generation: u64, request: Request) {
        let client = self.clients.get(&node);
        let is_current = client.is_some_and(|it| it.generation == generation);
        // The connection broke while the request was on its way: it may have left or not.
        if !is_current && self.rng.chance(0.5) {
            let result = Err(CallError::Unknown);
            return self.answer(now, &node, request.id, result);
        }
        let id = request.id;
        let is_store = !matches!(
            request.call,
            Call::Beat { .. } | Call::Ask { .. } | Call::Changes { .. }
        );
        if is_store
            && self
                .faults
                .leaderless_until
                .is_some_and(|until| now < until)
        {
            // Some writes are applied although nobody is told.
            if self.rng.chance(0.3) {
                let _ = self.apply(now, request.call);
            }
            let answer = Answer {
                id,
                result: Err(CallError::Unknown),
            };
            return self.deliver(now + STORE_TIMEOUT, &node, Delivery::Answer(answer));
        }
        match request.call {
            Call::Beat { payload, is_far } => {
                self.beat(now, &node, &payload);
                if is_far {
                    self.far_beat(now, &node, &payload);
                }
                self.answer(now, &node, id, Ok(Answered::Sent));
            }
            Call::Changes { scope } => {
                if let Some(client) = self.clients.get_mut(&node) {
                    self.audience.set_scope(&node, &scope);
                    client.set_scope(scope);
                }
                self.answer(now, &node, id, Ok(Answered::Watching));
            }
            Call::Ask {
                node: asked,
                question,
                within,
            } => {
                let asker = self.asker(node, id);
                self.ask(now, asker, &asked, question, within);
            }
            call => {
                let result = self.apply(now, call);
                self.answer(now, &node, id, result);
            }
        }
    }

    fn apply(&mut self, now: Instant, call: Call) -> Result<Answered, CallError> {
        match call {
            Call::Get { key } => Ok(Answered::Got(self.values.get(&key).cloned())),
            Call::List { kind } => {
                let is_wanted = |key: &Key| match kind {
                    KeyKind::Streams => matches!(key, Key::Stream(_)),
                    KeyKind::Nodes => matches!(key, Key::Node(..)),
                };
                let wanted = self.values.iter().filter(|(key, _)| is_wanted(key));
                let listed = wanted.map(|(key, entry)| (key.clone(), entry.clone()));
                Ok(Answered::Listed(listed.collect()))
            }
            Call::PutIf {
                key,
                value,
                expected,
            } => {
                if self.values.get(&key).map(|it| it.version) != expected {
                    return Err(CallError::Conflict);
                }
                Ok(Answered::Put(self.put(now, &key, value)))
            }
            Call::DeleteIf { key, expected } => {
                if self.values.get(&key).map(|it| it.version) != Some(expected) {
                    return Err(CallError::Conflict);
                }
                self.versions += 1;
                self.set(now, &key, None);
                Ok(Answered::Deleted)
            }
            Call::Changes { .. } | Call::Beat { .. } | Call::Ask { .. } => {
                Err(CallError::Refused("not a call to the store".to_owned()))
            }
        }
    }

    fn set(&mut self, now: Instant, key: &Key, entry: Option<&Entry>) {
        if self.keeps_writes {
            let value = entry.map(|it| it.value.clone());
            self.writes.push((now, key.clone(), value));
        }
        let before = match entry {
            Some(entry) => self.values.insert(key.clone(), entry.clone()),
            None => self.values.remove(key),
        };
        while self.log.front().is_some_and(|(at, ..)| now - *at > LOG_FOR) {
            self.log.pop_front();
        }
        self.log.push_back((now, key.clone(), before));
        let hears = |node: &NodeId| {
            let client = self.clients.get(node);
            client.is_some_and(|it| it.is_connected && it.hears(key))
        };
        let hearers = self.audience.of_change(key).into_iter();
        let hearers: Vec<NodeId> = hearers.filter(|it| hears(it)).cloned().collect();
        for node in hearers {
            let (key, entry) = (key.clone(), entry.cloned());
            self.tell(now, &node, Incoming::Changed { key, entry });
        }
    }

    /// Delivers what may be lost or doubled.
    fn tell(&mut self, now: Instant, node: &NodeId, incoming: Incoming) {
        if self.is_lost() {
            return;
        }
        let at = now + self.delay();
        if self.faults.doubled > 0.0 && self.rng.chance(self.faults.doubled) {
            let again = at + self.delay() * 20;
            self.deliver(again, node, Delivery::Incoming(incoming.clone()));
        }
        self.deliver(at, node, Delivery::Incoming(incoming));
    }

    fn beat(&mut self, now: Instant, from: &NodeId, payload: &Bytes) {
        let Some(region) = self.clients.get(from).map(|it| it.region.clone()) else {
            return;
        };
        let hears = |node: &NodeId| {
            let client = self.clients.get(node);
            client.is_some_and(|it| it.is_connected && it.region == region)
        };
        let hearers = self.audience.of_beat(&region);
        let hearers: Vec<NodeId> = hearers.filter(|it| hears(it)).cloned().collect();
        for node in hearers {
            let (from, payload) = (from.clone(), payload.clone());
            let beat = Incoming::Beat {
                node: from,
                payload,
            };
            self.tell(now, &node, beat);
        }
    }

    fn far_beat(&mut self, now: Instant, from: &NodeId, payload: &Bytes) {
        let hears = |it: &Client| it.is_connected && it.hears_far_beats();
        let clients = self.clients.iter().filter(|(_, it)| hears(it));
        let hearers: Vec<NodeId> = clients.map(|(node, _)| node.clone()).collect();
        for node in hearers {
            let (from, payload) = (from.clone(), payload.clone());
            let beat = Incoming::FarBeat {
                node: from,
                payload,
            };
            self.tell(now, &node, beat);
        }
    }

    fn asker(&self, node: NodeId, request: RequestId) -> Asker {
        let generation = self.clients.get(&node).map_or(0, |it| it.generation);
        Asker {
            node,
            generation,
            request,
        }
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Asker,
        asked: &NodeId,
        payload: Bytes,
        within: Duration,
    ) {
        let question = QuestionId(self.next_question);
        self.next_question += 1;
        let from = asker.node.clone();
        self.questions.insert(question, asker);
        self.push(now + within, Step::AskOver(question));
        if self.is_connected(asked) {
            let incoming = Incoming::Question {
                from,
                id: question,
                payload,
            };
            self.tell(now, asked, incoming);
        }
    }

    fn finish(&mut self, now: Instant, question: QuestionId, result: Result<Answered, CallError>) {
        if let Some(asker) = self.questions.remove(&question) {
            let at = now + self.delay();
            let answer = Answer {
                id: asker.request,
                result,
            };
            let delivery = Delivery::Answer(answer);
            self.push(at, Step::Deliver(asker.node, asker.generation, delivery));
        }
    }
}
