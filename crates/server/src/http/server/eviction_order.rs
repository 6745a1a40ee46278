//! The order in which open connections make room for others, kept up to date by their changes, so that
//! a newcomer costs the same among ten connections and among ten thousand.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use glassline_runtime::{SourcePrefix, shrink};

use super::eviction_rank::EvictionRank;

/// Time from which a request that the server works on makes room for others. Most are answered within
/// milliseconds; streams of events, and what waits for a source, are not.
const LONG: Duration = Duration::from_secs(2);

/// Part of the open connections that those without a right have to themselves: one in this number.
const NEWCOMERS_PART: usize = 8;

/// Connections of type `T` by their numbers, which rise in the order of arrival.
#[derive(Debug)]
pub(super) struct EvictionOrder<T> {
    connections: HashMap<u64, Connection<T>>,
    by_source: HashMap<SourcePrefix, OfSource>,
    /// The sources that have a connection in a queue: those with the most connections of any kind first,
    /// and of equal ones that with the oldest connection in the queue.
    sources: [BTreeSet<(Reverse<usize>, u64, SourcePrefix)>; QUEUES],
    /// Number of connections without a right that are waited for.
    half_open: usize,
    /// Connections that the server works for, by the begin of their newest request.
    busy: BTreeSet<(Instant, u64)>,
}

#[derive(Debug)]
struct Connection<T> {
    source: SourcePrefix,
    turn: Turn,
    content: T,
}

/// When a connection makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The connection may make room, in this queue.
    Queue(usize),
    /// The connection does not make room before the request that began at this time takes long.
    Busy(Instant),
}

/// Number of queues, from the connections that go first on.
const QUEUES: usize = 3;
const HALF_OPEN: usize = 0;
const WAITING: usize = 1;
const LONG_BUSY: usize = 2;

/// The connections of one source.
#[derive(Debug, Default)]
struct OfSource {
    count: usize,
    queues: [BTreeSet<u64>; QUEUES],
}

impl<T> Default for EvictionOrder<T> {
    fn default() -> Self {
        Self {
            connections: HashMap::new(),
            by_source: HashMap::new(),
            sources: Default::default(),
            half_open: 0,
            busy: BTreeSet::new(),
        }
    }
}

impl<T> EvictionOrder<T> {
    /// Returns what belongs to a connection; `None` if it is open no more.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        Some(&self.connections.get(&number)?.content)
    }

    /// Adds a connection that was just accepted, with a number above all before.
    pub(super) fn insert(&mut self, number: u64, source: SourcePrefix, content: T) {
        let turn = Turn::Queue(HALF_OPEN);
        let connection = Connection {
            source,
            turn,
            content,
        };
        self.connections.insert(number, connection);
        self.change(source, |it| it.count += 1);
        self.enter(number, source, turn);
    }

    /// Removes a connection; `None` if it is open no more.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let removed = self.connections.remove(&number)?;
        shrink(&mut self.connections);
        self.leave(number, removed.source, removed.turn);
        self.change(removed.source, |it| it.count -= 1);
        Some(removed.content)
    }

    /// Puts a connection where its rank belongs.
    pub(super) fn set_rank(&mut self, number: u64, rank: EvictionRank) {
        let turn = match rank {
            EvictionRank::HalfOpen => Turn::Queue(HALF_OPEN),
            EvictionRank::Waiting => Turn::Queue(WAITING),
            EvictionRank::Busy(since) => Turn::Busy(since),
        };
        self.set_turn(number, turn);
    }

    /// Returns the connection of `source` that goes first.
    pub(super) fn first_of(&mut self, source: SourcePrefix, now: Instant) -> Option<u64> {
        self.note_long(now);
        let queues = &self.by_source.get(&source)?.queues;
        queues.iter().find_map(BTreeSet::first).copied()
    }

    /// Returns the connection that goes first, of the source with the most connections among those
    /// with the least right; of several such sources, the oldest connection.
    pub(super) fn first(&mut self, now: Instant) -> Option<u64> {
        self.note_long(now);
        let newcomers_part = self.connections.len() / NEWCOMERS_PART;
        let order = match self.half_open > newcomers_part {
            true => [HALF_OPEN, WAITING, LONG_BUSY],
            false => [WAITING, LONG_BUSY, HALF_OPEN],
        };
        let first = order.iter().find_map(|it| self.sources[*it].first());
        first.map(|(_, number, _)| *number)
    }

    /// Returns whether no connection is open.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_left = !self.by_source.is_empty() || !self.busy.is_empty() || self.half_open > 0;
        self.connections.is_empty() && !is_left && self.sources.iter().all(BTreeSet::is_empty)
    }

    /// Moves connections whose newest request has taken long to those that make room.
    fn note_long(&mut self, now: Instant) {
        while let Some((since, number)) = self.busy.first().copied()
            && now.saturating_duration_since(since) >= LONG
        {
            self.set_turn(number, Turn::Queue(LONG_BUSY));
        }
    }

    fn set_turn(&mut self, number: u64, turn: Turn) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let source = connection.source;
        let before = std::mem::replace(&mut connection.turn, turn);
        self.leave(number, source, before);
        self.enter(number, source, turn);
    }

    fn enter(&mut self, number: u64, source: SourcePrefix, turn: Turn) {
        match turn {
            Turn::Busy(since) => {
                self.busy.insert((since, number));
            }
            Turn::Queue(queue) => {
                self.half_open += usize::from(queue == HALF_OPEN);
                self.change(source, |it| {
                    it.queues[queue].insert(number);
                });
            }
        }
    }

    fn leave(&mut self, number: u64, source: SourcePrefix, turn: Turn) {
        match turn {
            Turn::Busy(since) => {
                self.busy.remove(&(since, number));
            }
            Turn::Queue(queue) => {
                self.half_open -= usize::from(queue == HALF_OPEN);
                self.change(source, |it| {
                    it.queues[queue].remove(&number);
                });
            }
        }
    }

    /// Changes what a source has, and moves it among the others.
    fn change(&mut self, source: SourcePrefix, change: impl FnOnce(&mut OfSource)) {
        let of_source = self.by_source.entry(source).or_default();
        let before = of_source.keys(source);
        change(of_source);
        let after = of_source.keys(source);
        if of_source.count == 0 {
            self.by_source.remove(&source);
            shrink(&mut self.by_source);
        }
        for (queue, sources) in self.sources.iter_mut().enumerate() {
            if before[queue] != after[queue] {
                if let Some(before) = &before[queue] {
                    sources.remove(before);
                }
                sources.extend(after[queue]);
            }
        }
    }
}

