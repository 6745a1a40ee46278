//! The broker that a session's data channels are connected to.

use glassline_hub::{Stream, StreamName};
use glassline_messages::{Bounds, DataPolicy, Side};
use glassline_rooms::{ParticipantId, RoomName};

/// How the data channels of one session are connected to a broker.
#[derive(Debug)]
pub(crate) struct DataChannelSetup {
    /// Name of the broker.
    pub(super) name: StreamName,
    /// The side of the broker that the session is on.
    pub(super) side: Side,
    /// Whether messages from the session are passed on.
    pub(super) may_send: bool,
    /// Limits of the session's channels.
    pub(super) bounds: Bounds,
}

impl DataChannelSetup {
    /// Connects a session on `side` to the messages of `stream`.
    pub(super) fn beside(stream: &Stream, side: Side, policy: &DataPolicy) -> Self {
        Self {
            name: stream.name().clone(),
            side,
            may_send: side == Side::Publisher || policy.viewers_send,
            bounds: policy.bounds,
        }
    }

    /// Connects a session in which `listener` hears `speaker` to the messages between these two
    /// participants of `room`. Each of the two has such a session; what one sends in its session
    /// arrives in the session of the other.
    pub(crate) fn between(
        room: &RoomName,
        listener: &ParticipantId,
        speaker: &ParticipantId,
    ) -> Self {
        let is_first = listener.as_str() < speaker.as_str();
        Self {
            name: room.pair(listener, speaker),
            side: if is_first { Side::First } else { Side::Second },
            may_send: true,
            bounds: Bounds::PAIR,
        }
    }
}
