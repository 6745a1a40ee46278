//! Sequence numbers that wrap, and their serial arithmetic (RFC 1982).

use std::fmt;

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the number that comes `count` later.
            #[must_use]
            pub const fn plus(self, count: $inner) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// Returns the next number.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// Returns the distance from `other` to this number; negative if this one comes
            /// first.
            pub const fn distance_from(self, other: Self) -> $signed {
                self.0.wrapping_sub(other.0).cast_signed()
            }

            /// Whether this number comes after `other`, by less than half of the number
            /// space.
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
    /// Message identifier of I-DATA: one per message of a stream; ordered and unordered
    /// messages are counted separately (RFC 8260 §2.1).
    Mid, u32, i32
);

/// Returns the 64-bit number nearest to `near` whose low 32 bits are `low`. Inside an
/// association, TSNs and message identifiers are 64 bits wide and never wrap, so that they
/// order and index like any other number.
pub(crate) const fn widen(low: u32, near: u64) -> u64 {
    // The low half is meant.
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(ahead as i64)
}

/// Returns the 64-bit number nearest to `near` whose low 16 bits are `low`, for stream
/// sequence numbers.
pub(crate) const fn widen_short(low: u16, near: u64) -> u64 {
    // The low quarter is meant.
    let ahead = low.wrapping_sub(near as u16).cast_signed();
    near.wrapping_add_signed(ahead as i64)
}

/// Returns the low 32 bits, which go on the wire.
// The low half is meant.
pub(crate) const fn narrow(wide: u64) -> u32 {
    wide as u32
}

/// Returns the low 16 bits, which go on the wire.
// The low quarter is meant.
pub(crate) const fn narrow_short(wide: u64) -> u16 {
    wide as u16
}

/// Returns the 64-bit form of a peer's or our first number: far enough from zero that
/// numbers from before the beginning do not underflow.
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
