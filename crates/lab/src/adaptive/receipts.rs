//! What transport-wide feedback says of packets, for a sender that keeps its own account.
//!
//! The session tells how many packets feedback names, not which. The viewer's end notes each arrival, and
//! feedback that was sent at some time names the latest arrivals before.

use std::collections::VecDeque;
use std::time::Instant;

/// The arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// Number of the packet in the order of sending.
    pub(super) number: u64,
    /// Time of arrival.
    pub(super) at: Instant,
}

/// Arrivals that no feedback has named, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Receipts(VecDeque<Receipt>);

impl Receipts {
    /// Notes an arrival.
    pub(super) fn note(&mut self, receipt: Receipt) {
        self.0.push_back(receipt);
    }

    /// Returns the `count` arrivals that feedback names which the viewer sent at `sent`. Those before
    /// were in feedback that got lost, and are forgotten.
    pub(super) fn reported(&mut self, count: u32, sent: Instant) -> Vec<Receipt> {
        let arrived = self.0.partition_point(|it| it.at <= sent);
        let mut reported: Vec<Receipt> = self.0.drain(..arrived).collect();
        let unknown = reported.len().saturating_sub(count as usize);
        reported.drain(..unknown);
        reported
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn feedback_names_the_latest_arrivals_and_those_of_lost_feedback_are_forgotten() {
        let start = glassline_sim::Clock::new().now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut receipts = Receipts::default();
        for number in 0..10 {
            let at = at(10 * number);
            receipts.note(Receipt { number, at });
        }
        let mut numbers = |count, ms| -> Vec<u64> {
            let reported = receipts.reported(count, at(ms));
            reported.iter().map(|it| it.number).collect()
        };
        assert_eq!(numbers(3, 20), [0, 1, 2]);
        assert_eq!(numbers(2, 65), [5, 6]);
        assert_eq!(numbers(9, 90), [7, 8, 9]);
        assert!(numbers(1, 900).is_empty());
    }
}
