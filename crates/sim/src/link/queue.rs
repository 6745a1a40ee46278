//! The bytes that wait, and when each datagram has left.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Capacity, Nanos};
use crate::schedule::{Cursor, OPPORTUNITY_BYTES};

/// A drop-tail queue before a bottleneck.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In order of leaving.
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// When the last one will have left.
    free_at: Nanos,
    /// Where in the trace it will have left, and what that opportunity has over.
    cursor: Cursor,
    left_over: u64,
    /// In order and apart.
    outages: Vec<Range<Nanos>>,
    /// The first outage that has not ended before `free_at`.
    outage: usize,
}

/// A datagram in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When it will have left.
    departure: Nanos,
    bytes: usize,
}

impl Queue {
    /// Takes the times of which nothing leaves; any order, overlaps included.
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

    /// Begins a trace anew at wherever the clock then is.
    pub(super) fn reset_trace(&mut self) {
        self.cursor = Cursor::default();
        self.left_over = 0;
    }

    /// Bytes that wait at `now`.
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

    /// How long what is handed in at `now` waits before its own first byte leaves.
    pub(super) fn wait(&self, now: Nanos) -> Nanos {
        self.free_at.saturating_sub(now)
    }

    /// When a datagram handed in at `now` has left.
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
                    // It may lie in the next outage; nothing leaves then.
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

    /// When `work` that begins at `at` is done, outages left out.
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

    /// The end of the outage at `at`, or `at` if there is none; `at` must not go back.
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
