//! Records about the other participants of a room, for tables of their stages.

use super::{Ssrc, far};

/// A record about another participant of a room.
#[derive(Clone, Debug, PartialEq)]
pub enum RoomRecord {
    /// The participant joined.
    Joined {
        /// Id of the participant.
        id: String,
        /// Name for people.
        name: String,
    },
    /// The participant left.
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
