//! Numbers that wrap, and how they compare (RFC 1982).

use std::fmt;

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one that comes `count` later.
            #[must_use]
            pub const fn plus(self, count: $inner) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// The one after it.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// How far this one comes after `other`; negative if it comes before.
            pub const fn distance_from(self, other: Self) -> $signed {
                self.0.wrapping_sub(other.0).cast_signed()
            }

            /// It comes after `other`, by less than half of all numbers.
            pub const fn is_after(self, other: Self) -> bool {
                self.distance_from(other) > 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

serial!(
    /// Transmission sequence number: one per DATA chunk, whatever its stream (RFC
    /// 9260 §1.6).
    Tsn, u32, i32
);
serial!(
    /// Stream sequence number: one per ordered message of a stream (RFC 9260 §1.6).
    Ssn, u16, i16
);
serial!(
    /// Message identifier of I-DATA: one per message of a stream, ordered and
    /// unordered ones counted apart (RFC 8260 §2.1).
    Mid, u32, i32
);

/// The number nearest to `near` whose low 32 bits are `low`: inside an association
/// transmission sequence numbers and message identifiers are 64 bits wide and never
/// wrap, so that they order and index like any other number.
pub(crate) const fn widen(low: u32, near: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(ahead as i64)
}

/// The same for the 16 bits of a stream sequence number.
pub(crate) const fn widen_short(low: u16, near: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the low quarter is meant")]
    let ahead = low.wrapping_sub(near as u16).cast_signed();
    near.wrapping_add_signed(ahead as i64)
}

/// The low 32 bits: what goes on the wire.
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
pub(crate) const fn narrow(wide: u64) -> u32 {
    wide as u32
}

/// The low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low quarter is meant")]
pub(crate) const fn narrow_short(wide: u64) -> u16 {
    wide as u16
}

/// Where wide numbers begin: far enough from zero that a peer's nonsense from before
/// the beginning is no underflow.
pub(crate) const fn widen_first(low: u32) -> u64 {
    (1 << 32) + low as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_order_across_the_wrap() {
        assert!(Tsn(0).is_after(Tsn(u32::MAX)));
        assert!(!Tsn(u32::MAX).is_after(Tsn(0)));
        assert_eq!(Ssn(2).distance_from(Ssn(65_534)), 4);
        assert_eq!(Mid(u32::MAX).next(), Mid(0));
    }

    proptest! {
        #[test]
        fn widening_finds_what_was_narrowed(
            near in (1u64 << 32)..(1 << 50),
            ahead in -0x4000_0000i64..0x4000_0000,
        ) {
            let wide = near.wrapping_add_signed(ahead);
            prop_assert_eq!(widen(narrow(wide), near), wide);
            let close = near.wrapping_add_signed(ahead % 0x4000);
            prop_assert_eq!(widen_short(narrow_short(close), near), close);
        }
    }
}
