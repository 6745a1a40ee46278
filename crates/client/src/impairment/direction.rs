//! One direction of an impaired path: datagrams in flight, and batches that leave.

use std::time::Instant;

use glassline_sim::{Conditions, Family, Link};

use super::delay_queue::DelayQueue;

/// Most datagrams in flight in one direction: 200 MB.
const UNDER_WAY_MAX: usize = 160_000;
/// Bytes of IP and UDP headers, which a bottleneck carries too.
const HEADER_BYTES: usize = 28;
/// Most bytes that leave in one system call.
const RUN_BYTES_MAX: usize = 60_000;
/// Most datagrams that leave in one system call.
const RUN_SEGMENTS_MAX: usize = 60;

/// One direction of the path.
pub(super) struct Direction {
    link: Link<Vec<u8>>,
    /// Additional delays before the link.
    queue: Option<DelayQueue>,
}

impl Direction {
    pub(super) fn new(conditions: Conditions, family: Option<Family>, seed: u64) -> Self {
        Self {
            link: Link::new(conditions, seed),
            queue: family.map(|family| DelayQueue::new(family, seed)),
        }
    }

    /// Replaces the conditions of the link.
    pub(super) fn set_conditions(&mut self, conditions: Conditions) {
        self.link.set_conditions(conditions);
    }

    /// Whether this direction holds as many datagrams as it may.
    pub(super) fn is_full(&self) -> bool {
        let held = self.queue.as_ref().map_or(0, DelayQueue::len);
        self.link.in_flight() + held >= UNDER_WAY_MAX
    }

    pub(super) fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        match &mut self.queue {
            Some(queue) => queue.send(now, datagram),
            None => self.enter(now, datagram),
        }
    }

    fn enter(&mut self, now: Instant, datagram: Vec<u8>) {
        self.link.send(now, datagram.len() + HEADER_BYTES, datagram);
    }

    /// Lets datagrams that have waited long enough enter the link.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(datagram) = self.queue.as_mut().and_then(|it| it.poll(now)) {
            self.enter(now, datagram);
        }
    }

    /// The next datagram that has arrived by `now`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        Some(self.link.poll(now)?.datagram)
    }

    /// When the next datagram enters or leaves the link.
    pub(super) fn next(&self) -> Option<Instant> {
        let held = self.queue.as_ref().and_then(DelayQueue::next);
        [self.link.next_arrival(), held].into_iter().flatten().min()
    }
}

/// Datagrams that leave in one system call. All have the length of the first, except the last
/// one, which may be shorter.
pub(super) struct SegmentRun {
    bytes: Vec<u8>,
    segment_bytes: usize,
    segments: usize,
}

impl SegmentRun {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(RUN_BYTES_MAX),
            segment_bytes: 0,
            segments: 0,
        }
    }

    /// Whether `datagram` can leave in the same call as those before it.
    pub(super) fn fits(&self, datagram: &[u8]) -> bool {
        let are_equal = self.bytes.len() == self.segment_bytes * self.segments;
        self.segments < RUN_SEGMENTS_MAX
            && self.bytes.len() + datagram.len() <= RUN_BYTES_MAX
            && (self.segments == 0 || datagram.len() <= self.segment_bytes && are_equal)
    }

    pub(super) fn push(&mut self, datagram: &[u8]) {
        if self.segments == 0 {
            self.segment_bytes = datagram.len();
        }
        self.bytes.extend_from_slice(datagram);
        self.segments += 1;
    }

    /// Bytes of all datagrams, and the length of each; `None` if there is none.
    pub(super) fn get(&self) -> Option<(&[u8], usize)> {
        (self.segments > 0).then_some((self.bytes.as_slice(), self.segment_bytes))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.segments = 0;
    }
}
