//! The layers of the stream that a peer gets.

use std::time::Instant;

use glassline_egress::webrtc::LayerRequest;
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

    /// Takes what the latest transport feedback says of the layer that the peer should get.
    pub(super) fn adapt_layers(&mut self, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.is_moved |= viewer.sender.adapt_layers(&self.session, &self.stream, now);
        }
    }

    /// Takes the request of a viewer for a layer of its video.
    pub(in crate::sessions) fn request_layer(&mut self, request: LayerRequest, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.is_moved |= viewer.sender.set_request(request, now);
        }
    }

    /// Returns the layer that the peer should get from now on, if that is another one than before. Once
    /// the layer is read, [`choose_layers`](Self::choose_layers) moves the peer.
    pub(in crate::sessions) fn take_wanted_layer(&mut self) -> Option<TrackLayer> {
        let Role::Viewer(viewer) = &mut self.role else {
            return None;
        };
        let is_moved = std::mem::take(&mut viewer.is_moved);
        viewer.sender.wanted().filter(|_| is_moved)
    }

    /// Chooses the layers that the peer gets, because the stream prefers others than before.
    pub(in crate::sessions) fn choose_layers(&mut self, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.choose(&self.session, &self.stream, now);
            viewer.sender.adapt(&mut self.session, &self.stream, now);
        }
    }
}
