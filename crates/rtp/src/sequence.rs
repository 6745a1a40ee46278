/// Extends RTP sequence numbers to 64 bits, so that they no longer wrap.
///
/// The low 16 bits remain those of the wire. Each number is taken to be the one nearest to the
/// highest number so far, so up to 32,767 consecutive losses, and as much reordering, are
/// recognized. Only this type and [`TimestampExtender`] compare numbers that wrap.
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
    /// Creates an extender without a first number. The first number is extended to 65,536 plus
    /// itself, so that packets which were sent before it still get a number above zero.
    pub const fn new() -> Self {
        Self::from_cycle(1)
    }

    /// Creates an extender whose first number is in wrap cycle `cycle`: 0 where the cycle must
    /// agree with the peer, as SRTP's rollover counter must.
    pub const fn from_cycle(cycle: u64) -> Self {
        Self {
            highest: None,
            first_cycle: cycle,
        }
    }

    /// Returns the extended number, and remembers it if it is the highest so far.
    pub fn extend(&mut self, sequence: u16) -> u64 {
        let wide = self.peek(sequence);
        self.highest = Some(self.highest.map_or(wide, |highest| highest.max(wide)));
        wide
    }

    /// Returns the extended number without remembering it, for a packet that is not
    /// authenticated yet.
    pub fn peek(&self, sequence: u16) -> u64 {
        match self.highest {
            Some(highest) => Self::near(highest, sequence),
            None => self.first_cycle << 16 | u64::from(sequence),
        }
    }

    /// Returns the distance of the number from the highest so far; zero before the first.
    pub fn ahead(&self, sequence: u16) -> i16 {
        let distance = |highest: u64| sequence.wrapping_sub(highest as u16) as i16;
        self.highest.map_or(0, distance)
    }

    /// Returns the highest extended number so far.
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns the number nearest to `reference` whose low 16 bits are `sequence`; if that
    /// would be negative, the one above. Used for numbers in a peer's feedback, with the number
    /// that was sent last as `reference`.
    pub fn near(reference: u64, sequence: u16) -> u64 {
        let distance = sequence.wrapping_sub(reference as u16) as i16;
        reference
            .checked_add_signed(i64::from(distance))
            .unwrap_or(u64::from(sequence))
    }
}

/// Extends RTP timestamps to 64 bits, so that they no longer wrap.
///
/// The first timestamp keeps its value. Each further timestamp is taken to be the one nearest
/// to the highest so far, so steps below 2³¹ ticks (6.6 h at 90 kHz) in both directions are
/// recognized. Packets from before the first may get negative timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimestampExtender {
    highest: Option<i64>,
}

impl TimestampExtender {
    /// Creates an extender without a first timestamp.
    pub const fn new() -> Self {
        Self { highest: None }
    }

    /// Returns the extended timestamp, and remembers it if it is the highest so far.
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

    /// Returns the highest extended timestamp so far.
    pub fn highest(&self) -> Option<i64> {
        self.highest
    }

    /// Returns the timestamp nearest to `reference` whose low 32 bits are `timestamp`.
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
        assert_eq!(
            [9, 10, 30_000, 50_000].map(|it| extender.ahead(it)),
            [-1, 0, 29_990, -15_546]
        );
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
