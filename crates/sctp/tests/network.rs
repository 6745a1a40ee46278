use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_sim::{Conditions, Datagram, End, Network, Node, Simulation};

use crate::peers::{Happened, Peer};

/// An association of any implementation, with events that the test has not taken.
pub(crate) struct Side {
    end: End,
    pub(crate) peer: Box<dyn Peer>,
    pub(crate) happened: VecDeque<Happened>,
}

impl Node for Side {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.end.address()
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        self.peer.handle(&datagram.bytes, now);
    }

    fn end_batch(&mut self, now: Instant) {
        self.peer.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        while let Some(happened) = self.peer.poll(now) {
            self.happened.push_back(happened);
        }
        let mut packet = Vec::new();
        let is_any = self.peer.transmit(now, &mut packet);
        is_any.then(|| Datagram::between_ends(self.end, packet))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.peer.deadline()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peer.on_deadline(now);
    }

    fn state(&self) -> String {
        format!("{:?}, untaken {:?}", self.peer.figures(), self.happened)
    }
}

/// Two ends and the path between them.
pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) ends: [Side; 2],
}

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

impl Simulation for Pair {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let [a, b] = &mut self.ends;
        run(&mut self.network, &mut [a, b])
    }
}

impl Pair {
    /// `make` gets the time at which both ends begin.
    pub(crate) fn new(
        conditions: Conditions,
        seed: u64,
        make: impl FnOnce(Instant) -> [Box<dyn Peer>; 2],
    ) -> Self {
        let network = Network::pair(conditions, seed).with_traced(|packet| {
            let mut hasher = DefaultHasher::new();
            packet.hash(&mut hasher);
            ("packet", hasher.finish())
        });
        let [a, b] = make(network.now());
        let side = |end, peer| Side {
            end,
            peer,
            happened: VecDeque::new(),
        };
        Self {
            network,
            ends: [side(End::A, a), side(End::B, b)],
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.network.now()
    }

    pub(crate) fn end(&mut self, end: usize) -> &mut dyn Peer {
        &mut *self.ends[end].peer
    }

    /// Waits until both ends report that they are connected, and nothing else happens until
    /// then.
    #[track_caller]
    pub(crate) fn establish(&mut self) {
        let mut connected = [false; 2];
        let minute = Duration::from_secs(60);
        self.expect_within(minute, "both are connected", |pair| {
            for (connected, end) in connected.iter_mut().zip(&mut pair.ends) {
                while let Some(happened) = end.happened.pop_front() {
                    assert_eq!(happened, Happened::Connected);
                    *connected = true;
                }
            }
            connected == [true, true]
        });
    }
}
