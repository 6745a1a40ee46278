//! A member that has clearly more than its share of the viewers, after another server has come.

use std::time::Instant;

use glassline_cluster::StreamName as Name;
use tokio::sync::watch;

use super::Member;

/// Viewers that other servers are to serve.
#[derive(Clone, Copy, Debug)]
pub struct Crowding {
    /// Viewers to send away now. More may follow in a second.
    pub count: usize,
    /// Viewers who came later stay.
    pub came_before: Instant,
}

impl Member {
    /// Returns what tells which viewers are to be sent away, about once a second while there are any.
    pub fn crowding(&self) -> watch::Receiver<Option<Crowding>> {
        self.crowding.subscribe()
    }

    /// Notes that a viewer was sent away.
    pub fn note_moved(&self) {
        self.core.lock().counts.moved += 1;
    }

    /// Returns whether another server has the stream `name`, too, so that one more viewer there costs no
    /// pull.
    pub fn is_shared(&self, name: &str) -> bool {
        let Ok(name) = Name::new(name) else {
            return false;
        };
        let core = self.core.lock();
        let is_own = core.node.owner(&name) == Some(core.node.id());
        !is_own || core.node.children(&name) > 0
    }

    /// Orders that `count` of the viewers that came before `came_before` leave.
    pub fn send_away(&self, count: u32, came_before: Instant) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.crowding
            .send_replace(Some(Crowding { count, came_before }));
    }
}
