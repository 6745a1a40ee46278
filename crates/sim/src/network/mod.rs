//! Nodes that exchange datagrams over paths, from one event in virtual time to the next.
//!
//! ```text
//!  poll_transmit ┌───────┐ route  ┌──────┐ arrival ┌───────┐ handle, end_batch
//!  ─────────────►│Network├───────►│ Path ├────────►│Network├──────────────────► node
//!     node       └───────┘        └──────┘         └───┬───┘ handle_timeout
//!                    clock = earliest of arrivals and poll_timeouts
//! ```
//!
//! One loop for every test that plays protocol cores against each other. Simultaneous
//! events have a fixed order: datagrams by time of arrival (those of one path that arrive
//! together first at B, then at A; of several paths the first path's first), then
//! timeouts, then what is sent, either by index of the node. So all that happens follows
//! from the seed, and [`Network::trace`] of two runs with one seed is equal.
//!
//! The loop knows no protocol, reads no clock and has no thread. It is not made for
//! simulations whose speed is their point: each datagram owns its bytes and each event
//! enters the trace.

mod node;
mod simulation;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

pub use node::{Datagram, Node};
pub use simulation::Simulation;

use crate::{Clock, Conditions, End, Link, Path, Rng, Trace};

/// Bounds of a run. A run that reaches a bound makes no progress or is not what the test
/// meant: it fails with a message that has the seed, the time and the state of each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most virtual time of a network, from its start.
    pub time: Duration,
    /// Most events of a network, from its start: datagrams sent and arrived, and timeouts.
    pub events: u64,
    /// Most events at one instant. More events mean a node whose timeout stays due, or two
    /// nodes that answer each other over a path without delay.
    pub events_at_once: u64,
}

impl Default for Limits {
    /// Returns a week, as many events as take minutes to compute, and a million events at
    /// one instant.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(7 * 24 * 3600),
            events: 200_000_000,
            events_at_once: 1_000_000,
        }
    }
}

/// Counters of datagrams that never reached a link or a node. [`Link::counts`] has what
/// links did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misrouted {
    /// Datagrams without a path from their sender to their destination.
    pub unroutable: u64,
    /// Datagrams that arrived at an address that no node has any more.
    pub nobody_there: u64,
    /// Datagrams longer than [`Network::set_datagram_bytes_max`].
    pub too_large: u64,
}

/// Paths between nodes, and the virtual time that they share. [`Simulation`] shows how to
/// run it.
#[derive(Debug)]
pub struct Network {
    /// Clock of the virtual time.
    clock: Clock,
    /// Seed of all random decisions.
    seed: u64,
    /// The paths, by their index.
    paths: Vec<Path<Datagram>>,
    /// Which path leads from one node to another.
    routes: Vec<Route>,
    /// Bounds of the run.
    limits: Limits,
    /// Bytes that each datagram counts beyond its payload.
    header_bytes: usize,
    /// Longest payload that is carried, in bytes.
    datagram_bytes_max: usize,
    /// Probability that a datagram is sent twice.
    duplicates: f64,
    /// Decides which datagrams are duplicated.
    rng: Rng,
    /// Digest of what happened.
    trace: Trace,
    /// The part of a datagram that enters the trace.
    traced: Traced,
    /// Events since the start.
    events: u64,
    /// Events at the present instant.
    events_at_once: u64,
    /// Datagrams that never reached a link or a node.
    misrouted: Misrouted,
}

