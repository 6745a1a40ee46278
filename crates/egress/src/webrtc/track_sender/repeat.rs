//! Packets that have just left, to be sent once more where the path is to be probed: they repair what was
//! lost of them, while padding is of no use to anybody.

use std::sync::Arc;

use glassline_media::MediaUnit;

use super::legs::LegNumber;

/// Least payload of a packet that is repeated, in bytes; of smaller ones a probe would need very many.
const PAYLOAD_MIN: usize = 400;

/// The unit that left last, kept while its packets may probe the path.
#[derive(Debug, Default)]
pub(super) struct LastLeft {
    is_kept: bool,
    unit: Option<Repeatable>,
}

impl LastLeft {
    /// States whether units that leave are kept.
    pub(super) fn keep(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
        if !is_kept {
            self.unit = None;
        }
    }

    /// Notes that the last packet of a unit left under the sequence number in front of `end`.
    pub(super) fn note(&mut self, unit: &Arc<MediaUnit>, leg: LegNumber, end: u64) {
        if self.is_kept {
            let left = Repeatable::of(unit, leg, end);
            self.unit = left.or(self.unit.take());
        }
    }

    pub(super) const fn unit(&mut self) -> Option<&mut Repeatable> {
        self.unit.as_mut()
    }
}

/// A unit of which all packets have left.
#[derive(Debug)]
pub(crate) struct Repeatable {
    pub(crate) unit: Arc<MediaUnit>,
    pub(crate) leg: LegNumber,
    /// Extended sequence number under which the first packet left.
    first: u64,
    /// Index of the packet that is repeated next.
    next: usize,
}

impl Repeatable {
    /// Returns the unit whose last packet left under the sequence number in front of `end`; `None` if its
    /// packets are too small.
    pub(super) fn of(unit: &Arc<MediaUnit>, leg: LegNumber, end: u64) -> Option<Self> {
        let first = end.checked_sub(unit.packet_count() as u64)?;
        let is_large = unit.payload(0)?.len() >= PAYLOAD_MIN;
        is_large.then(|| Self {
            unit: Arc::clone(unit),
            leg,
            first,
            next: 0,
        })
    }

    /// Returns the index of the packet that is repeated now, and its sequence number: one packet after the
    /// other, and then from the first one on.
    pub(crate) fn step(&mut self) -> (usize, u64) {
        let index = self.next;
        self.next = (index + 1) % self.unit.packet_count().max(1);
        (index, self.first + index as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    fn unit(bytes: usize) -> Arc<MediaUnit> {
        let mut builder = UnitBuilder::default();
        builder.push(&vec![1; bytes]);
        builder.push(&[2; 10]);
        let (time, stamps) = (MediaTime::from_nanos(0), Stamps::arrived(Instant::now()));
        let unit = builder.build(TrackIndex(0), time, false, stamps);
        Arc::new(unit.expect("packets"))
    }

    #[test]
    fn packets_are_repeated_in_turn_under_their_numbers() {
        let leg = LegNumber::default();
        let mut large = Repeatable::of(&unit(1_000), leg, 70).expect("large");
        let steps: Vec<_> = (0..3).map(|_| large.step()).collect();
        assert_eq!(steps, [(0, 68), (1, 69), (0, 68)]);
        assert!(Repeatable::of(&unit(100), leg, 70).is_none());
        assert!(Repeatable::of(&unit(1_000), leg, 1).is_none());
    }
}
