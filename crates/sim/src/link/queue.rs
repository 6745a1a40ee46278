//! The queue before the bottleneck: the bytes that wait, and when each datagram leaves.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Capacity, Nanos};
use crate::schedule::{Cursor, OPPORTUNITY_BYTES};

/// A drop-tail queue before a bottleneck.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Datagrams that wait, in the order of leaving.
    waiting: VecDeque<Waiting>,
    /// Bytes of the datagrams that wait.
    bytes: usize,
    /// When the last datagram will have left.
    free_at: Nanos,
    /// Position in the trace at that time.
    cursor: Cursor,
    /// Bytes of that opportunity that are unused.
    left_over: u64,
    /// Outages, in order and apart.
    outages: Vec<Range<Nanos>>,
    /// Index of the first outage that has not ended before `free_at`.
    outage: usize,
}

/// A datagram in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When the datagram will have left.
    departure: Nanos,
    /// Size that the sender gave.
    bytes: usize,
}

impl Queue {
    /// Sets the times in which nothing leaves, in any order; they may overlap.
    pub(super) fn set_outages(&mut self, mut outages: Vec<Range<Nanos>>) {
        outages.retain(|it| it.start < it.end);
        outages.sort_unstable_by_key(|it| (it.start, it.end));
        self.outages.clear();
        self.outage = 0;
        for outage in outages {
            match self.outages.last_mut() {
                Some(last) if outage.start <= last.end => last.end = outage.end.max(last.end),
                _ => self.outages.push(outage),
            }
        }
    }

    /// Restarts a trace at the clock's position.
    pub(super) fn reset_trace(&mut self) {
        self.cursor = Cursor::default();
        self.left_over = 0;
    }

    /// Returns the bytes that wait at `now`.
    pub(super) fn bytes(&mut self, now: Nanos) -> usize {
        while let Some(first) = self.waiting.front() {
            if first.departure > now {
                break;
            }
            self.bytes -= first.bytes;
            self.waiting.pop_front();
        }
        self.bytes
    }

    /// Returns how long a datagram sent at `now` waits before its own first byte leaves.
    pub(super) fn wait(&self, now: Nanos) -> Nanos {
        self.free_at.saturating_sub(now)
    }

    /// Adds a datagram at `now`, and returns when it will have left.
    pub(super) fn push(&mut self, now: Nanos, bytes: usize, capacity: &Capacity) -> Nanos {
        let departure = match capacity {
            Capacity::Unlimited => self.transmit(now.max(self.free_at), 0),
            Capacity::Rate(rate) => {
                let work = (bytes as u64).saturating_mul(8_000_000_000) / rate.bps().max(1);
                self.transmit(now.max(self.free_at), work)
            }
            Capacity::Trace { schedule, offset } => {
                if now > self.free_at {
                    self.left_over = 0;
                }
                let mut departure = now.max(self.free_at);
                let bytes = bytes as u64;
                while self.left_over < bytes {
                    let usable = self.outage_over(departure);
                    let found = self.cursor.next(schedule, *offset, usable);
                    // The opportunity may lie in the next outage, when nothing leaves.
                    departure = self.outage_over(found);
                    if departure == found {
                        self.cursor.use_up(schedule);
                        self.left_over += OPPORTUNITY_BYTES;
                    }
                }
                self.left_over -= bytes;
                departure
            }
        };
        self.free_at = departure;
        if departure > now {
            self.waiting.push_back(Waiting { departure, bytes });
            self.bytes += bytes;
        }
        departure
    }

    /// Returns when `work` that begins at `at` is done, without the time of outages.
    fn transmit(&mut self, at: Nanos, mut work: Nanos) -> Nanos {
        let mut at = self.outage_over(at);
        while let Some(&Range { start, end }) = self.outages.get(self.outage) {
            if at.saturating_add(work) <= start {
                break;
            }
            work -= start - at;
            at = end;
            self.outage += 1;
        }
        at.saturating_add(work)
    }

    /// Returns the end of the outage at `at`, or `at` if there is none; `at` must not go
    /// back.
    fn outage_over(&mut self, at: Nanos) -> Nanos {
        while let Some(&Range { start, end }) = self.outages.get(self.outage) {
            if at < start {
                return at;
            }
            self.outage += 1;
            if at < end {
                return end;
            }
        }
        at
    }
}
