/// The last [`BITS`](ReplayWindow::BITS) sequence numbers of records, and which of them were
/// received (RFC 6347 §4.1.2.6).
///
/// The window is a ring of words, as in RFC 6479: advancing clears words instead of shifting
/// the whole window, so the cost of a record does not depend on the width.
#[derive(Clone, Debug)]
pub(super) struct ReplayWindow {
    /// One above the highest number accepted; 0 before the first.
    next: u64,
    seen: [u64; WORDS],
}

/// Number of words: one more than the window has, since the newest is only partly used.
const WORDS: usize = 33;

/// Relation of a sequence number to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayCheck {
    Fresh,
    Replayed,
    /// The number is older than the window, so that it cannot be checked.
    Stale,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self {
            next: 0,
            seen: [0; WORDS],
        }
    }
}

impl ReplayWindow {
    /// Width of the window: 20 ms of reordering at a gigabit per second.
    pub(super) const BITS: u64 = 64 * (WORDS as u64 - 1);

    pub(super) fn check(&self, sequence: u64) -> ReplayCheck {
        if sequence >= self.next {
            return ReplayCheck::Fresh;
        }
        if self.next - sequence > Self::BITS {
            return ReplayCheck::Stale;
        }
        let (word, bit) = place(sequence);
        if self.seen[word] >> bit & 1 == 1 {
            ReplayCheck::Replayed
        } else {
            ReplayCheck::Fresh
        }
    }

    /// Records a number that [`check`](Self::check) found to be fresh and whose record was
    /// authentic.
    pub(super) fn accept(&mut self, sequence: u64) {
        if sequence >= self.next {
            let newest = self.next.saturating_sub(1) / 64;
            let steps = (sequence / 64 - newest).min(WORDS as u64);
            for step in 1..=steps {
                // Counting from the new end, a jump clears the whole ring.
                let (word, _) = place((sequence / 64 - (steps - step)) * 64);
                self.seen[word] = 0;
            }
            self.next = sequence + 1;
        }
        let (word, bit) = place(sequence);
        self.seen[word] |= 1 << bit;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    ((sequence / 64 % WORDS as u64) as usize, sequence % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_that_forgets_nothing(
            start in prop::sample::select(vec![0u64, 1, 63, 64, 1 << 40]),
            steps in prop::collection::vec(
                prop_oneof![8 => -40i64..60, 1 => -3000i64..0, 1 => 0i64..6000],
                1..400,
            ),
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = HashSet::new();
            let mut at = start;
            for step in steps {
                at = at.saturating_add_signed(step);
                let highest = seen.iter().max().copied();
                let expected = match highest {
                    Some(highest) if at <= highest && highest - at >= ReplayWindow::BITS => ReplayCheck::Stale,
                    _ if seen.contains(&at) => ReplayCheck::Replayed,
                    _ => ReplayCheck::Fresh,
                };
                prop_assert_eq!(window.check(at), expected, "of {} after {:?}", at, highest);
                if expected == ReplayCheck::Fresh {
                    window.accept(at);
                    seen.insert(at);
                }
            }
        }
    }
}
