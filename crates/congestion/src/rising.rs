//! Detects the queue that a flow makes when its start has filled the path.

use std::time::{Duration, Instant};

/// Smallest growth of a round trip that counts (RFC 9406 §4.2, `MIN_RTT_THRESH`).
const GROWTH_MIN: Duration = Duration::from_millis(4);
/// Growth of a round trip that always counts (`MAX_RTT_THRESH`).
const GROWTH_MAX: Duration = Duration::from_millis(16);
/// Divisor of the smallest round trip for growth that counts in between: twice that of the
/// RFC (`MIN_RTT_DIVISOR`), because as much again arrives before the start ends.
const GROWTH_DIVISOR: u32 = 16;
/// Fewest round trips of a part: uneven delays do not meet so many in a row.
const SAMPLES_MIN: u32 = 8;
/// Parts of a round trip. RFC 9406 judges whole rounds, and a flow that doubles its rate
/// in each would meanwhile fill the queue.
const PARTS: u32 = 8;

/// Detects that round trips have risen, by thresholds of HyStart++ (RFC 9406), within an
/// eighth of a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rising {
    /// When the present part of a round trip began.
    began: Option<Instant>,
    /// Smallest round trip of the present part.
    seen: Option<Duration>,
    /// Round trips measured in the present part.
    samples: u32,
    /// Whether every round trip of the latest part was long.
    stands: bool,
}

impl Rising {
    /// Handles a round trip of `rtt` measured at `now`. `least`: the path's smallest round
    /// trip. Returns whether a queue stands.
    pub(crate) fn on_ack(&mut self, now: Instant, rtt: Duration, least: Duration) -> bool {
        let began = *self.began.get_or_insert(now);
        let seen = self.seen.map_or(rtt, |seen| seen.min(rtt));
        self.seen = Some(seen);
        self.samples += 1;
        let passed = now.saturating_duration_since(began);
        if self.samples >= SAMPLES_MIN && passed >= least / PARTS {
            let growth = (least / GROWTH_DIVISOR).clamp(GROWTH_MIN, GROWTH_MAX);
            self.stands = seen >= least + growth;
            self.began = Some(now);
            self.seen = None;
            self.samples = 0;
        }
        self.stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Handles round trips of a path of 100 ms, one a millisecond; returns how many there
    /// were when a queue was found.
    fn found(rtts: impl Iterator<Item = u64>) -> Option<usize> {
        let (mut rising, mut now) = (Rising::default(), Instant::now());
        for (place, rtt) in rtts.enumerate() {
            now += MS;
            if rising.on_ack(now, MS * u32::try_from(rtt).expect("small"), MS * 100) {
                return Some(place);
            }
        }
        None
    }

    #[test]
    fn a_queue_is_found_within_a_quarter_of_a_round_trip() {
        let at = found((0..200).map(|place| if place < 100 { 100 } else { 110 }));
        assert!(at.is_some_and(|at| (108..126).contains(&at)), "{at:?}");
    }

    #[test]
    fn uneven_delays_are_no_queue() {
        assert_eq!(found((0..1000).map(|place| 100 + place * 7 % 40)), None);
        assert_eq!(found((0..1000).map(|place| 100 + place % 5)), None);
    }
}
