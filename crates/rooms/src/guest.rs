//! Names of participants that gave none.

use super::Participant;

/// Returns the name that a newcomer has for the `people` of its room: the one that it gave, or that of
/// the first guest that is not there.
pub(super) fn name_for(given: &str, people: &[Participant]) -> Box<str> {
    if !given.is_empty() {
        return given.into();
    }
    let is_free = |name: &String| people.iter().all(|it| *it.name != **name);
    let guests = (1_usize..).map(|number| format!("Guest {number}"));
    let free = guests.take(people.len() + 1).find(is_free);
    free.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glassline_runtime::SessionId;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::ParticipantId;

    fn people(names: &[&str]) -> Vec<Participant> {
        let person = |name: &&str| Participant {
            id: ParticipantId::new([0; 6]),
            name: (*name).into(),
            user: None,
            session: SessionId::new("session"),
            waits: Arc::new(Semaphore::new(1)),
        };
        names.iter().map(person).collect()
    }

    #[test]
    fn guests_are_numbered_and_a_number_that_is_free_is_given_again() {
        for (given, here, name) in [
            ("", &[][..], "Guest 1"),
            ("", &["Ann"], "Guest 1"),
            ("", &["Guest 1", "Guest 2"], "Guest 3"),
            ("", &["Guest 2"], "Guest 1"),
            ("Ann", &["Ann"], "Ann"),
        ] {
            assert_eq!(&*name_for(given, &people(here)), name, "{here:?}");
        }
    }
}
