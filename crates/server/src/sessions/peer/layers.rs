//! The layers of the stream that a peer gets.

use std::time::Instant;

use glassline_media::TrackLayer;

use super::Peer;
use super::role::Role;

impl Peer {
    /// Returns the layers of the stream that the peer gets.
    pub(in crate::sessions) fn layers(&self) -> Vec<TrackLayer> {
        self.role.layers()
    }

    /// Returns whether the peer moves to another layer and waits for that layer's keyframe.
    pub(in crate::sessions) fn is_moving(&self) -> bool {
        matches!(&self.role, Role::Viewer(viewer) if viewer.sender.is_moving())
    }

    /// Chooses the layers that the peer gets, because the stream prefers others than before.
    pub(in crate::sessions) fn choose_layers(&mut self, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.choose(&self.session, &self.stream, now);
        }
    }
}
