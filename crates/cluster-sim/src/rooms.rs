//! Participants of rooms: whom each node lets in, and where those go that it sends away.

use std::time::Duration;

use super::{Happening, World};
use glassline_cluster::ViewDecision;
use glassline_cluster::ViewerId;
use glassline_cluster::name::{Key, NodeId, StreamName};
use glassline_cluster::record::StreamRecord;

/// Time after which a participant who got no place tries again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Time on the way to another node.
const ON_THE_WAY: Duration = Duration::from_millis(30);

impl World {
    /// A participant comes to a node. One who finds no process there goes to another one.
    pub fn enter_room(&mut self, index: usize, name: &StreamName) {
        let moment = self.moment(index);
        self.next_viewer += 1;
        let id = ViewerId(self.next_viewer);
        if !self.is_up(index) {
            return self.enter_anywhere(name.clone(), TRY_AGAIN);
        }
        if let Some(node) = self.processes[index].node.as_mut() {
            node.enter_room(moment, id, name);
            self.settle(index);
        }
    }

    /// All participants who are at a node leave a room.
    pub fn leave_room(&mut self, index: usize, name: &StreamName) {
        if !self.is_up(index) || self.processes[index].rooms.remove(name).is_none() {
            return;
        }
        let moment = self.moment(index);
        if let Some(node) = self.processes[index].node.as_mut() {
            node.leave_room(moment, name);
            self.settle(index);
        }
    }

    /// Returns the number of participants that a node has in a room.
    pub fn participants(&self, index: usize, name: &StreamName) -> u32 {
        self.processes[index].rooms.get(name).copied().unwrap_or(0)
    }

    /// Returns the nodes that have participants of a room.
    pub fn room_at(&self, name: &StreamName) -> Vec<usize> {
        let processes = self.processes.iter().enumerate();
        let present = processes.filter(|(_, it)| it.rooms.contains_key(name));
        present.map(|(index, _)| index).collect()
    }

    fn enter_anywhere(&mut self, name: StreamName, after: Duration) {
        let count = self.processes.len() as u64;
        let index = usize::try_from(self.rng.below(count)).unwrap_or(0);
        self.schedule_in(after, Happening::Participant(index, name));
    }

    pub(super) fn room_decided(&mut self, index: usize, name: StreamName, decision: ViewDecision) {
        match decision {
            ViewDecision::Here => *self.processes[index].rooms.entry(name).or_default() += 1,
            ViewDecision::Redirect { node, .. } => {
                let to = self.index.get(&node).copied().unwrap_or(index);
                self.schedule_in(ON_THE_WAY, Happening::Participant(to, name));
            }
            ViewDecision::Unavailable => self.enter_anywhere(name, TRY_AGAIN),
            ViewDecision::NotFound => {
                let seen =
                    format!("{name} at node {index}: no room, though no stream has its name");
                self.history.break_rule(self.clock.now(), &seen);
            }
        }
    }

    /// The participants of a room at a node enter again where the room is now.
    pub(super) fn room_moved(&mut self, index: usize, name: &StreamName, to: &NodeId) {
        let participants = self.processes[index].rooms.remove(name).unwrap_or(0);
        let to = self.index.get(to).copied().unwrap_or(index);
        for _ in 0..participants {
            self.schedule_in(ON_THE_WAY, Happening::Participant(to, name.clone()));
        }
    }

    /// A process is gone, or lets nobody stay: its participants enter elsewhere.
    pub(super) fn rooms_end(&mut self, index: usize) {
        for (name, participants) in std::mem::take(&mut self.processes[index].rooms) {
            for _ in 0..participants {
                self.enter_anywhere(name.clone(), TRY_AGAIN);
            }
        }
    }

    /// The fault of a room once all disturbances have ended: its participants must be at one node,
    /// which the record names.
    pub fn unrest_of_room(&self, name: &StreamName) -> Option<String> {
        let present = self.room_at(name);
        let entry = self.memory.value(&Key::Stream(name.clone()));
        let record = entry.and_then(|it| StreamRecord::parse(&it.value).ok());
        let owner = record.and_then(|it| self.index.get(&it.node).copied());
        let is_whole = present.is_empty() || (present.len() == 1 && owner == Some(present[0]));
        let nodes = self.processes.iter().filter_map(|it| it.node.as_ref());
        let states = || nodes.map(|it| it.explain(name)).collect::<Vec<_>>();
        (!is_whole).then(|| {
            format!(
                "{name}: at nodes {present:?}, the record names {owner:?}: {:#?}",
                states()
            )
        })
    }
}
