use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Puts the packets of one receiver back in order, for a depacketiser: holds
/// what came early until the gap before it is filled or given up.
#[derive(Debug)]
pub(super) struct InOrder {
    next: Option<u64>,
    held: BTreeMap<u64, Packet>,
    held_bytes: usize,
    gap_since: Option<Instant>,
}

/// One packet's part that a depacketiser needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) sequence: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: &'a [u8],
}

#[derive(Debug)]
struct Packet {
    arrived: Instant,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

/// How long a gap may stay open: as long as retransmissions are asked for
/// (`rtp::nack::Config::budget`).
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Half a second of a 32 Mbit/s stream; beyond it the gap is given up early.
const HELD_BYTES_MAX: usize = 2 << 20;

impl InOrder {
    pub(super) const fn new() -> Self {
        Self {
            next: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            gap_since: None,
        }
    }

    /// Takes a packet that arrived at `now`; `sink` gets what is in order by
    /// that, maybe nothing. A packet behind its successors is ignored.
    pub(super) fn push(&mut self, now: Instant, part: Part<'_>, mut sink: impl FnMut(Part<'_>)) {
        let next = *self.next.get_or_insert(part.sequence);
        if part.sequence < next {
            return;
        }
        if part.sequence == next {
            sink(part);
            self.next = Some(next + 1);
            self.release(&mut sink);
            return;
        }
        let packet = Packet {
            arrived: now,
            timestamp: part.timestamp,
            marker: part.marker,
            payload: part.payload.to_vec(),
        };
        self.held_bytes += packet.payload.len();
        if let Some(double) = self.held.insert(part.sequence, packet) {
            self.held_bytes -= double.payload.len();
        }
        self.gap_since.get_or_insert(now);
        while self.held_bytes > HELD_BYTES_MAX {
            self.skip(&mut sink);
        }
    }

    /// Gives up the gaps that are open for longer than [`PATIENCE`].
    pub(super) fn expire(&mut self, now: Instant, mut sink: impl FnMut(Part<'_>)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.skip(&mut sink);
        }
    }

    /// When [`Self::expire`] will have something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.gap_since? + PATIENCE)
    }

    /// Goes on behind the gap.
    fn skip(&mut self, sink: &mut impl FnMut(Part<'_>)) {
        let Some((&first, _)) = self.held.first_key_value() else {
            self.gap_since = None;
            return;
        };
        self.next = Some(first);
        self.release(sink);
    }

    /// Hands out what follows without a gap.
    fn release(&mut self, sink: &mut impl FnMut(Part<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            let sequence = *entry.key();
            if self.next != Some(sequence) {
                // The gap before it is at most as old as this packet.
                self.gap_since = Some(entry.get().arrived);
                return;
            }
            let packet = entry.remove();
            self.held_bytes -= packet.payload.len();
            self.next = Some(sequence + 1);
            sink(Part {
                sequence,
                timestamp: packet.timestamp,
                marker: packet.marker,
                payload: &packet.payload,
            });
        }
        self.gap_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals (milliseconds, sequence number) and what comes out of them.
    fn run(arrivals: &[(u64, u64)]) -> (InOrder, Vec<u64>) {
        let start = Instant::now();
        let mut order = InOrder::new();
        let mut out = Vec::new();
        for &(millis, sequence) in arrivals {
            let now = start + Duration::from_millis(millis);
            let payload = sequence.to_be_bytes();
            let part = Part {
                sequence,
                timestamp: 0,
                marker: false,
                payload: &payload,
            };
            let mut sink = |part: Part<'_>| {
                assert_eq!(part.payload, part.sequence.to_be_bytes());
                out.push(part.sequence);
            };
            order.expire(now, &mut sink);
            order.push(now, part, &mut sink);
        }
        (order, out)
    }

    #[test]
    fn a_repaired_gap_comes_out_in_order() {
        let (order, out) = run(&[(0, 5), (1, 7), (2, 8), (30, 6), (31, 9)]);
        assert_eq!(out, [5, 6, 7, 8, 9]);
        assert_eq!((order.held_bytes, order.deadline()), (0, None));
    }

    #[test]
    fn a_gap_is_given_up_in_time_and_its_packet_is_late_then() {
        let (order, out) = run(&[(0, 5), (1, 7), (1000, 8), (1001, 9), (1002, 6)]);
        assert_eq!(out, [5, 7, 8, 9]);
        assert_eq!(order.deadline(), None);
    }

    #[test]
    fn the_second_gap_has_its_own_time() {
        let (order, out) = run(&[(0, 1), (10, 3), (300, 5), (1011, 6)]);
        assert_eq!(out, [1, 3]);
        assert!(order.deadline().is_some());
        let (_, out) = run(&[(0, 1), (10, 3), (300, 5), (1301, 6)]);
        assert_eq!(out, [1, 3, 5, 6]);
    }

    #[test]
    fn doubles_are_held_once_and_memory_is_bounded() {
        let (order, out) = run(&[(0, 1), (1, 3), (2, 3), (3, 1)]);
        assert_eq!((out.as_slice(), order.held_bytes), ([1].as_slice(), 8));

        let now = Instant::now();
        let payload = vec![0; 1000];
        let (mut order, mut out) = (InOrder::new(), 0usize);
        for sequence in (0..10_000).filter(|n| *n != 1) {
            let part = Part {
                sequence,
                timestamp: 0,
                marker: false,
                payload: &payload,
            };
            order.push(now, part, |_| out += 1);
            assert!(order.held_bytes <= HELD_BYTES_MAX);
        }
        assert_eq!(out, 9_999);
    }
}
