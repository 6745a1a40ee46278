use crate::MediaTime;

/// Time from the decoding of a unit to its presentation, in whole microseconds.
///
/// The lead is zero unless frames are decoded in another order than presented (B-frames). It is kept
/// in place of the decode time because it stays true when a unit moves to another timeline. A lead
/// below zero says that a source presents a frame before one that it had decoded earlier without
/// having announced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecodeLead(i32);

impl DecodeLead {
    /// The lead of a unit that is decoded when it is presented.
    pub const NONE: Self = Self(0);

    /// Returns the lead of a unit that is decoded at `decoded` and presented at `presented`. Its
    /// decode time is at most a microsecond before `decoded`.
    pub fn between(decoded: MediaTime, presented: MediaTime) -> Self {
        let nanos = presented.nanos().saturating_sub(decoded.nanos());
        Self::saturating(-((-nanos).div_euclid(1000)))
    }

    /// Returns the lead of a unit that is presented at `presented`, and decoded at `earliest` or at
    /// most a microsecond later.
    pub fn not_before(earliest: MediaTime, presented: MediaTime) -> Self {
        let nanos = presented.nanos().saturating_sub(earliest.nanos());
        Self::saturating(nanos.div_euclid(1000))
    }

    /// Returns a lead of this many microseconds.
    pub const fn from_micros(micros: i32) -> Self {
        Self(micros)
    }

    /// The lead in microseconds.
    pub const fn micros(self) -> i32 {
        self.0
    }

    /// Returns when a unit with this lead is decoded that is presented at `presented`.
    pub const fn before(self, presented: MediaTime) -> MediaTime {
        MediaTime::from_nanos(presented.nanos().saturating_sub(self.0 as i64 * 1000))
    }

    /// A lead beyond 35 minutes is no lead of a stream that plays.
    fn saturating(micros: i64) -> Self {
        let bound = |micros: i64| micros.clamp(i32::MIN.into(), i32::MAX.into());
        Self(i32::try_from(bound(micros)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tick_of_90_khz_survives() {
        for ticks in [0, 1, 3600, 7201, 90_000 * 60] {
            let presented = MediaTime::from_ticks(1_000_000 + ticks, 90_000);
            let decoded = MediaTime::from_ticks(1_000_000, 90_000);
            let kept = DecodeLead::between(decoded, presented).before(presented);
            assert_eq!(kept.ticks(90_000), 1_000_000);
        }
        let (early, late) = (MediaTime::ZERO, MediaTime::from_nanos(i64::MAX));
        assert_eq!(DecodeLead::between(early, late).micros(), i32::MAX);
        assert_eq!(DecodeLead::between(late, early).micros(), i32::MIN);
        assert_eq!(DecodeLead::from_micros(7).micros(), 7);
        assert_eq!(DecodeLead::NONE.before(late), late);
    }

    proptest! {
        #[test]
        fn a_lead_is_off_by_less_than_a_microsecond_and_to_the_side_that_was_asked_for(
            presented in -1_000_000_000_000i64..1_000_000_000_000,
            lead in -2_000_000_000_000i64..2_000_000_000_000,
        ) {
            let (presented, decoded) = (
                MediaTime::from_nanos(presented),
                MediaTime::from_nanos(presented - lead),
            );
            let kept = DecodeLead::between(decoded, presented).before(presented);
            prop_assert!(kept <= decoded && decoded.nanos() - kept.nanos() < 1000);
            let kept = DecodeLead::not_before(decoded, presented).before(presented);
            prop_assert!(kept >= decoded && kept.nanos() - decoded.nanos() < 1000);
        }
    }
}
