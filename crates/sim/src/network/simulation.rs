use std::time::{Duration, Instant};

use crate::{Network, Node};

/// A network together with the nodes on it: what a test builds and runs.
///
/// An implementation names its nodes as fields, of whatever types they are, and lends
/// them in a fixed order; a node's place in that order is its index in
/// [`Network::join`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use glassline_sim::{Conditions, Datagram, End, Network, Node, Simulation};
///
/// /// Says what it was told to say, and keeps what it hears.
/// struct Peer {
///     end: End,
///     to_say: Vec<Vec<u8>>,
///     heard: Vec<(Instant, Vec<u8>)>,
/// }
///
/// impl Node for Peer {
///     fn is_at(&self, address: std::net::SocketAddr) -> bool {
///         address == self.end.address()
///     }
///     fn handle(&mut self, now: Instant, datagram: Datagram) {
///         self.heard.push((now, datagram.bytes));
///     }
///     fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
///         Some(Datagram::between_ends(self.end, self.to_say.pop()?))
///     }
///     fn poll_timeout(&mut self) -> Option<Instant> {
///         None
///     }
///     fn handle_timeout(&mut self, _: Instant) {}
///     fn state(&self) -> String {
///         format!("heard {}", self.heard.len())
///     }
/// }
///
/// struct Pair {
///     network: Network,
///     ends: [Peer; 2],
/// }
///
/// impl Simulation for Pair {
///     fn lend<R>(&mut self, turn: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
///         let [a, b] = &mut self.ends;
///         turn(&mut self.network, &mut [a, b])
///     }
/// }
///
/// let peer = |end| Peer { end, to_say: vec![], heard: vec![] };
/// let mut pair = Pair {
///     network: Network::pair(Conditions::delayed(Duration::from_millis(20)), 1),
///     ends: [peer(End::A), peer(End::B)],
/// };
/// let start = pair.network.now();
/// pair.ends[0].to_say.push(b"hello".to_vec());
/// pair.expect_within(Duration::from_secs(1), "B hears it", |pair| !pair.ends[1].heard.is_empty());
/// assert_eq!(pair.ends[1].heard[0].0 - start, Duration::from_millis(20));
/// ```
pub trait Simulation: Sized {
    /// Lends the network and its nodes, in the order of their indices, to `turn`.
    fn lend<R>(&mut self, turn: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R;

    /// Lets everything happen that is due at this moment.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn settle(&mut self) {
        self.lend(Network::settle);
    }

    /// Goes to the next moment at which something happens, at the latest to `until`, and
    /// lets it happen; false once `until` is reached.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn step(&mut self, until: Instant) -> bool {
        self.lend(|network, nodes| network.step(nodes, until))
    }

    /// Lets `time` pass.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Goes on until `done`, which is asked at each moment when all that was due has
    /// happened; false if it still is not after `limit`. `done` may give the nodes
    /// something to do: that leaves at the same moment.
    ///
    /// # Panics
    ///
    /// When a bound of [`Limits`](crate::Limits) is reached.
    fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.lend(|network, nodes| {
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

    /// Goes on until `done`, as [`Self::run_until`] does.
    ///
    /// # Panics
    ///
    /// When `limit` passes first: `event` says in the message what did not happen, beside
    /// the seed, the time and the state of each node. When a bound of
    /// [`Limits`](crate::Limits) is reached.
    #[track_caller]
    fn expect_within(&mut self, limit: Duration, event: &str, done: impl FnMut(&mut Self) -> bool) {
        if !self.run_until(limit, done) {
            let report = self.lend(|network, nodes| network.report(nodes));
            panic!("{event}: not within {limit:?}; {report}");
        }
    }
}
