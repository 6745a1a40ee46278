//! What the data channels of a session lead to.

use glassline_hub::{Stream, StreamName};

use crate::messages::{Bounds, Side};
use crate::rooms::{ParticipantId, RoomName};

/// What data channels beside streams are for, where they are on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPolicy {
    /// What one session may make the server keep and do.
    pub(crate) bounds: Bounds,
    /// Viewers may send to the publisher, too.
    pub(crate) viewers_send: bool,
}

/// Whom a session's data channels lead to, and how.
#[derive(Debug)]
pub(crate) struct DataChannelSetup {
    /// Of the broker.
    pub(super) name: StreamName,
    pub(super) side: Side,
    /// What it says is passed on.
    pub(super) speaks: bool,
    pub(super) bounds: Bounds,
}

impl DataChannelSetup {
    /// Messages beside `stream`, of a session on this `side`.
    pub(super) fn beside(stream: &Stream, side: Side, policy: &DataPolicy) -> Self {
        Self {
            name: stream.name().clone(),
            side,
            speaks: side == Side::Publisher || policy.viewers_send,
            bounds: policy.bounds,
        }
    }

    /// Messages between two participants of `room`, of a session in which `listener` hears
    /// `speaker`: what either says here the other is told where it hears this one.
    pub(crate) fn between(
        room: &RoomName,
        listener: &ParticipantId,
        speaker: &ParticipantId,
    ) -> Self {
        let is_first = listener.as_str() < speaker.as_str();
        Self {
            name: room.pair(listener, speaker),
            side: if is_first { Side::First } else { Side::Second },
            speaks: true,
            bounds: Bounds::PAIR,
        }
    }
}
