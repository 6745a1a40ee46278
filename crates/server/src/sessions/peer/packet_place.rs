//! The place of a media packet among those of its session.

use glassline_webrtc::{LayerIndex, ReceiverIndex};

/// The receiver and the layer that a media packet is for, and its extended sequence number there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketPlace {
    pub(crate) receiver: ReceiverIndex,
    pub(crate) layer: LayerIndex,
    pub(crate) sequence: u64,
}
