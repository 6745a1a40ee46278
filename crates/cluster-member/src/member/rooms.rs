//! Rooms: each one is at one server of the cluster, the first that a participant came to.

use std::sync::Arc;

use glassline_cluster::{Access, NodeId, StreamName as Name, ViewDecision, ViewerId};
use glassline_rooms::{self as rooms, RoomName, RoomShare};
use tokio::sync::oneshot;

use super::redirect::{Elsewhere, Forgotten, PATIENCE};
use super::{Member, moment};

/// A participant's share of a room that this server has, given back when it is dropped.
#[derive(Debug)]
pub struct HeldRoom {
    member: Arc<Member>,
    name: Name,
}

impl RoomShare for HeldRoom {}

/// The reason why a participant does not meet the others here.
#[derive(Clone, Debug)]
pub enum NotHere {
    /// The room is at another server, which the participant can go to.
    At(Elsewhere),
    /// The room is at the server of this name, which has no address that the participant can go to.
    Hidden(String),
    /// It is not known now where the room is; trying again helps.
    Unknown,
}

impl Member {
    /// Enters `room` for a participant that can be redirected as `access` says. A participant whom
    /// another server sent here is not redirected again.
    pub async fn enter_room(
        self: &Arc<Self>,
        room: &RoomName,
        access: Access,
        is_sent: bool,
    ) -> Result<HeldRoom, NotHere> {
        let name = Name::new(&room.claimed()).map_err(|_| NotHere::Unknown)?;
        let (answer, decision) = oneshot::channel();
        let (held, viewer) = self.with_core(|core, now| {
            let viewer = core.viewer();
            *core.rooms.entry(name.clone()).or_default() += 1;
            core.placing.insert(viewer, answer);
            core.node.enter_room(now, viewer, &name);
            let member = Arc::clone(self);
            (HeldRoom { member, name }, viewer)
        });
        let _forgotten = Forgotten {
            member: self,
            viewer,
        };
        let decision = tokio::time::timeout(PATIENCE, decision).await;
        let (node, http) = match decision {
            Ok(Ok(ViewDecision::Here)) => return Ok(held),
            Ok(Ok(ViewDecision::Redirect { node, http, .. })) => (node, http),
            _ => return Err(NotHere::Unknown),
        };
        match access.base(http.as_deref(), None) {
            Some(base) if !is_sent => Err(NotHere::At(Elsewhere {
                base: base.to_owned(),
            })),
            Some(_) => Err(NotHere::Unknown),
            None => Err(NotHere::Hidden(node.to_string())),
        }
    }

    /// Hands the decision about one participant on.
    pub(super) fn on_room(&self, viewer: ViewerId, name: &Name, decision: ViewDecision) {
        let mut core = self.core.lock();
        let answer = core.placing.remove(&viewer);
        let is_here = decision == ViewDecision::Here;
        let is_taken = answer.is_some_and(|answer| answer.send(decision).is_ok());
        if is_here && !is_taken && !core.rooms.contains_key(name) {
            // Everybody who asked has left meanwhile.
            core.node.leave_room(moment(), name);
        }
    }

    /// Notes that another server has a room of this one now.
    pub(super) fn on_room_moved(&self, name: &Name, to: &NodeId) {
        let Some(room) = rooms::claimed_room(name.as_str()) else {
            return;
        };
        tracing::warn!(room, %to, "another server has the room now: its participants here have to join again");
        self.core.lock().moved_rooms.push(room.to_owned());
    }

    /// Returns the rooms that other servers took over since the last call, whose participants here are
    /// to be put out.
    pub fn take_moved_rooms(&self) -> Vec<String> {
        std::mem::take(&mut self.core.lock().moved_rooms)
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        let name = &self.name;
        self.member.with_core(|core, now| {
            let Some(shares) = core.rooms.get_mut(name) else {
                return;
            };
            *shares -= 1;
            if *shares == 0 {
                core.rooms.remove(name);
                core.node.leave_room(now, name);
            }
        });
    }
}
