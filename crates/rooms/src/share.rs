//! What keeps a room at this server of a cluster.

use std::fmt;

/// A participant's share of the right of this server to a room, given back when it is dropped.
pub trait RoomShare: fmt::Debug + Send + Sync {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Bounds, Newcomer, ParticipantId, RoomName, Rooms, claimed_room};
    use super::*;
    use glassline_runtime::SessionId;

    #[derive(Debug)]
    struct Counted {
        _held: Arc<()>,
    }

    impl RoomShare for Counted {}

    #[test]
    fn a_participant_keeps_its_share_of_the_room_until_it_has_left() {
        let rooms = Arc::new(Rooms::new(Bounds {
            rooms: 1,
            participants: 2,
        }));
        let share = Arc::new(());
        let newcomer = Newcomer {
            id: ParticipantId::new([1; 6]),
            name: "",
            user: None,
            share: Some(Box::new(Counted {
                _held: Arc::clone(&share),
            })),
        };
        let room = RoomName::parse("a").expect("a good name");
        let session = SessionId::new("a.1");
        let membership = rooms.enter(&room, newcomer, session.clone());
        assert_eq!(Arc::strong_count(&share), 2);
        assert_eq!(rooms.sessions_of("a"), [session]);
        assert!(rooms.sessions_of("b").is_empty());
        drop(membership);
        assert_eq!(Arc::strong_count(&share), 1);
        assert_eq!(claimed_room(&room.claimed()), Some("a"));
    }
}
