//! What a peer is here for.

use super::data_publisher::DataPublisher;
use super::participant::Participant;
use super::viewer::Viewer;

/// What a peer is here for, and what only that needs.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are viewers, and a pointer to follow would cost each frame a cache line"
)]
pub(crate) enum Role {
    /// It is sent a stream.
    Viewer(Viewer),
    /// It speaks in a room.
    Participant(Participant),
    /// It publishes messages beside a stream.
    DataPublisher(DataPublisher),
}

impl Role {
    /// As logs have it.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Viewer(_) => "viewer",
            Self::Participant(_) => "participant",
            Self::DataPublisher(_) => "publisher of messages",
        }
    }
}
