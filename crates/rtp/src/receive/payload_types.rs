/// Packets in a row of an undescribed type after which a source is taken to have described another
/// type than it sends: a few frames.
const MISTAKEN_PACKETS: u32 = 32;

/// The payload types with which a track's media comes. Packets of other types are metadata, or repair
/// what nobody asked to be repaired.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PayloadTypes {
    /// A bit for each type in the description; none where any type is media.
    described: u128,
    /// The type of the latest packet that was media.
    latest: Option<u8>,
    /// Whether a packet of the described types has come.
    is_proven: bool,
    /// An undescribed type, and the number of its packets in a row, while no other came.
    other: (u8, u32),
}

impl PayloadTypes {
    pub(super) fn of(types: impl IntoIterator<Item = u8>) -> Self {
        let bits = types.into_iter().map(|it| 1 << (it & 0x7f));
        Self {
            described: bits.fold(0, |all, bit: u128| all | bit),
            ..Self::default()
        }
    }

    /// Returns whether a packet of this type is media.
    pub(super) fn accept(&mut self, payload_type: u8) -> bool {
        if self.latest == Some(payload_type) {
            return true;
        }
        let is_media = self.accept_another(payload_type);
        if is_media {
            self.latest = Some(payload_type);
        }
        is_media
    }

    #[cold]
    fn accept_another(&mut self, payload_type: u8) -> bool {
        if self.is_described(payload_type) {
            self.is_proven = true;
            return true;
        }
        if self.is_proven {
            return false;
        }
        let (other, count) = self.other;
        self.other = match other == payload_type {
            true => (other, count.saturating_add(1)),
            false => (payload_type, 1),
        };
        self.other.1 > MISTAKEN_PACKETS
    }

    pub(super) const fn is_described(&self, payload_type: u8) -> bool {
        self.described == 0 || self.described >> (payload_type & 0x7f) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_not_described_are_no_media() {
        let mut types = PayloadTypes::of([96, 127]);
        assert!(!types.accept(98) && types.accept(96) && types.accept(127));
        assert!(
            (0..1000).all(|_| !types.accept(98)),
            "the described one came"
        );
        assert!(PayloadTypes::default().accept(98), "nothing is described");
    }

    #[test]
    fn a_source_that_sends_another_type_than_it_describes_is_received() {
        let mut types = PayloadTypes::of([96]);
        let refused = (0..100).filter(|_| !types.accept(97)).count();
        assert_eq!(refused, MISTAKEN_PACKETS as usize);
        assert!(
            types.accept(96) && !types.accept(97),
            "the described one is meant"
        );
        let mut types = PayloadTypes::of([96]);
        assert!(
            (0..200).all(|at| !types.accept(97 + at % 2)),
            "not in a row"
        );
    }
}
