//! Whole clusters in virtual time: nodes, an engine that misbehaves, pulls between nodes, and
//! checks of what every process decided.
//!
//! ```text
//! World ─┬─ Process: Node, hub (which epoch is shown under each name), children
//!        ├─ Memory: the engine
//!        ├─ links between nodes, which can be cut
//!        └─ History: decisions, and what contradicts the rules
//! chaos::run(seed)   random faults, then rest, then every rule is checked
//! scale::run(plan)   many nodes and viewers: messages and pulls of each node
//! ```

pub mod chaos;
pub mod crowd;
mod events;
mod history;
mod media;
pub mod memory;
mod process;
mod rooms;
pub mod scale;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use glassline_sim::{Clock, Rng};

use crate::memory::{Delivery, Memory};
use glassline_cluster::name::{NodeId, Region, StreamName};
use glassline_cluster::record::{Load, NodeRecord, NodeState};
use glassline_cluster::{Config, Moment, Node, ProbeId, ProbeResult, PublisherId, PullId};
pub use history::{Excuses, History};
use process::Process;

pub use process::Counts;

/// Unix time at the start of every simulation, in ms.
const UNIX_START_MS: u64 = 1_763_900_000_000;

/// A cluster in virtual time.
#[derive(Debug)]
pub struct World {
    clock: Clock,
    start: Instant,
    rng: Rng,
    /// Engine that all nodes share.
    pub memory: Memory,
    processes: Vec<Process>,
    index: BTreeMap<NodeId, usize>,
    cuts: BTreeSet<(usize, usize)>,
    queue: BTreeMap<(Instant, u64), Happening>,
    next: u64,
    /// The decisions, and the breaches of rules.
    pub history: History,
    publishers: BTreeMap<PublisherId, Publisher>,
    next_publisher: u64,
    next_viewer: u64,
    /// Where redirected viewers go on, and counts of decisions.
    pub decisions: events::Decisions,
    /// Viewers that wait for a decision.
    asking: BTreeMap<glassline_cluster::ViewerId, crowd::Asking>,
    /// Viewers who go elsewhere when their node asks for that.
    pub crowd: crowd::Crowd,
    /// Whether publishers send frames; without, nobody can take a name over.
    has_frames: bool,
}

#[derive(Debug)]
struct Publisher {
    at: usize,
    name: StreamName,
    inc: u64,
    is_admitted: bool,
}

/// Something that will happen.
#[derive(Debug)]
enum Happening {
    Wake(usize),
    Resume(usize),
    Start(usize),
    Reconnect(usize),
    Frame(PublisherId),
    SourceFrame(usize, StreamName),
    Probed(usize, u64, ProbeId, ProbeResult),
    Connected(usize, u64, PullId, StreamName, usize),
    Keyframe(usize, u64, PullId, StreamName, usize),
    PullFails(usize, u64, PullId, StreamName),
    ViewerLeaves(usize, u64, StreamName),
    Viewer(usize, StreamName, crowd::Asking),
    Participant(usize, StreamName),
    LookAtPulls,
    Chaos(chaos::Action),
}

impl World {
    /// Returns a cluster of `count` nodes in regions of `per_region`, none of which runs yet.
    pub fn new(seed: u64, count: usize, per_region: usize) -> Self {
        let clock = Clock::new();
        let mut world = Self {
            start: clock.now(),
            clock,
            rng: Rng::new(seed),
            memory: Memory::new(seed ^ 0x5eed),
            processes: Vec::new(),
            index: BTreeMap::new(),
            cuts: BTreeSet::new(),
            queue: BTreeMap::new(),
            next: 0,
            history: History::default(),
            publishers: BTreeMap::new(),
            next_publisher: 0,
            next_viewer: 0,
            decisions: events::Decisions::default(),
            asking: BTreeMap::new(),
            crowd: crowd::Crowd::default(),
            has_frames: true,
        };
        for index in 0..count {
            let id = NodeId::new(&format!("node-{index:04}")).expect("a name");
            let region = format!("region-{:03}", index / per_region.max(1));
            let region = Region::new(&region).expect("a name");
            let record = NodeRecord {
                inc: 0,
                quic: format!("10.0.0.{index}:4443"),
                sha256: "0".repeat(64),
                http: Some(format!("https://{id}:8443")),
                rtsp: None,
                region: region.clone(),
                state: NodeState::Serving,
                version: "0.1.0".to_owned(),
            };
            world.index.insert(id.clone(), index);
            world
                .processes
                .push(Process::new(id.clone(), Config::new(id, region, record, 0)));
        }
        world
    }

    /// Changes the configuration of every node; holds from the next start of each.
    pub fn configure(&mut self, mut change: impl FnMut(&mut Config)) {
        for process in &mut self.processes {
            change(&mut process.config);
        }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns the present instant of virtual time.
    pub const fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the running process of a node.
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.processes.get(index)?.node.as_ref()
    }

