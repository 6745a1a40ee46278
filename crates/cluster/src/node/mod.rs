//! One node of a cluster: what it holds, what it pulls, and whom it hears.
//!
//! | file | what it decides |
//! |---|---|
//! | `claim/` | which publisher, source or room this node holds, and when that is over |
//! | `viewers.rs` | where a viewer is served |
//! | `balance.rs` | when viewers are sent to a node that has come |
//! | `search.rs` | which nodes are asked for places for viewers |
//! | `places.rs` | how many places are kept here for viewers who are on their way |
//! | `parent.rs` | from which node a stream is pulled |
//! | `pulls.rs` | which pull feeds the hub, what replaces it, and when it ends |
//! | `stall.rs` | when a silent pull is given up for another one |
//! | `family.rs` | which nodes pull from this one, and what questions are replied |
//! | `directory.rs` | which records are known, and which are asked for |
//! | `presence.rs` | beats, deaths, the node's own record, drain |
//! | `rivals.rs` | whether this node may serve: its name is free, and its secret that of the others |
//! | `report.rs` | nothing: it shows what the others hold |

mod balance;
mod claim;
mod directory;
mod family;
mod parent;
mod places;
mod presence;
mod pulls;
mod relay;
mod report;
mod rivals;
mod search;
mod stall;
#[cfg(test)]
mod tests;
mod viewers;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_random::Rng;

use crate::config::{Config, Moment};
use crate::engine::{
    Answer, Answered, Call, CallError, Incoming, Reply, Request, RequestId, STORE_TIMEOUT,
};
use crate::event::{Event, ProbeId, PullId};
use crate::liveness::Peers;
use crate::name::{Key, NodeId, StreamName};
use crate::question::{Live, Question};
use crate::record::Load;
use crate::timers::Timers;
use balance::Balance;
use claim::Claims;
use directory::Directory;
use presence::Presence;
use relay::Relay;

pub use claim::ProbeResult;
pub use relay::PATH_MAX;
pub use report::{PeerView, RunningPull};

/// A process that stands still for longer begins its judgements of others anew.
const STOOD_STILL: Duration = Duration::from_millis(1_500);

/// How long after its time a request is given up.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// One node of a cluster.
///
/// The server calls `handle_…` with what happened, commands such as [`Node::publish`] with what
/// it wants, then takes everything that [`Node::poll_event`], [`Node::poll_request`] and
/// [`Node::poll_reply`] have, and calls [`Node::handle_timeout`] at [`Node::poll_timeout`].
#[derive(Debug)]
pub struct Node {
    config: Config,
    now: Moment,
    rng: Rng,
    calls: Calls,
    events: VecDeque<Event>,
    replies: VecDeque<Reply>,
    timers: Timers<Timer>,
    peers: Peers,
    presence: Presence,
    directory: Directory,
    claims: Claims,
    relays: BTreeMap<StreamName, Relay>,
    /// Children of all relays together, which would take long to count.
    children: usize,
    /// Places of all relays together that are kept for viewers.
    kept: usize,
    load: Load,
    balance: Balance,
    next_pull: u64,
    next_probe: u64,
}

/// The purpose of a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Timer {
    Tick,
    OwnRecord,
    Peer(NodeId),
    Holding(StreamName),
    Relay(StreamName),
}

/// The purpose of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// Beats and watches: a failure is made good by the next one.
    Hint,
    ListStreams,
    ListNodes,
    NodeRead(NodeId),
    OwnNodeRead,
    OwnNodePut,
    OwnNodeDelete,
    Greeting,
    ClaimRead(StreamName),
    ClaimWrite(StreamName),
    ClaimDelete(StreamName),
    ClaimAsk(StreamName),
    Recheck(StreamName),
    Lookup(StreamName),
    Places(StreamName),
    Parents(StreamName),
    Stall(StreamName),
    Orphan(StreamName),
}

