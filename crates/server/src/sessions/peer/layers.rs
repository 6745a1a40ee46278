//! The stream that a peer gets, and its layers.

use std::sync::Arc;
use std::time::Instant;

use glassline_egress::webrtc::LayerRequest;
use glassline_hub::{Stream, StreamName};
use glassline_media::TrackLayer;

use super::Peer;
use super::role::Role;

impl Peer {
    /// Returns the name of the stream under which lists have the peer.
    pub(in crate::sessions) fn listed_name(&self) -> &StreamName {
        match &self.role {
            Role::Viewer(viewer) => viewer.listed_under(&self.stream),
            _ => self.stream.name(),
        }
    }

    /// Makes a viewer one of another stream, which [`start_anew`](Self::start_anew) begins once the shard
    /// reads it. Returns false, and changes nothing, if the peer is no connected viewer, or the stream does
    /// not suit its session.
    pub(in crate::sessions) fn go_over(&mut self, to: &Arc<Stream>, now: Instant) -> bool {
        let is_joined = self.is_joined();
        let Role::Viewer(viewer) = &mut self.role else {
            return false;
        };
        if !is_joined || !viewer.go_over(&self.session, &self.stream, to, now) {
            return false;
        }
        tracing::debug!(session = %self.id, from = %self.stream.name(), to = %to.name(), "viewer goes over to another stream");
        self.stream = Arc::clone(to);
        true
    }

    /// Begins with the stream to which the viewer went over.
    pub(in crate::sessions) fn start_anew(&mut self, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.start(&mut self.session, &self.stream, now);
        }
    }

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
            viewer.is_moved |= viewer
                .sender
                .adapt_layers(&mut self.session, &self.stream, now);
        }
    }

    /// Takes the request of a viewer for a layer of its video.
    pub(in crate::sessions) fn request_layer(&mut self, request: LayerRequest, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.request_layer(request, now);
        }
    }

    /// Returns the layer that the peer should get from now on, if that is another one than before. Once
    /// the layer is read, [`choose_layers`](Self::choose_layers) moves the peer.
    pub(in crate::sessions) fn take_wanted_layer(&mut self) -> Option<TrackLayer> {
        let Role::Viewer(viewer) = &mut self.role else {
            return None;
        };
        let is_moved = std::mem::take(&mut viewer.is_moved);
        self.wanted_layer().filter(|_| is_moved)
    }

    /// Returns the layer that the peer's path or its request calls for, if there is one.
    pub(in crate::sessions) fn wanted_layer(&self) -> Option<TrackLayer> {
        match &self.role {
            Role::Viewer(viewer) => viewer.sender.wanted(&self.stream),
            _ => None,
        }
    }

    /// Chooses the layers that the peer gets, because the stream prefers others than before.
    pub(in crate::sessions) fn choose_layers(&mut self, now: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.choose(&self.session, &self.stream, now);
            viewer.sender.adapt(&mut self.session, &self.stream, now);
        }
    }
}