    /// Lets a running node act at the present time, and carries out what it wants then.
    ///
    /// # Panics
    /// If the node's process does not run.
    pub fn act_at<T>(&mut self, index: usize, act: impl FnOnce(&mut Node, Moment) -> T) -> T {
        let moment = self.moment(index);
        let node = self.processes[index].node.as_mut();
        let acted = act(node.expect("the process runs"), moment);
        self.settle(index);
        acted
    }

    /// Starts the process of a node, which connects to the engine.
    pub fn start(&mut self, index: usize) {
        let inc = self.rng.next_u64();
        let moment = self.moment(index);
        let process = &mut self.processes[index];
        if process.node.is_some() {
            return;
        }
        process.config.record.inc = inc;
        process.config.seed = inc;
        let mut node = Node::new(process.config.clone(), moment);
        node.set_load(Load {
            headroom: 100_000,
            ..Load::default()
        });
        for (name, candidates) in process.sources.clone() {
            node.add_source(moment, &name, &candidates);
        }
        process.node = Some(node);
        let (id, region) = (process.id.clone(), process.config.region.clone());
        self.memory.connect(self.clock.now(), &id, &region);
        self.settle(index);
    }

    /// Lets nodes hear of pulls that bring no frames, as servers do.
    pub fn watch_pulls(&mut self) {
        self.schedule_in(media::LOOK, Happening::LookAtPulls);
    }

    /// Starts all nodes.
    pub fn start_all(&mut self) {
        (0..self.processes.len()).for_each(|index| self.start(index));
    }

    /// Ends a process at once, as `kill -9` does.
    pub fn crash(&mut self, index: usize) {
        let now = self.clock.now();
        let process = &mut self.processes[index];
        if process.node.take().is_none() {
            return;
        }
        process.paused_until = None;
        process.crash_in = None;
        process.wake = None;
        process.viewers = 0;
        process.audience.clear();
        self.crowd.lose(index);
        let process = &mut self.processes[index];
        process.waiting.clear();
        let inc = process.config.record.inc;
        let names: Vec<StreamName> = process.hubs.keys().cloned().collect();
        process.dialled.clear();
        let id = process.id.clone();
        self.memory.disconnect(now, &id);
        self.rooms_end(index);
        self.history.process_ends(now, inc);
        self.publishers.retain(|_, it| it.at != index);
        for name in names {
            self.source_gone(index, &name, Duration::from_secs(3));
        }
        self.processes[index].hubs.clear();
    }

    /// Stops a process for a time, as SIGSTOP and SIGCONT do.
    pub fn pause(&mut self, index: usize, time: Duration) {
        let until = self.clock.now() + time;
        let process = &mut self.processes[index];
        if process.node.is_some() && process.paused_until.is_none() {
            process.paused_until = Some(until);
            self.schedule(until, Happening::Resume(index));
        }
    }

    /// Cuts a node off from the engine for a time.
    pub fn cut_from_engine(&mut self, index: usize, time: Duration) {
        let now = self.clock.now();
        let id = self.processes[index].id.clone();
        self.memory.disconnect(now, &id);
        self.schedule(now + time, Happening::Reconnect(index));
    }

    /// Cuts or restores the link between two nodes.
    pub fn set_cut(&mut self, one: usize, other: usize, is_cut: bool) {
        let pair = (one.min(other), one.max(other));
        match is_cut {
            true => self.cuts.insert(pair),
            false => self.cuts.remove(&pair),
        };
        if is_cut {
            self.link_breaks(one, other);
        }
    }

    /// Moves a node's wall clock.
    pub fn set_clock(&mut self, index: usize, off_by_ms: i64) {
        self.processes[index].clock_ms = off_by_ms;
    }

    /// Lets a process crash after a number of requests and deliveries.
    pub fn crash_after(&mut self, index: usize, steps: u64) {
        self.processes[index].crash_in = Some(steps);
    }

    /// Runs until `until` after the start.
    pub fn run_until(&mut self, until: Duration) {
        let end = self.start + until;
        loop {
            let own = self.queue.keys().next().map(|(at, _)| *at);
            let engine = self.memory.poll_timeout();
            let next = [own, engine].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            self.clock.advance_to(at);
            if engine == Some(at) {
                while let Some((node, delivery)) = self.memory.poll_delivery(at) {
                    if let Some(index) = self.index.get(&node).copied() {
                        self.deliver(index, delivery);
                    }
                }
            } else if let Some(first) = self.queue.first_entry() {
                let happening = first.remove();
                self.happen(happening);
            }
        }
        self.clock.advance_to(end);
    }

    fn moment(&self, index: usize) -> Moment {
        let elapsed = self.clock.elapsed().as_millis();
        let honest = UNIX_START_MS + u64::try_from(elapsed).unwrap_or(0);
        Moment {
            at: self.clock.now(),
            unix_ms: honest.saturating_add_signed(self.processes[index].clock_ms),
        }
    }

