//! The rooms as operators see them.

use std::sync::Arc;

use super::{Listing, RoomName, Rooms};

impl Rooms {
    /// Returns the rooms with participants, and those participants, in the order of the rooms' names:
    /// `rooms_max` rooms at most.
    pub fn listed(&self, rooms_max: usize) -> Vec<(RoomName, Arc<Listing>)> {
        let inner = self.inner.lock();
        let mut names: Vec<&RoomName> = inner.rooms.keys().collect();
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        names.truncate(rooms_max);
        let listed = names.into_iter().map(|name| {
            let listing = Arc::clone(&inner.rooms[name].borrow());
            (name.clone(), listing)
        });
        listed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Newcomer, ParticipantId};
    use glassline_runtime::SessionId;

    #[test]
    fn rooms_are_listed_by_name_up_to_a_bound() {
        let rooms = Arc::new(Rooms::new(Bounds {
            rooms: 10,
            participants: 10,
        }));
        let enter = |room: &str, name, byte| {
            let room = RoomName::parse(room).expect("good");
            let newcomer = Newcomer {
                id: ParticipantId::new([byte; 6]),
                name,
                user: None,
                share: None,
            };
            rooms
                .enter(&room, newcomer, SessionId::new(name))
                .expect("a place")
        };
        let _here = [
            enter("b", "ann", 3),
            enter("a", "bob", 1),
            enter("b", "cleo", 2),
        ];
        let listed = rooms.listed(1);
        assert_eq!((listed.len(), &*listed[0].0.0), (1, "a"));
        let listed = rooms.listed(10);
        let people = listed[1].1.people.iter().map(|it| &*it.name);
        assert_eq!(people.collect::<Vec<_>>(), ["ann", "cleo"]);
    }
}
