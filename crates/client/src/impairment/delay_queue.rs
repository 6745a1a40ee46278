//! Delay queue: holds datagrams back by the delays of a family before they enter a link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use glassline_sim::{Delays, Family};

/// Applies the delays of a family over time: a datagram gets the delay of the moment at which
/// it is sent.
pub(super) struct DelayQueue {
    delays: Delays,
    start: Option<Instant>,
    /// Datagrams, ordered by when each enters the link and by its number.
    waiting: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
}

/// Time from one delay of the family to the next; packets of a call are no closer.
const SWING_STEP: Duration = Duration::from_millis(10);
/// Number of delays: ten minutes, after which they repeat.
const SWING_STEPS: usize = 60_000;

impl DelayQueue {
    pub(super) fn new(family: Family, seed: u64) -> Self {
        Self {
            delays: Delays::of_family(family, seed, SWING_STEPS, SWING_STEP),
            start: None,
            waiting: BinaryHeap::new(),
            sent: 0,
        }
    }

    pub(super) fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        let start = *self.start.get_or_insert(now);
        let step = now.saturating_duration_since(start).as_nanos() / SWING_STEP.as_nanos();
        let all = self.delays.packets();
        let step = usize::try_from(step).unwrap_or_default() % all.len();
        let delay = all[step].unwrap_or_default();
        self.sent += 1;
        self.waiting
            .push(Reverse((now + delay, self.sent, datagram)));
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the next datagram enters the link.
    pub(super) fn next(&self) -> Option<Instant> {
        Some(self.waiting.peek()?.0.0)
    }

    pub(super) fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, datagram)) = self.waiting.pop()?;
        Some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_s_delays_come_in_their_time() {
        let mut queue = DelayQueue::new(Family::Ar98, 5);
        let start = Instant::now();
        for number in 0..200u8 {
            let now = start + SWING_STEP * u32::from(number);
            queue.send(now, vec![number]);
        }
        let delays: Vec<_> = queue.delays.packets()[..200].to_vec();
        let mut at = start;
        let mut came = Vec::new();
        while let Some(next) = queue.next() {
            at = at.max(next);
            let datagram = queue.poll(at).expect("it is due");
            let sent = start + SWING_STEP * u32::from(datagram[0]);
            assert_eq!(Some(at - sent), delays[usize::from(datagram[0])]);
            came.push(datagram[0]);
        }
        assert!(came.is_sorted() && came.len() == 200, "nobody overtakes");
    }
}