    fn schedule(&mut self, at: Instant, happening: Happening) {
        self.queue.insert((at, self.next), happening);
        self.next += 1;
    }

    fn schedule_in(&mut self, time: Duration, happening: Happening) {
        self.schedule(self.clock.now() + time, happening);
    }

    fn deliver(&mut self, index: usize, delivery: Delivery) {
        let moment = self.moment(index);
        let process = &mut self.processes[index];
        if process.paused_until.is_some() {
            return process.waiting.push(delivery);
        }
        let Some(node) = &mut process.node else {
            return;
        };
        match delivery {
            Delivery::Answer(answer) => {
                use glassline_cluster::engine::Answered;
                // A beat or a change of notices costs no message of the engine.
                let is_local = matches!(answer.result, Ok(Answered::Sent | Answered::Watching));
                process.counts.received += u64::from(!is_local);
                node.handle_answer(moment, answer);
            }
            Delivery::Incoming(incoming) => {
                use glassline_cluster::engine::Incoming;
                process.counts.received += 1;
                let is_beat = matches!(incoming, Incoming::Beat { .. });
                process.counts.beats += u64::from(is_beat);
                node.handle_incoming(moment, incoming);
            }
        }
        if !self.crashes_now(index) {
            self.settle(index);
        }
    }

    /// Counts one step of a process, and ends it if that was its last.
    fn crashes_now(&mut self, index: usize) -> bool {
        let Some(left) = &mut self.processes[index].crash_in else {
            return false;
        };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        if is_last {
            self.crash(index);
            self.schedule_in(Duration::from_secs(3), Happening::Start(index));
        }
        is_last
    }

    /// Carries out everything that a node wants, and sets its next deadline.
    fn settle(&mut self, index: usize) {
        let now = self.clock.now();
        let id = self.processes[index].id.clone();
        loop {
            let Some(node) = &mut self.processes[index].node else {
                return;
            };
            if let Some(event) = node.poll_event() {
                self.on_event(index, event);
            } else if let Some(request) = node.poll_request() {
                self.processes[index].counts.sent += 1;
                self.memory.request(now, &id, request);
                if self.crashes_now(index) {
                    return;
                }
            } else if let Some(reply) = node.poll_reply() {
                self.processes[index].counts.sent += 1;
                self.memory.reply(now, &id, reply);
            } else {
                break;
            }
        }
        let process = &mut self.processes[index];
        let next = process.node.as_ref().and_then(Node::poll_timeout);
        if let Some(at) = next
            && process.wake.is_none_or(|wake| at < wake || wake < now)
        {
            process.wake = Some(at);
            self.schedule(at, Happening::Wake(index));
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(index) => self.wake(index),
            Happening::Resume(index) => self.resume(index),
            Happening::Start(index) => self.start(index),
            Happening::Reconnect(index) => {
                let process = &self.processes[index];
                if process.node.is_some() {
                    let (id, region) = (process.id.clone(), process.config.region.clone());
                    self.memory.connect(self.clock.now(), &id, &region);
                }
            }
            Happening::Participant(index, name) => self.enter_room(index, &name),
            Happening::LookAtPulls => {
                self.look_at_pulls();
                self.schedule_in(media::LOOK, Happening::LookAtPulls);
            }
            Happening::Chaos(action) => self.act(action),
            other => self.happen_to_media(other),
        }
    }

    fn wake(&mut self, index: usize) {
        let now = self.clock.now();
        let moment = self.moment(index);
        let process = &mut self.processes[index];
        if process.wake != Some(now) || process.paused_until.is_some() {
            return;
        }
        process.wake = None;
        if let Some(node) = &mut process.node {
            node.set_load(Load {
                viewers: process.viewers,
                ..node.load()
            });
            node.handle_timeout(moment);
            self.settle(index);
        }
    }

    fn resume(&mut self, index: usize) {
        let moment = self.moment(index);
        let process = &mut self.processes[index];
        process.paused_until = None;
        process.wake = None;
        // A server that wakes up reads its clock before its sockets, or after them.
        let is_clock_first = self.rng.chance(0.5);
        if let Some(node) = process.node.as_mut().filter(|_| is_clock_first) {
            node.handle_timeout(moment);
            self.settle(index);
        }
        let waiting = std::mem::take(&mut self.processes[index].waiting);
        for delivery in waiting {
            self.deliver(index, delivery);
        }
        if let Some(node) = &mut self.processes[index].node {
            node.handle_timeout(moment);
            self.settle(index);
        }
    }

    fn is_up(&self, index: usize) -> bool {
        let process = &self.processes[index];
        process.node.is_some() && process.paused_until.is_none()
    }

    fn is_reachable(&self, from: usize, to: usize) -> bool {
        self.is_up(to) && !self.cuts.contains(&(from.min(to), from.max(to)))
    }
}
