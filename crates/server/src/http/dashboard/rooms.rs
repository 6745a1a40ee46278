//! The rooms of calls with their participants.

use std::collections::BTreeMap;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use glassline_events::failures::shown;

use super::rounding::significant;
use crate::app::App;

/// Most rooms that are listed, and most participants of each.
const ROOMS_MAX: usize = 40;
const PARTICIPANTS_MAX: usize = 24;

/// Most bytes of a participant's name that are shown.
const NAME_BYTES_MAX: usize = 64;

/// Counts of all rooms, and the first ones by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RoomsNow {
    rooms: usize,
    participants: usize,
    /// The first 40 rooms by name.
    listed: BTreeMap<String, RoomRow>,
}

/// A room with participants.
#[derive(Debug, Serialize, JsonSchema)]
struct RoomRow {
    /// Number of participants, listed or not.
    count: usize,
    /// The first 24 participants by their identifiers.
    participants: BTreeMap<String, ParticipantRow>,
}

/// A participant of a room.
#[derive(Debug, Serialize, JsonSchema)]
struct ParticipantRow {
    /// Name that the participant gave; it may be empty.
    name: String,
    /// User whose right to join the participant used.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// `live` while the participant's voice comes, else `hangs` or `waiting`.
    status: &'static str,
    bitrate_bps: u64,
}

/// Returns the rooms at `now`.
pub(super) fn of(app: &App, now: Instant) -> RoomsNow {
    let (rooms, participants) = app.rooms.counts();
    let listed = app.rooms.listed(ROOMS_MAX).into_iter();
    let listed = listed.map(|(room, voices)| {
        let first = voices.people.iter().take(PARTICIPANTS_MAX);
        let participants = first.map(|it| {
            let voice = app.hub.stream(room.stream(&it.id).as_str());
            let row = ParticipantRow {
                name: shown(&it.name, NAME_BYTES_MAX).into(),
                user: it.user.as_deref().map(str::to_owned),
                status: voice
                    .as_ref()
                    .map_or("waiting", |it| it.status(now).as_str()),
                bitrate_bps: voice.map_or(0, |it| significant(it.bitrate(now).bps())),
            };
            (it.id.as_str().to_owned(), row)
        });
        let row = RoomRow {
            count: voices.people.len(),
            participants: participants.collect(),
        };
        (room.to_string(), row)
    });
    RoomsNow {
        rooms,
        participants,
        listed: listed.collect(),
    }
}