/// Name and value under which a datagram's payload enters the trace.
pub type Traced = fn(&[u8]) -> (&'static str, u64);

/// The path from one node to another.
#[derive(Clone, Copy, Debug)]
struct Route {
    /// Index of the sending node.
    from: usize,
    /// Index of the receiving node.
    to: usize,
    /// Index of the path.
    path: usize,
    /// End of the path at which the sending node is.
    end: End,
}

impl Network {
    /// Returns a network without paths; `seed` decides all random decisions of paths that
    /// are added.
    pub fn new(seed: u64) -> Self {
        Self {
            clock: Clock::new(),
            seed,
            paths: Vec::new(),
            routes: Vec::new(),
            limits: Limits::default(),
            header_bytes: 0,
            datagram_bytes_max: usize::MAX,
            duplicates: 0.0,
            rng: Rng::new(seed).fork(7),
            trace: Trace::new(),
            traced: |bytes| ("datagram", bytes.len() as u64),
            events: 0,
            events_at_once: 0,
            misrouted: Misrouted::default(),
        }
    }

    /// Returns a network of two nodes, 0 and 1, on a path with the same conditions each
    /// way.
    pub fn pair(conditions: Conditions, seed: u64) -> Self {
        Self::pair_with(conditions.clone(), conditions, seed)
    }

    /// Returns a network of two nodes, 0 and 1, on a path with its own conditions each way.
    pub fn pair_with(a_to_b: Conditions, b_to_a: Conditions, seed: u64) -> Self {
        let mut network = Self::new(seed);
        let path = network.add_path(a_to_b, b_to_a);
        network.join(path, 0, 1);
        network
    }

    /// Adds a path that nodes can be joined by, and returns its index, from 0.
    pub fn add_path(&mut self, a_to_b: Conditions, b_to_a: Conditions) -> usize {
        let index = self.paths.len();
        let seed = match index {
            0 => self.seed,
            _ => Rng::new(self.seed).fork(8 + index as u64).next_u64(),
        };
        self.paths.push(Path::new(a_to_b, b_to_a, seed));
        index
    }

    /// Joins node `a` at end A of a path with node `b` at end B. Several pairs may share a
    /// path and its queue. A pair that was joined before moves to this path.
    pub fn join(&mut self, path: usize, a: usize, b: usize) {
        self.part(a, b);
        for (from, to, end) in [(a, b, End::A), (b, a, End::B)] {
            let route = Route {
                from,
                to,
                path,
                end,
            };
            self.routes.push(route);
        }
    }

    /// Separates two nodes: nothing more is sent between them.
    pub fn part(&mut self, a: usize, b: usize) {
        self.routes
            .retain(|route| ![(a, b), (b, a)].contains(&(route.from, route.to)));
    }

    /// Sets bounds other than [`Limits::default`].
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts this many bytes more for each datagram on the links, for headers of lower
    /// layers.
    #[must_use]
    pub const fn with_header_bytes(mut self, bytes: usize) -> Self {
        self.header_bytes = bytes;
        self
    }

    /// Sets what of a datagram enters the trace; by default its length. Values that differ
    /// from run to run, as ciphertext does, must not enter it.
    #[must_use]
    pub const fn with_traced(mut self, traced: Traced) -> Self {
        self.traced = traced;
        self
    }

    /// Drops datagrams with a longer payload from now on, like those above a path's MTU.
    pub const fn set_datagram_bytes_max(&mut self, bytes: usize) {
        self.datagram_bytes_max = bytes;
    }

    /// Sends each datagram twice with this probability, 0..=1, from now on.
    pub const fn set_duplicates(&mut self, probability: f64) {
        self.duplicates = probability;
    }

    /// Changes the conditions of the first path, each way, for what is sent from now on.
    ///
    /// # Panics
    ///
    /// Without a path.
    pub fn set_conditions(&mut self, conditions: &Conditions) {
        for end in [End::A, End::B] {
            self.link_mut(end).set_conditions(conditions.clone());
        }
    }

    /// Returns the virtual time.
    pub const fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the virtual time since the start, which traces and messages should show.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns the seed of all random decisions.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the digest of what was sent, by which node and when, and of what arrived.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the counters of datagrams that never reached a link or a node.
    pub const fn misrouted(&self) -> Misrouted {
        self.misrouted
    }

    /// Returns the link of the first path on which end `from` sends.
    ///
    /// # Panics
    ///
    /// Without a path.
    pub fn link(&self, from: End) -> &Link<Datagram> {
        self.paths[0].link(from)
    }

    /// Returns the link of the first path on which end `from` sends, to change its
    /// conditions.
    ///
    /// # Panics
    ///
    /// Without a path.
    pub fn link_mut(&mut self, from: End) -> &mut Link<Datagram> {
        self.paths[0].link_mut(from)
    }

    /// Returns when the next datagram arrives; `None` while none is in flight.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.paths.iter().filter_map(Path::next_arrival).min()
    }

    /// Removes and returns the next datagram that arrives by `until`; its node does not get
    /// it. An attacker on the path may keep the datagram, or change and forward it.
    pub fn intercept(&mut self, until: Instant) -> Option<Datagram> {
        // The first path of equals.
        let arrivals = self.paths.iter_mut();
        let first =
            arrivals.min_by_key(|path| (path.next_arrival().is_none(), path.next_arrival()));
        let (_, datagram) = first?.poll(until)?;
        Some(datagram)
    }

    /// Sends a datagram of node `from`.
    fn send(&mut self, nodes: &[&mut dyn Node], from: usize, datagram: Datagram) {
        if datagram.bytes.len() > self.datagram_bytes_max {
            self.misrouted.too_large += 1;
            return;
        }
        let to = nodes.iter().position(|node| node.is_at(datagram.to));
        let routes = self.routes.iter();
        let route = to.and_then(|to| {
            let mut routes = routes.filter(|route| (route.from, route.to) == (from, to));
            routes.next().copied()
        });
        let Some(Route { path, end, .. }) = route else {
            self.misrouted.unroutable += 1;
            return;
        };
        let (now, bytes) = (self.clock.now(), datagram.bytes.len() + self.header_bytes);
        if self.duplicates > 0.0 && self.rng.chance(self.duplicates) {
            self.paths[path].send(end, now, bytes, datagram.clone());
        }
        self.paths[path].send(end, now, bytes, datagram);
    }

    /// Processes all events that are due at the present instant.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`] is reached.
    pub fn settle(&mut self, nodes: &mut [&mut dyn Node]) {
        loop {
            let arrived = self.deliver(nodes);
            let timed_out = self.time_out(nodes);
            let sent = self.transmit(nodes);
            if !arrived && !timed_out && !sent {
                return;
            }
        }
    }

    /// Advances to the next event, but not beyond `until`, and processes it; false once
    /// `until` is reached.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`] is reached.
    pub fn step(&mut self, nodes: &mut [&mut dyn Node], until: Instant) -> bool {
        // What the test gave the nodes to send since the last step.
        self.transmit(nodes);
        let timeouts = nodes.iter_mut().filter_map(|node| node.poll_timeout());
        let next = timeouts.chain(self.next_arrival()).min();
        let next = next.map_or(until, |next| next.min(until));
        if next > self.clock.now() {
            self.clock.advance_to(next);
            self.events_at_once = 0;
        }
        self.settle(nodes);
        if self.clock.elapsed() > self.limits.time {
            self.fail(nodes, "took more virtual time than its limit");
        }
        self.clock.now() < until
    }

    /// Returns a text with seed, time, events and the state of each node, for messages.
    pub fn report(&self, nodes: &mut [&mut dyn Node]) -> String {
        let mut text = format!(
            "seed {}, after {:?} and {} events, {} of them at this instant",
            self.seed,
            self.clock.elapsed(),
            self.events,
            self.events_at_once
        );
        let from_now = |at: Instant| at.saturating_duration_since(self.clock.now());
        for (index, node) in nodes.iter_mut().enumerate() {
            let timeout = node.poll_timeout().map(from_now);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n  node {index}: {}, timeout in {timeout:?}",
                node.state()
            );
        }
        let _ = write!(
            text,
            "\n  next arrival in {:?}, {:?}",
            self.next_arrival().map(from_now),
            self.misrouted
        );
        text
    }

    /// Delivers the datagrams that have arrived; returns whether there were any.
    fn deliver(&mut self, nodes: &mut [&mut dyn Node]) -> bool {
        let now = self.clock.now();
        let mut received = 0u64;
        let mut is_any = false;
        while let Some(datagram) = self.intercept(now) {
            is_any = true;
            self.count(nodes);
            let to = nodes.iter().position(|node| node.is_at(datagram.to));
            let Some(to) = to else {
                self.misrouted.nobody_there += 1;
                continue;
            };
            self.trace.record(self.clock.elapsed(), "to", to as u64);
            nodes[to].handle(now, datagram);
            received |= 1 << (to % 64);
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            if received & (1 << (index % 64)) != 0 {
                node.end_batch(now);
            }
        }
        is_any
    }

    /// Handles the timeouts that are due; returns whether there were any.
    fn time_out(&mut self, nodes: &mut [&mut dyn Node]) -> bool {
        let now = self.clock.now();
        let mut is_any = false;
        for index in 0..nodes.len() {
            if nodes[index].poll_timeout().is_some_and(|at| at <= now) {
                is_any = true;
                self.count(nodes);
                nodes[index].handle_timeout(now);
            }
        }
        is_any
    }

    /// Sends what the nodes have to send; returns whether there was anything.
    fn transmit(&mut self, nodes: &mut [&mut dyn Node]) -> bool {
        let now = self.clock.now();
        let mut is_any = false;
        for from in 0..nodes.len() {
            while let Some(datagram) = nodes[from].poll_transmit(now) {
                is_any = true;
                self.count(nodes);
                let (name, value) = (self.traced)(&datagram.bytes);
                let elapsed = self.clock.elapsed();
                self.trace.record(elapsed, "from", from as u64);
                self.trace.record(elapsed, name, value);
                self.send(nodes, from, datagram);
            }
        }
        is_any
    }

    /// Counts an event, and fails the run at a bound.
    fn count(&mut self, nodes: &mut [&mut dyn Node]) {
        self.events += 1;
        self.events_at_once += 1;
        if self.events_at_once > self.limits.events_at_once {
            self.fail(nodes, "makes no progress: too many events at one instant");
        }
        if self.events > self.limits.events {
            self.fail(nodes, "took more events than its limit");
        }
    }

    /// Fails the run with its report.
    fn fail(&self, nodes: &mut [&mut dyn Node], why: &str) -> ! {
        panic!("the simulation {why}; {}", self.report(nodes));
    }
}

#[cfg(test)]
mod tests;