/// Requests that wait to be polled, and those that wait for answers.
#[derive(Debug, Default)]
struct Calls {
    out: VecDeque<Request>,
    pending: BTreeMap<RequestId, (Purpose, Instant)>,
    next: u64,
}

impl Node {
    /// Returns a node that knows nobody and whose engine is away.
    pub fn new(config: Config, now: Moment) -> Self {
        let mut node = Self {
            rng: Rng::new(config.seed),
            presence: Presence::new(now.at),
            directory: Directory::default(),
            claims: Claims::default(),
            relays: BTreeMap::new(),
            children: 0,
            kept: 0,
            calls: Calls::default(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            timers: Timers::new(),
            peers: Peers::default(),
            load: Load::default(),
            balance: Balance::default(),
            next_pull: 0,
            next_probe: 0,
            config,
            now,
        };
        // Nodes that start together do not beat together.
        let first = node.jitter(Duration::ZERO, Duration::from_secs(1));
        node.presence.tick_due = now.at + first;
        node.timers.set(now.at + first, Timer::Tick);
        node
    }

    /// Returns the name of this node.
    pub const fn id(&self) -> &NodeId {
        &self.config.node
    }

    /// Returns the random number of this process.
    pub const fn incarnation(&self) -> u64 {
        self.config.record.inc
    }

    /// Whether the engine is connected, for `/readyz`.
    pub const fn is_connected(&self) -> bool {
        self.presence.is_connected
    }

    /// Returns all that this node knows about a name, for messages of failed checks.
    pub fn explain(&self, name: &StreamName) -> String {
        let (claim, relay) = (self.claims.explain(name), self.relays.get(name));
        let known = self.directory.streams.get(name);
        let state = &self.presence;
        format!("claim {claim}, relay {relay:?}, known {known:?}, {state:?}")
    }

    /// Sets what the next beats say about this node. Headroom decides whether others send
    /// viewers here.
    pub const fn set_load(&mut self, load: Load) {
        self.load = load;
    }

    /// Returns what the next beats say about this node.
    pub const fn load(&self) -> Load {
        self.load
    }

    /// Takes the answer to a request.
    pub fn handle_answer(&mut self, now: Moment, answer: Answer) {
        self.now = now;
        if let Some((purpose, _)) = self.calls.pending.remove(&answer.id) {
            if let Err(CallError::Refused(reason)) = &answer.result {
                self.on_refused(reason.clone());
            }
            self.on_answer(answer.id, purpose, answer.result);
        }
    }

    /// Takes what the engine tells unasked.
    pub fn handle_incoming(&mut self, now: Moment, incoming: Incoming) {
        self.now = now;
        match incoming {
            Incoming::Connected => self.on_connected(),
            Incoming::Disconnected => self.on_disconnected(),
            Incoming::Changed { key, entry } => self.on_changed(key, entry.as_ref()),
            Incoming::Missing { key } => {
                if let Key::Stream(name) = key {
                    self.read_again(&name, None);
                }
            }
            Incoming::FarBeat { node, payload } => self.on_far_beat(&node, &payload),
            Incoming::Beat { node, payload } => self.on_beat(&node, &payload),
            Incoming::Question { from, id, payload } => {
                let payload = self.on_question(&from, &payload);
                let reply = payload.map(|payload| Reply {
                    question: id,
                    payload,
                });
                self.replies.extend(reply);
            }
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.now = now;
        if self.presence.tick_due + STOOD_STILL < now.at {
            self.peers.restart(now.at);
        }
        while let Some(timer) = self.timers.pop(now.at) {
            match timer {
                Timer::Tick => self.on_tick(),
                Timer::OwnRecord => self.write_own_record_if_due(),
                Timer::Peer(node) => self.check_peer(&node),
                Timer::Holding(name) => self.on_claim_due(&name),
                Timer::Relay(name) => self.on_relay_due(&name),
            }
        }
    }

    /// Returns when [`Node::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    /// Returns the next call for the back end.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.calls.out.pop_front()
    }

    /// Returns the next reply to a question of another node.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Returns the next decision for the server.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn on_answer(&mut self, id: RequestId, purpose: Purpose, result: Result<Answered, CallError>) {
        match purpose {
            Purpose::Hint => {}
            Purpose::ListStreams => self.on_streams_listed(result),
            Purpose::ListNodes => self.on_nodes_listed(result),
            Purpose::NodeRead(node) => self.on_node_read(&node, &result),
            Purpose::OwnNodeRead => self.on_own_node_read(result),
            Purpose::OwnNodePut => self.on_own_node_put(&result),
            Purpose::OwnNodeDelete => self.presence.is_leaving = false,
            Purpose::Greeting => self.on_greeted(&result),
            Purpose::ClaimRead(name) => self.on_claim_read(&name, id, result),
            Purpose::ClaimWrite(name) => self.on_claim_written(&name, id, &result),
            Purpose::ClaimDelete(name) => self.on_claim_deleted(&name, id, &result),
            Purpose::ClaimAsk(name) => self.on_claim_asked(&name, id, &result),
            Purpose::Recheck(name) => self.on_rechecked(&name, result),
            Purpose::Lookup(name) => self.on_looked_up(&name, id, result),
            Purpose::Places(name) => self.on_places(&name, id, &result),
            Purpose::Parents(name) => self.on_parents(&name, id, &result),
            Purpose::Stall(name) => self.on_stall_asked(&name, id, &result),
            Purpose::Orphan(name) => self.on_orphan_read(&name, result),
        }
    }

