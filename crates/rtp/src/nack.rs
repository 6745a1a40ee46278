//! Asking for lost packets, at the receiver (RFC 4585 §6.2.1; retransmission is
//! RFC 4588). When to ask, how often, and when to stop is ours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How a [`NackGenerator`] asks.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Wait after noticing a gap before asking: reordering on the path closes
    /// most gaps that loss did not make.
    pub reorder_wait: Duration,
    /// Least time between two requests for one packet; the round trip plus a
    /// quarter where that is longer.
    pub retry_interval_min: Duration,
    /// Requests for one packet before giving up.
    pub requests_max: u32,
    /// Time after noticing the gap before giving up: later it is of no use.
    pub budget: Duration,
    /// Packets missing at a time; when more are, the oldest are given up. A gap
    /// larger than this is not asked for at all: a keyframe is cheaper.
    pub missing_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reorder_wait: Duration::from_millis(3),
            retry_interval_min: Duration::from_millis(20),
            requests_max: 10,
            budget: Duration::from_secs(1),
            missing_max: 1000,
        }
    }
}

/// What a packet's number means to the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next, or the first.
    Next,
    /// Ahead of `missing` packets not here yet.
    Gap {
        /// How many.
        missing: u64,
    },
    /// Filled a gap.
    Recovered {
        /// Requests that were made for it; 0: it was only reordered.
        requests: u32,
        /// Since its gap was noticed.
        after: Duration,
    },
    /// A duplicate, or one that was given up.
    Old,
}

/// Watches sequence numbers and says which to ask for.
#[derive(Clone, Debug)]
pub struct NackGenerator {
    config: Config,
    retry_interval: Duration,
    highest: Option<u64>,
    missing: BTreeMap<u64, Missing>,
    due: Option<Instant>,
    given_up: u64,
}

impl Default for NackGenerator {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl NackGenerator {
    /// Nothing received yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            retry_interval: INITIAL_RTT.max(config.retry_interval_min),
            highest: None,
            missing: BTreeMap::new(),
            due: None,
            given_up: 0,
        }
    }

    /// Tells the round-trip time; requests are repeated no sooner than it allows.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.retry_interval = (rtt + rtt / 4).max(self.config.retry_interval_min);
    }

    /// Notes a packet by its wide sequence number, original or retransmitted.
    pub fn on_packet(&mut self, sequence: u64, now: Instant) -> Arrival {
        let Some(highest) = self.highest else {
            self.highest = Some(sequence);
            return Arrival::Next;
        };
        if sequence <= highest {
            return match self.missing.remove(&sequence) {
                Some(missing) => Arrival::Recovered {
                    requests: missing.requests,
                    after: now.saturating_duration_since(missing.noticed),
                },
                None => Arrival::Old,
            };
        }
        self.highest = Some(sequence);
        let missing = sequence - highest - 1;
        if missing == 0 {
            return Arrival::Next;
        }
        self.note_gap(highest + 1, sequence, now);
        Arrival::Gap { missing }
    }

    /// When [`poll`](Self::poll) will have something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Sequence numbers to ask for now, ascending, at most [`REQUEST_MAX`]; empty
    /// if none is due. Poll again at once while `poll_timeout` is not in the future.
    pub fn poll(&mut self, now: Instant) -> Vec<u16> {
        let mut lost = Vec::new();
        if self.due.is_none_or(|due| now < due) {
            return lost;
        }
        let (config, retry) = (self.config, self.retry_interval);
        let before = self.missing.len();
        self.missing.retain(|_, missing| {
            let age = now.saturating_duration_since(missing.noticed);
            let spent = missing.requests >= config.requests_max && now >= missing.next;
            age < config.budget && !spent
        });
        self.given_up += (before - self.missing.len()) as u64;
        for (&sequence, missing) in &mut self.missing {
            if lost.len() == REQUEST_MAX {
                break;
            }
            if missing.next <= now {
                missing.requests += 1;
                missing.next = now + retry;
                lost.push(sequence as u16);
            }
        }
        self.due = self.missing.values().map(|missing| missing.next).min();
        lost
    }

    /// Packets missing now, asked for or about to be.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Packets given up since the last call: time for a keyframe request.
    pub fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    fn note_gap(&mut self, first: u64, end: u64, now: Instant) {
        if end - first > self.config.missing_max as u64 {
            self.given_up += end - first + self.missing.len() as u64;
            self.missing.clear();
            self.due = None;
            return;
        }
        let next = now + self.config.reorder_wait;
        let missing = Missing {
            noticed: now,
            next,
            requests: 0,
        };
        self.missing
            .extend((first..end).map(|sequence| (sequence, missing)));
        while self.missing.len() > self.config.missing_max {
            self.missing.pop_first();
            self.given_up += 1;
        }
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }
}

/// Numbers in one request: even without a shared bitmap the packet then fits a
/// datagram.
pub const REQUEST_MAX: usize = 250;

