//! Viewers who go elsewhere when their node asks for that, or is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Happening, World};
use glassline_cluster::{Access, StreamName, ViewerId};

/// Time until a viewer asks again.
const AGAIN: Duration = Duration::from_millis(200);

/// How a viewer asks for a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// How it asks now: a viewer that was sent somewhere is served there.
    pub(super) access: Access,
    /// How it asks when it comes anew.
    wish: Access,
    /// The node whose page it has.
    home: usize,
    /// The viewer asks again when its session ends.
    is_of_crowd: bool,
    /// How often a node has sent it away because others had fewer viewers.
    moves: u32,
}

impl Asking {
    pub(super) const fn new(home: usize, access: Access) -> Self {
        Self {
            access,
            wish: access,
            home,
            is_of_crowd: false,
            moves: 0,
        }
    }

    /// The viewer comes to the node that was chosen.
    pub(super) const fn let_in(self) -> Self {
        Self {
            access: Access::Here,
            ..self
        }
    }
}

/// A viewer who is served.
#[derive(Clone, Debug)]
struct Guest {
    name: StreamName,
    came: Instant,
    asking: Asking,
}

/// Viewers who ask again when their session ends.
#[derive(Debug, Default)]
pub struct Crowd {
    /// Whether a balancer leads each of them to any node, and no node of the cluster has an address that
    /// they know.
    pub is_behind_a_balancer: bool,
    /// Viewers who were sent away for the sake of balance.
    pub moved: u32,
    guests: BTreeMap<usize, Vec<Guest>>,
    /// Viewers of nodes that crashed.
    lost: Vec<Guest>,
}

impl Crowd {
    /// Returns the highest number of moves that one viewer has made for the sake of balance.
    pub fn most_moves(&self) -> u32 {
        let guests = self.guests.values().flatten();
        guests.map(|it| it.asking.moves).max().unwrap_or(0)
    }

    /// Notes that the process of a node is gone.
    pub(super) fn lose(&mut self, index: usize) {
        self.lost
            .extend(self.guests.remove(&index).into_iter().flatten());
    }
}

impl World {
    /// A viewer comes to a node.
    pub fn view(&mut self, index: usize, name: &StreamName, access: Access) {
        self.viewer_asks(index, name, Asking::new(index, access));
    }

    /// A viewer of the crowd comes to a node.
    pub fn join_crowd(&mut self, index: usize, name: &StreamName) {
        let access = match self.crowd.is_behind_a_balancer {
            true => Access::Here,
            false => Access::Http,
        };
        let asking = Asking {
            is_of_crowd: true,
            ..Asking::new(index, access)
        };
        self.viewer_asks(index, name, asking);
    }

    /// Sends all viewers of the crowd at a node away, as a drain does.
    pub fn send_crowd_away(&mut self, index: usize) {
        let guests = self.crowd.guests.remove(&index).unwrap_or_default();
        for guest in guests {
            self.guest_leaves(index, &guest);
        }
    }

    /// Lets viewers of nodes that crashed ask again.
    pub fn lost_crowd_returns(&mut self) {
        for Guest { name, asking, .. } in std::mem::take(&mut self.crowd.lost) {
            self.asks_again(&name, asking);
        }
    }

    /// Returns the number of viewers at each node.
    pub fn viewers(&self) -> Vec<u32> {
        self.processes.iter().map(|it| it.viewers).collect()
    }

    pub(super) fn viewer_asks(&mut self, index: usize, name: &StreamName, asking: Asking) {
        if !self.is_up(index) {
            if asking.is_of_crowd {
                self.asks_again(name, asking);
            }
            return;
        }
        let moment = self.moment(index);
        self.next_viewer += 1;
        let id = ViewerId(self.next_viewer);
        self.asking.insert(id, asking);
        if let Some(node) = &mut self.processes[index].node {
            node.view(moment, id, name, asking.access);
            self.settle(index);
        }
    }

    pub(super) fn viewer_arrives(&mut self, index: usize, name: &StreamName, asking: Asking) {
        self.count_viewers(index, name, 1);
        self.processes[index].viewers += 1;
        if asking.is_of_crowd {
            let guest = Guest {
                name: name.clone(),
                came: self.clock.now(),
                asking,
            };
            self.crowd.guests.entry(index).or_default().push(guest);
        }
    }

    /// A viewer of the crowd asks again, a little later.
    pub(super) fn asks_again(&mut self, name: &StreamName, asking: Asking) {
        if !asking.is_of_crowd {
            return;
        }
        let up = |it: &usize| self.is_up(*it);
        let nodes: Vec<usize> = (0..self.processes.len()).filter(up).collect();
        let is_home_open = !self.crowd.is_behind_a_balancer && self.is_up(asking.home);
        let drawn = usize::try_from(self.rng.below(nodes.len().max(1) as u64)).unwrap_or(0);
        let to = match is_home_open {
            true => asking.home,
            false => nodes.get(drawn).copied().unwrap_or(asking.home),
        };
        let asking = Asking {
            access: asking.wish,
            ..asking
        };
        self.schedule_in(AGAIN, Happening::Viewer(to, name.clone(), asking));
    }

    /// Sends viewers away who came before an instant.
    pub(super) fn send_away(&mut self, index: usize, count: u32, came_before: Instant) {
        for _ in 0..count {
            let guests = self.crowd.guests.entry(index).or_default();
            let Some(found) = guests.iter().position(|it| it.came < came_before) else {
                return;
            };
            let mut guest = guests.swap_remove(found);
            guest.asking.moves += 1;
            self.crowd.moved += 1;
            self.guest_leaves(index, &guest);
        }
    }

    fn guest_leaves(&mut self, index: usize, guest: &Guest) {
        let moment = self.moment(index);
        self.processes[index].viewers -= 1;
        self.count_viewers(index, &guest.name, -1);
        if let Some(node) = &mut self.processes[index].node {
            node.viewer_left(moment, &guest.name);
        }
        self.asks_again(&guest.name, guest.asking);
    }
}
