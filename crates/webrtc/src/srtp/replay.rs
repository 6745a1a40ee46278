/// The last 128 packet indices, and which of them were received (RFC 3711 §3.3.2 requires at
/// least 64).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayWindow {
    /// Highest index accepted; meaningless while `seen` is zero.
    highest: u64,
    /// Bit `n` stands for `highest - n`; bit 0 is set once an index was accepted.
    seen: u128,
}

/// Relation of a packet index to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayCheck {
    Fresh,
    Replayed,
    /// The index is older than the window, so that it cannot be checked.
    Stale,
}

impl ReplayWindow {
    /// Width of the window in packets.
    pub(super) const BITS: u64 = 128;

    pub(super) fn highest(&self) -> Option<u64> {
        (self.seen != 0).then_some(self.highest)
    }

    pub(super) fn check(&self, index: u64) -> ReplayCheck {
        if self.seen == 0 || index > self.highest {
            return ReplayCheck::Fresh;
        }
        let age = self.highest - index;
        if age >= Self::BITS {
            ReplayCheck::Stale
        } else if self.seen >> age & 1 == 1 {
            ReplayCheck::Replayed
        } else {
            ReplayCheck::Fresh
        }
    }

    /// Records an index that [`check`](Self::check) found to be fresh and whose packet was
    /// authentic.
    pub(super) fn accept(&mut self, index: u64) {
        if self.seen == 0 {
            *self = Self {
                highest: index,
                seen: 1,
            };
        } else if index > self.highest {
            let step = index - self.highest;
            self.seen = if step >= Self::BITS {
                0
            } else {
                self.seen << step
            };
            self.seen |= 1;
            self.highest = index;
        } else {
            let age = self.highest - index;
            if age < Self::BITS {
                self.seen |= 1 << age;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_that_forgets_nothing(
            indices in prop::collection::vec(0u64..400, 1..300),
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = HashSet::new();
            for index in indices {
                let highest = seen.iter().max().copied();
                let expected = match highest {
                    Some(highest) if index + ReplayWindow::BITS <= highest => ReplayCheck::Stale,
                    _ if seen.contains(&index) => ReplayCheck::Replayed,
                    _ => ReplayCheck::Fresh,
                };
                prop_assert_eq!(window.check(index), expected);
                if expected == ReplayCheck::Fresh {
                    window.accept(index);
                    seen.insert(index);
                }
            }
        }
    }
}
