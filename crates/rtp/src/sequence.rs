/// Widens RTP sequence numbers to 64 bits that never wrap.
///
/// The low 16 bits stay those of the wire. Each number is taken for the one
/// nearest to the highest seen so far, so up to 32,767 lost packets in a row
/// and as much reordering are told apart. This and [`TimestampExtender`] are
/// the only places where wrapped numbers are compared.
#[derive(Clone, Copy, Debug)]
pub struct SequenceExtender {
    highest: Option<u64>,
    first_cycle: u64,
}

impl Default for SequenceExtender {
    fn default() -> Self {
        Self::new()
    }
}

impl SequenceExtender {
    /// Nothing seen yet. The first number comes out as 65,536 + itself, so that
    /// packets sent before the first one received still have a number.
    pub const fn new() -> Self {
        Self::from_cycle(1)
    }

    /// Nothing seen yet; the first number comes out in wrap cycle `cycle`
    /// (0 where the cycle must agree with the peer, like SRTP's rollover counter).
    pub const fn from_cycle(cycle: u64) -> Self {
        Self {
            highest: None,
            first_cycle: cycle,
        }
    }

    /// The wide number, remembered if it is the highest yet.
    pub fn extend(&mut self, sequence: u16) -> u64 {
        let wide = self.peek(sequence);
        self.highest = Some(self.highest.map_or(wide, |highest| highest.max(wide)));
        wide
    }

    /// The wide number, without remembering it (for a packet not yet authenticated).
    pub fn peek(&self, sequence: u16) -> u64 {
        match self.highest {
            Some(highest) => Self::near(highest, sequence),
            None => self.first_cycle << 16 | u64::from(sequence),
        }
    }

    /// The highest wide number so far.
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// The number nearest to `reference` whose low 16 bits are `sequence`; the
    /// one above where the nearest would be negative. For numbers that a peer
    /// names in feedback, with what was last sent as `reference`.
    pub fn near(reference: u64, sequence: u16) -> u64 {
        let distance = sequence.wrapping_sub(reference as u16) as i16;
        reference
            .checked_add_signed(i64::from(distance))
            .unwrap_or(u64::from(sequence))
    }
}

/// Widens RTP timestamps to 64 bits that never wrap.
///
/// The first comes out as itself; each is taken for the one nearest to the
/// highest so far, so steps of less than 2³¹ ticks (6.6 h at 90 kHz) either way
/// are told apart. Negative for packets from before the first across a wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimestampExtender {
    highest: Option<i64>,
}

impl TimestampExtender {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { highest: None }
    }

    /// The wide timestamp, remembered if it is the highest yet.
    pub fn extend(&mut self, timestamp: u32) -> i64 {
        let Some(highest) = self.highest else {
            let first = i64::from(timestamp);
            self.highest = Some(first);
            return first;
        };
        let wide = Self::near(highest, timestamp);
        self.highest = Some(highest.max(wide));
        wide
    }

    /// The highest wide timestamp so far.
    pub fn highest(&self) -> Option<i64> {
        self.highest
    }

    /// The timestamp nearest to `reference` whose low 32 bits are `timestamp`.
    pub fn near(reference: i64, timestamp: u32) -> i64 {
        let distance = timestamp.wrapping_sub(reference as u32) as i32;
        reference.saturating_add(i64::from(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_from_before_the_first_across_a_wrap_are_lower() {
        let mut extender = SequenceExtender::new();
        assert_eq!(extender.extend(0), 0x1_0000);
        assert_eq!(extender.extend(0xffff), 0xffff);
        assert_eq!(extender.extend(1), 0x1_0001);
        assert_eq!(extender.highest(), Some(0x1_0001));
    }

    #[test]
    fn below_zero_is_taken_for_the_next_cycle() {
        let mut extender = SequenceExtender::from_cycle(0);
        assert_eq!(extender.extend(3), 3);
        assert_eq!(extender.peek(0xfff0), 0xfff0);
        assert_eq!(SequenceExtender::near(0, 0x8000), 0x8000);
    }

    #[test]
    fn peeking_does_not_move() {
        let mut extender = SequenceExtender::from_cycle(0);
        extender.extend(10);
        assert_eq!(extender.peek(30_000), 30_000);
        assert_eq!(extender.highest(), Some(10));
    }

    proptest! {
        #[test]
        fn a_walk_of_less_than_half_a_cycle_is_followed(
            start in 100_000u64..1 << 40,
            steps in prop::collection::vec(-100i64..30_000, 1..200),
        ) {
            let mut extender = SequenceExtender::from_cycle(start >> 16);
            prop_assert_eq!(extender.extend(start as u16), start);
            let mut at = start;
            for step in steps {
                at = at.saturating_add_signed(step).max(start);
                prop_assert_eq!(extender.extend(at as u16), at);
                // Steps back are taken from the highest.
                at = extender.highest().expect("some were seen");
            }
        }

        #[test]
        fn timestamps_follow_steps_of_less_than_half_a_cycle(
            start: u32,
            steps in prop::collection::vec(-1_000_000_000i64..2_000_000_000, 1..100),
        ) {
            let mut extender = TimestampExtender::new();
            let mut highest = extender.extend(start);
            prop_assert_eq!(highest, i64::from(start));
            for step in steps {
                let at = highest + step;
                prop_assert_eq!(extender.extend(at as u32), at);
                highest = highest.max(at);
                prop_assert_eq!(extender.highest(), Some(highest));
            }
        }
    }
}
