//! The codings of a track's units.

use crate::container::coding::Coding;

/// The codings of a track's units, in decoding order: one, or several that change between units.
pub(crate) struct Codings {
    all: Vec<Coding>,
    current: usize,
    /// Places of the units from which on another coding holds, ascending, each with the coding's.
    changes: Vec<(u32, usize)>,
}

impl Codings {
    pub(super) const fn new(first: Vec<Coding>) -> Self {
        Self {
            all: first,
            current: 0,
            changes: Vec::new(),
        }
    }

    /// Adds a coding, and returns its place.
    pub(super) fn add(&mut self, coding: Coding) -> usize {
        self.all.push(coding);
        self.all.len() - 1
    }

    /// Lets the coding at place `coding` hold from the unit at place `unit` on. Returns false if that
    /// coding holds already.
    pub(super) fn change(&mut self, coding: usize, unit: u32) -> bool {
        if coding == self.current {
            return false;
        }
        self.current = coding;
        self.changes.push((unit, coding));
        true
    }

    /// Returns the coding of the next unit.
    pub(crate) fn current(&self) -> &Coding {
        &self.all[self.current]
    }

    pub(super) fn current_mut(&mut self) -> &mut Coding {
        &mut self.all[self.current]
    }

    /// Returns the coding of the unit at `place`.
    pub(crate) fn of(&self, place: usize) -> &Coding {
        let after = self
            .changes
            .partition_point(|&(unit, _)| unit as usize <= place);
        let change = after.checked_sub(1).map(|before| self.changes[before]);
        &self.all[change.map_or(0, |(_, coding)| coding)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coding_holds_until_the_next_change() {
        let plain = |byte| Coding::Plain(vec![byte]);
        let mut codings = Codings::new(vec![plain(0)]);
        assert_eq!(codings.add(plain(1)), 1);
        assert!(!codings.change(0, 0) && codings.change(1, 2));
        assert!(!codings.change(1, 3) && codings.change(0, 5));
        let first_byte = |place| match codings.of(place) {
            Coding::Plain(bytes) => bytes[0],
            _ => unreachable!("all are plain"),
        };
        assert_eq!([0, 1, 2, 4, 5, 9].map(first_byte), [0, 0, 1, 1, 0, 0]);
    }
}
