//! A node with clearly more than its share of the viewers sends some of its viewers to others, after a
//! node has come that has none.
//!
//! ```text
//! at rest ─ a node of this region begins to serve ─► no node has come or gone for 6 s ─┐
//!    ▲                                                                                 ▼
//!    ├─ for 15 s not more than 1.5 times the mean ◄──────────────────── counts viewers each second
//!    └─ 1.25 times the mean, or 30 s ◄─ sends viewers away, takes no others ◄──────────┘
//! ```
//!
//! Only viewers who came before the new node are sent away. So no viewer moves twice for one node that
//! comes, and a cluster in which nothing has changed moves nobody, however its viewers are spread.

use std::time::{Duration, Instant};

use super::Node;
use crate::event::Event;
use crate::liveness::Peer;
use crate::name::NodeId;
use crate::question::Holder;

/// Time without a node that comes, goes or drains, after which viewers are counted: those of a node that
/// went have arrived elsewhere by then.
const CALM: Duration = Duration::from_secs(6);

/// How long viewers are counted after that.
const COUNTED_FOR: Duration = Duration::from_secs(15);

/// Longest time for which viewers are sent away. Those who are left then cannot be moved.
const SENDS_FOR: Duration = Duration::from_secs(30);

/// Fewest viewers above the mean that are worth the gap which those who move see.
const LEAST: u32 = 4;

/// The part of the viewers to be moved that is sent away in a second, and the most of them.
const STEPS: u32 = 4;
const STEP_MAX: u32 = 100;

/// Knowledge of how viewers are spread over the servers of the region.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// The nodes that served a second ago, with their processes.
    serving: Vec<(NodeId, u64)>,
    /// The latest node that began to serve; `None` once its share was considered.
    arrival: Option<Arrival>,
    /// When a node came, went or drained last.
    changed: Option<Instant>,
    sending: Option<Sending>,
}

/// A node began to serve.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    /// Viewers who were here then, and have not been sent away since.
    movable: u32,
}

/// Viewers are being sent away.
#[derive(Clone, Copy, Debug)]
struct Sending {
    since: Instant,
    /// Viewers at which it is over.
    goal: u32,
}

impl Node {
    /// Whether this node sends viewers away because it has more than its share, and so takes none that
    /// can be served elsewhere.
    pub const fn is_sending_away(&self) -> bool {
        self.balance.sending.is_some()
    }

    /// Looks at the spread of viewers; called once a second.
    pub(super) fn balance_viewers(&mut self) {
        let now = self.now.at;
        self.note_serving_nodes();
        let is_quiet = self.presence.is_connected && !self.presence.is_draining();
        let calm_since = self.balance.changed.map(|at| at + CALM);
        let (Some(arrival), Some(calm_since)) = (self.balance.arrival, calm_since) else {
            return;
        };
        if !is_quiet || now < calm_since {
            self.balance.sending = None;
            return;
        }
        if self.balance.sending.is_none() {
            self.balance.sending = self.excess(arrival);
        }
        let too_many = |goal| self.load.viewers.saturating_sub(goal).min(arrival.movable);
        match self.balance.sending {
            Some(Sending { since, goal }) if too_many(goal) > 0 && now < since + SENDS_FOR => {
                let count = too_many(goal).div_ceil(STEPS).min(STEP_MAX);
                let movable = arrival.movable - count;
                self.balance.arrival = Some(Arrival { movable, ..arrival });
                self.events.push_back(Event::SendAway {
                    count,
                    came_before: arrival.at,
                });
            }
            None if now < calm_since + COUNTED_FOR => {}
            _ => (self.balance.sending, self.balance.arrival) = (None, None),
        }
    }

    /// Notices nodes that begin or end to serve.
    fn note_serving_nodes(&mut self) {
        let now = self.now.at;
        let peers = self.peers.iter().filter(|(_, it)| it.is_serving());
        let serving: Vec<_> = peers.map(|(node, it)| (node.clone(), it.inc)).collect();
        let balance = &mut self.balance;
        if serving != balance.serving {
            if serving.iter().any(|it| !balance.serving.contains(it)) && self.config.rebalances {
                balance.arrival = Some(Arrival {
                    at: now,
                    movable: self.load.viewers,
                });
            }
            balance.changed = Some(now);
            balance.serving = serving;
        }
        let is_any_leaving = self.peers.iter().any(|(_, it)| it.is_draining());
        if is_any_leaving || !self.presence.is_connected {
            balance.changed = Some(now);
        }
    }

    /// The viewers that this node has too many, if they are clearly more than its share, some may move,
    /// and others have room for them.
    fn excess(&self, arrival: Arrival) -> Option<Sending> {
        let own = self.load.viewers;
        let takers = || {
            self.peers
                .iter()
                .map(|(_, it)| it)
                .filter(|it| it.takes_viewers())
        };
        let nodes = u32::try_from(takers().count()).ok()? + 1;
        let mean = takers().fold(own, |sum, it| sum.saturating_add(it.load.viewers)) / nodes;
        let is_clear = own.saturating_sub(mean) >= LEAST && own > mean.saturating_add(mean / 2);
        if nodes == 1 || !is_clear || arrival.movable < LEAST {
            return None;
        }
        let free = |peer: &Peer| {
            mean.saturating_sub(peer.load.viewers)
                .min(peer.load.headroom)
        };
        let room = takers().fold(0, |sum: u32, it| sum.saturating_add(free(it)));
        let goal = mean.saturating_add(mean / 4).max(own.saturating_sub(room));
        (goal < own).then_some(Sending {
            since: self.now.at,
            goal,
        })
    }

    /// Viewers of another node, as its latest beat tells.
    pub(super) fn viewers_of(&self, holder: &Holder) -> u32 {
        let peer = self.peers.get(&holder.node);
        peer.map_or(u32::MAX, |it| it.load.viewers)
    }
}
