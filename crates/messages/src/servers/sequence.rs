//! The order of messages that come from another server.

use crate::FirstNumber;

/// Where the messages of another server have got to. It outlives the way that they come, so that a
/// message that comes by two ways is passed on once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    /// Broker of the latest message, and the number that the next one has if none is missing.
    next: Option<FirstNumber>,
}

impl Sequence {
    /// Notes that a message of this number came. Returns how many before it are missing; `None` if it
    /// came before. The first message of another broker follows nothing: another publisher's server has
    /// numbers of its own.
    pub(super) fn take(&mut self, first: FirstNumber) -> Option<u64> {
        let missed = match self.next {
            Some(next) if next.broker == first.broker => first.number.checked_sub(next.number)?,
            _ => 0,
        };
        self.next = Some(FirstNumber {
            broker: first.broker,
            number: first.number.saturating_add(1),
        });
        Some(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_messages_are_known_and_missing_ones_counted() {
        let mut sequence = Sequence::default();
        let mut take = |broker, number| sequence.take(FirstNumber { broker, number });
        assert_eq!(take(1, 40), Some(0), "whoever joins begins anywhere");
        assert_eq!(take(1, 41), Some(0));
        assert_eq!(take(1, 41), None);
        assert_eq!(take(1, 3), None);
        assert_eq!(take(1, 45), Some(3));
        assert_eq!(take(2, 5), Some(0), "another publisher's server");
        assert_eq!(take(2, u64::MAX), Some(u64::MAX - 6));
        assert_eq!(take(2, u64::MAX), Some(0), "no number is larger");
    }
}