    /// Hands a call to the back end, or answers it at once while the engine is away.
    fn call(&mut self, purpose: Purpose, call: Call) -> RequestId {
        let id = RequestId(self.calls.next);
        self.calls.next += 1;
        let within = match &call {
            Call::Ask { within, .. } => *within,
            _ => STORE_TIMEOUT,
        };
        let until = self.now.at + within + ANSWER_GRACE;
        self.calls.pending.insert(id, (purpose, until));
        self.calls.out.push_back(Request { id, call });
        id
    }

    /// Gives up requests that a back end never answered.
    fn expire_calls(&mut self) {
        let now = self.now.at;
        let pending = self.calls.pending.iter();
        let expired = pending.filter(|(_, (_, until))| *until <= now);
        let expired: Vec<RequestId> = expired.map(|(id, _)| *id).collect();
        for id in expired {
            if let Some((purpose, _)) = self.calls.pending.remove(&id) {
                self.on_answer(id, purpose, Err(CallError::Unknown));
            }
        }
    }

    /// The question about a stream, without a wish.
    fn live(&self, name: &StreamName) -> Live {
        Live {
            name: name.clone(),
            region: self.config.region.clone(),
            pull: false,
            places: 0,
            lost: None,
        }
    }

    /// Asks a node about a stream. [`Report::in_answer`](crate::question::Report::in_answer) reads
    /// the reply.
    fn ask(&mut self, purpose: Purpose, node: &NodeId, live: Live, within: Duration) -> RequestId {
        let call = Call::Ask {
            node: node.clone(),
            question: Question::Live(live).to_payload(),
            within,
        };
        self.call(purpose, call)
    }

    /// Sends a question whose reply is not needed.
    fn tell(&mut self, node: &NodeId, question: Bytes) {
        let call = Call::Ask {
            node: node.clone(),
            question,
            within: Duration::from_secs(1),
        };
        self.call(Purpose::Hint, call);
    }

    /// Draws a time between two others.
    fn jitter(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_micros();
        let drawn = self.rng.below(u64::try_from(span).unwrap_or(u64::MAX));
        least + Duration::from_micros(drawn)
    }

    fn next_pull(&mut self) -> PullId {
        self.next_pull += 1;
        PullId(self.next_pull)
    }

    fn next_probe(&mut self) -> ProbeId {
        self.next_probe += 1;
        ProbeId(self.next_probe)
    }
}
