//! Records about the other participants of a room, for tables of their stages.

use super::{Ssrc, far};

/// A record about another participant of a room.
#[derive(Clone, Debug, PartialEq)]
pub enum RoomRecord {
    /// A participant joined the room.
    Joined {
        /// Id of the participant.
        id: String,
        /// Name of the participant, for people to read.
        name: String,
    },
    /// A participant left the room.
    Left {
        /// Id of the participant.
        id: String,
    },
    /// The participant is received under this SSRC, in addition to earlier ones.
    Voice {
        /// Id of the participant.
        id: String,
        /// SSRC of the voice.
        voice: Ssrc,
    },
    /// The participant's end sent a record of its stages.
    Remote {
        /// Id of the participant.
        id: String,
        /// The record, converted to our clock.
        remote: far::RemoteRecord,
    },
    /// State of the exchange of stamps when the participant's leg ended.
    Far {
        /// Id of the participant.
        id: String,
        /// State of the exchange; `None` if there was no channel for it.
        report: Option<far::Report>,
    },
}
