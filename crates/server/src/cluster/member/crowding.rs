//! A member that has clearly more than its share of the viewers, after another server has come.

use std::time::Instant;

use glassline_cluster::StreamName as Name;
use tokio::sync::watch;

use super::Member;

/// Viewers that other servers are to serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowding {
    /// Viewers to send away now. More may follow in a second.
    pub(crate) count: usize,
    /// Viewers who came later stay.
    pub(crate) came_before: Instant,
}

impl Member {
    /// Returns what tells which viewers are to be sent away, about once a second while there are any.
    pub(crate) fn crowding(&self) -> watch::Receiver<Option<Crowding>> {
        self.crowding.subscribe()
    }

    /// Notes that a viewer was sent away.
    pub(crate) fn note_moved(&self) {
        self.lock().counts.moved += 1;
    }

    /// Returns whether another server has the stream `name`, too, so that one more viewer there costs no
    /// pull.
    pub(crate) fn is_shared(&self, name: &str) -> bool {
        let Ok(name) = Name::new(name) else {
            return false;
        };
        let core = self.lock();
        let is_own = core.node.owner(&name) == Some(core.node.id());
        !is_own || core.node.children(&name) > 0
    }

    pub(super) fn send_away(&self, count: u32, came_before: Instant) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.crowding
            .send_replace(Some(Crowding { count, came_before }));
    }
}
