//! The role of a peer: viewer, participant, talker, publisher or publisher of messages.

use glassline_media::TrackLayer;

use super::data_publisher::DataPublisher;
use super::participant::Participant;
use super::publisher::Publisher;
use super::talker::Talker;
use super::viewer::Viewer;

/// The role of a peer, with the state that only this role needs.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are viewers, and a pointer to follow would cost each frame a cache line"
)]
pub(crate) enum Role {
    /// The peer receives a stream.
    Viewer(Viewer),
    /// The peer sends its voice to a room.
    Participant(Participant),
    /// The peer talks to the camera of the stream.
    Talker(Talker),
    /// The peer publishes a stream.
    Publisher(Publisher),
    /// The peer publishes messages next to a stream.
    DataPublisher(DataPublisher),
}

impl Role {
    /// Returns the layers of the stream that the peer gets.
    pub(super) fn layers(&self) -> Vec<TrackLayer> {
        match self {
            Self::Viewer(viewer) => viewer.sender.layers().collect(),
            Self::Participant(_)
            | Self::Talker(_)
            | Self::Publisher(_)
            | Self::DataPublisher(_) => Vec::new(),
        }
    }

    /// Returns the role's name for logs.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Viewer(_) => "viewer",
            Self::Participant(_) => "participant",
            Self::Talker(_) => "talker",
            Self::Publisher(_) => "publisher",
            Self::DataPublisher(_) => "publisher of messages",
        }
    }
}
