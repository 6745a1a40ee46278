use std::time::{Duration, Instant};

use crate::{Network, Node};

/// A network together with the nodes on it: what a test builds and runs.
///
/// An implementation has its nodes as fields, of whatever types they are, and passes them in
/// a fixed order; a node's position in that order is its index in [`Network::join`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use glassline_sim::{Conditions, Datagram, End, Network, Node, Simulation};
///
/// /// Sends the messages in `to_send`, and keeps those that arrive.
/// struct Peer {
///     end: End,
///     to_send: Vec<Vec<u8>>,
///     received: Vec<(Instant, Vec<u8>)>,
/// }
///
/// impl Node for Peer {
///     fn is_at(&self, address: std::net::SocketAddr) -> bool {
///         address == self.end.address()
///     }
///     fn handle(&mut self, now: Instant, datagram: Datagram) {
///         self.received.push((now, datagram.bytes));
///     }
///     fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
///         Some(Datagram::between_ends(self.end, self.to_send.pop()?))
///     }
///     fn poll_timeout(&mut self) -> Option<Instant> {
///         None
///     }
///     fn handle_timeout(&mut self, _: Instant) {}
///     fn state(&self) -> String {
///         format!("received {}", self.received.len())
///     }
/// }
///
/// struct Pair {
///     network: Network,
///     ends: [Peer; 2],
/// }
///
/// impl Simulation for Pair {
///     fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
///         let [a, b] = &mut self.ends;
///         run(&mut self.network, &mut [a, b])
///     }
/// }
///
/// let peer = |end| Peer { end, to_send: vec![], received: vec![] };
/// let mut pair = Pair {
///     network: Network::pair(Conditions::delayed(Duration::from_millis(20)), 1),
///     ends: [peer(End::A), peer(End::B)],
/// };
/// let start = pair.network.now();
/// pair.ends[0].to_send.push(b"hello".to_vec());
/// pair.expect_within(Duration::from_secs(1), "B receives it", |pair| !pair.ends[1].received.is_empty());
/// assert_eq!(pair.ends[1].received[0].0 - start, Duration::from_millis(20));
/// ```
pub trait Simulation: Sized {
    /// Calls `run` with the network and its nodes, in the order of their indices.
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R;

    /// Processes all events that are due at the present instant.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn settle(&mut self) {
        self.with_nodes(Network::settle);
    }

    /// Advances to the next event, but not beyond `until`, and processes it; false once
    /// `until` is reached.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn step(&mut self, until: Instant) -> bool {
        self.with_nodes(|network, nodes| network.step(nodes, until))
    }

    /// Runs for `time`.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `done` returns true; false if it does not within `limit`. `done` is called
    /// at each instant after all events that were due. It may give the nodes something to
    /// send, which leaves at the same instant.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.with_nodes(|network, nodes| {
            network.settle(nodes);
            network.now() + limit
        });
        while !done(self) {
            if !self.step(until) {
                return done(self);
            }
        }
        true
    }

    /// Runs until `done` returns true, like [`Self::run_until`].
    ///
    /// # Panics
    ///
    /// When `limit` passes first; the message has `event`, the seed, the time and the state
    /// of each node. When a bound of [`Limits`](crate::Limits) is reached.
    #[track_caller]
    fn expect_within(&mut self, limit: Duration, event: &str, done: impl FnMut(&mut Self) -> bool) {
        if !self.run_until(limit, done) {
            let report = self.with_nodes(|network, nodes| network.report(nodes));
            panic!("{event}: not within {limit:?}; {report}");
        }
    }
}