impl OfSource {
    /// Returns the keys of this source among others, for each queue.
    fn keys(&self, source: SourcePrefix) -> [Option<(Reverse<usize>, u64, SourcePrefix)>; QUEUES] {
        self.queues.each_ref().map(|queue| {
            let oldest = queue.first()?;
            Some((Reverse(self.count), *oldest, source))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn source(last: u8) -> SourcePrefix {
        IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    /// A connection's source, and its rank.
    type Ranked = (SourcePrefix, EvictionRank);

    /// The order by looking at every connection. Returns the first of all, and the first of a source.
    fn looked_up(open: &[(u64, Ranked)], of: SourcePrefix, now: Instant) -> [Option<u64>; 2] {
        let queue = |rank: EvictionRank| match rank {
            EvictionRank::HalfOpen => Some(HALF_OPEN),
            EvictionRank::Waiting => Some(WAITING),
            EvictionRank::Busy(since) => (now >= since + LONG).then_some(LONG_BUSY),
        };
        let count = |source| open.iter().filter(|(_, (it, _))| *it == source).count();
        let ready = || {
            open.iter().filter_map(|(number, (source, rank))| {
                Some((queue(*rank)?, Reverse(count(*source)), *number, *source))
            })
        };
        let half_open = ready().filter(|it| it.0 == HALF_OPEN).count();
        let newcomers = ready().filter(|it| it.0 == HALF_OPEN).min();
        let others = ready().filter(|it| it.0 != HALF_OPEN).min();
        let first = match half_open > open.len() / NEWCOMERS_PART {
            true => newcomers,
            false => others.or(newcomers),
        };
        let first_of = ready().filter(|it| it.3 == of).map(|it| (it.0, it.2)).min();
        [first.map(|it| it.2), first_of.map(|it| it.1)]
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_looking_at_every_connection(
            steps in vec((0..4_u8, 0..6_u8, 0..40_u64, 0..3_u64), 1..200),
        ) {
            let mut order = EvictionOrder::default();
            let mut open = Vec::<(u64, Ranked)>::new();
            let mut now = Instant::now();
            for (number, (last, what, which, seconds)) in (0..).zip(steps) {
                now += Duration::from_secs(seconds) / 2;
                let known = usize::try_from(which).expect("few") % open.len().max(1);
                let rank = match what {
                    0 => Some(EvictionRank::HalfOpen),
                    1 => Some(EvictionRank::Waiting),
                    2 => Some(EvictionRank::Busy(now)),
                    _ => None,
                };
                match (rank, open.get_mut(known)) {
                    (Some(rank), Some(connection)) => {
                        connection.1.1 = rank;
                        order.set_rank(connection.0, rank);
                    }
                    (None, Some(_)) if what == 3 => {
                        let (number, _) = open.remove(known);
                        prop_assert_eq!(order.remove(number), Some(number));
                    }
                    _ => {
                        open.push((number, (source(last), EvictionRank::HalfOpen)));
                        order.insert(number, source(last), number);
                    }
                }
                let first_of = order.first_of(source(last), now);
                let expected = looked_up(&open, source(last), now);
                prop_assert_eq!([order.first(now), first_of], expected);
            }
            for (number, _) in open {
                order.remove(number);
            }
            prop_assert!(order.is_empty());
        }
    }
}