/// Assumed until the round trip is known.
const INITIAL_RTT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
struct Missing {
    noticed: Instant,
    next: Instant,
    requests: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn after(numbers: &[u64], start: Instant) -> NackGenerator {
        let mut generator = NackGenerator::default();
        for &number in numbers {
            generator.on_packet(number, start);
        }
        generator
    }

    #[test]
    fn a_gap_is_asked_for_after_the_reorder_wait() {
        let start = Instant::now();
        let mut generator = after(&[65_535, 65_538], start);
        assert_eq!(generator.poll_timeout(), Some(start + 3 * MS));
        assert!(generator.poll(start + 2 * MS).is_empty());
        assert_eq!(generator.poll(start + 3 * MS), [0, 1]);
    }

    #[test]
    fn a_reordered_packet_is_not_asked_for() {
        let start = Instant::now();
        let mut generator = after(&[10, 12], start);
        assert_eq!(
            generator.on_packet(11, start + MS),
            Arrival::Recovered {
                requests: 0,
                after: MS
            }
        );
        assert!(generator.poll(start + 100 * MS).is_empty());
        assert_eq!(generator.poll_timeout(), None);
    }

    #[test]
    fn requests_repeat_with_the_round_trip_until_the_budget() {
        let start = Instant::now();
        let mut generator = after(&[10, 12], start);
        generator.set_rtt(100 * MS);
        let mut asked = Vec::new();
        while let Some(due) = generator.poll_timeout() {
            if !generator.poll(due).is_empty() {
                asked.push((due - start).as_millis());
            }
        }
        assert_eq!(asked, [3, 128, 253, 378, 503, 628, 753, 878]);
        assert_eq!(generator.take_given_up(), 1);
        assert_eq!(generator.take_given_up(), 0);
        assert_eq!(generator.on_packet(11, start), Arrival::Old);
    }

    #[test]
    fn requests_are_counted_and_bounded() {
        let start = Instant::now();
        let mut generator = after(&[10, 12], start);
        generator.set_rtt(MS);
        let mut requests = 0;
        while let Some(due) = generator.poll_timeout() {
            requests += generator.poll(due).len();
        }
        assert_eq!(requests, 10);
    }

    #[test]
    fn many_losses_take_several_requests_of_bounded_size() {
        let start = Instant::now();
        let mut generator = after(&[0, 1001], start);
        let now = start + 3 * MS;
        let sizes: Vec<usize> = std::iter::from_fn(|| {
            let lost = generator.poll(now);
            (!lost.is_empty()).then_some(lost.len())
        })
        .collect();
        assert_eq!(sizes, [250; 4]);
    }

    #[test]
    fn a_gap_too_large_is_given_up_at_once() {
        let start = Instant::now();
        let mut generator = after(&[0, 2, 1004], start);
        assert_eq!(generator.missing(), 0);
        assert_eq!(generator.poll_timeout(), None);
        assert_eq!(generator.take_given_up(), 1002);
    }

    #[test]
    fn the_oldest_are_given_up_when_too_many_are_missing() {
        let start = Instant::now();
        let mut generator = after(&[0, 601, 1202], start);
        assert_eq!(generator.missing(), 1000);
        assert_eq!(generator.take_given_up(), 200);
        assert_eq!(generator.on_packet(1, start), Arrival::Old);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Packets every millisecond over a path of 50 ms round trip; media,
        /// requests and retransmissions are lost alike at 5 %.
        #[test]
        fn five_percent_loss_is_repaired(seed: u64) {
            let start = Instant::now();
            let mut state = seed;
            let mut lost = move || {
                // Knuth's MMIX generator; its upper bits are even enough for a coin.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 32) % 20 == 0
            };
            let mut generator = NackGenerator::default();
            generator.set_rtt(50 * MS);
            let (mut sent_lost, mut recovered) = (0u32, 0u32);
            let mut answers: Vec<(u32, u64)> = Vec::new();
            for at in 0..3000u32 {
                let now = start + at * MS;
                if at < 2000 {
                    if at > 0 && at < 1999 && lost() {
                        sent_lost += 1;
                    } else {
                        generator.on_packet(u64::from(at), now);
                    }
                }
                for number in generator.poll(now) {
                    if !lost() && !lost() {
                        answers.push((at + 50, u64::from(number)));
                    }
                }
                answers.retain(|&(due, number)| {
                    if due == at {
                        let arrival = generator.on_packet(number, now);
                        recovered += u32::from(matches!(arrival, Arrival::Recovered { .. }));
                    }
                    due > at
                });
            }
            prop_assert_eq!(recovered, sent_lost);
        }

        #[test]
        fn memory_stays_bounded(steps in prop::collection::vec((0u64..3000, 0u32..50), 1..200)) {
            let mut now = Instant::now();
            let mut generator = NackGenerator::default();
            let mut at = 5000;
            for (step, wait) in steps {
                at = (at + step).saturating_sub(500);
                now += wait * MS;
                generator.on_packet(at, now);
                prop_assert!(generator.poll(now).len() <= REQUEST_MAX);
                prop_assert!(generator.missing() <= 1000);
                prop_assert_eq!(generator.missing() > 0, generator.poll_timeout().is_some());
            }
        }
    }
}
