use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use crate::SequenceExtender;
use crate::rtcp::{TICKS_PER_SECOND, TransportFeedbackBuilder};

/// Notes arrivals at the receiver and writes feedback about them.
///
/// A packet that arrives after its number was reported missing is reported
/// again with its neighbours. Memory: 8 bytes a packet, at most
/// 4096 packets; older ones are forgotten unreported.
#[derive(Clone, Debug)]
pub struct Recorder {
    interval: Duration,
    extender: SequenceExtender,
    epoch: Option<Instant>,
    /// Arrival in ticks after `epoch` of packet `start + index`, [`MISSING`] if none.
    arrivals: VecDeque<i64>,
    start: u64,
    /// The next feedback begins here: after the last, or with a late packet.
    next: u64,
    due: Option<Instant>,
    feedback_count: u8,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(INTERVAL)
    }
}

impl Recorder {
    /// Feedback every `interval` while packets arrive; 100 ms by default.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            extender: SequenceExtender::new(),
            epoch: None,
            arrivals: VecDeque::new(),
            start: 0,
            next: 0,
            due: None,
            feedback_count: 0,
        }
    }

    /// Notes that the packet with this transport sequence number arrived.
    pub fn record(&mut self, sequence: u16, now: Instant) {
        let sequence = self.extender.extend(sequence);
        let epoch = *self.epoch.get_or_insert(now);
        let since = now.saturating_duration_since(epoch);
        let ticks = (since.as_nanos() / TICK_NANOS) as i64;
        if !self.store(sequence, ticks) {
            return;
        }
        self.next = self.next.min(sequence);
        let full = self.end() - self.next >= STATUSES_DUE;
        let due = if full { now } else { now + self.interval };
        self.due = Some(self.due.map_or(due, |old| old.min(due)));
    }

    /// When [`poll`](Self::poll) will have feedback.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Appends a feedback packet, at most 1100 bytes, to `out` if one is due;
    /// call until false. `media` is any source of the transport.
    pub fn poll(&mut self, now: Instant, sender: Ssrc, media: Ssrc, out: &mut Vec<u8>) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        let base = self.next.max(self.start);
        let Some(first_arrival) = (base..self.end()).find_map(|at| self.arrival(at)) else {
            self.due = None;
            return false;
        };
        let mut builder =
            TransportFeedbackBuilder::new(base as u16, first_arrival, FEEDBACK_BYTES_MAX);
        self.next = base;
        while self.next < self.end() && builder.push(self.arrival(self.next)) {
            self.next += 1;
        }
        builder.write(sender, media, self.feedback_count, out);
        self.feedback_count = self.feedback_count.wrapping_add(1);
        if self.next >= self.end() {
            self.due = None;
        }
        self.forget_reported();
        true
    }

    /// Stores an arrival; false for a duplicate or one too old to matter.
    fn store(&mut self, sequence: u64, ticks: i64) -> bool {
        if self.arrivals.is_empty() || sequence >= self.end() + PACKETS_MAX as u64 {
            // The first, or a jump so far that nothing between can be reported.
            self.arrivals.clear();
            self.start = sequence;
            self.next = sequence;
        }
        let Some(offset) = sequence.checked_sub(self.start) else {
            return false;
        };
        let index = offset as usize;
        if let Some(slot) = self.arrivals.get_mut(index) {
            let new = *slot == MISSING;
            if new {
                *slot = ticks;
            }
            return new;
        }
        self.arrivals.resize(index, MISSING);
        self.arrivals.push_back(ticks);
        while self.arrivals.len() > PACKETS_MAX {
            self.drop_first();
        }
        true
    }

    /// One past the highest packet noted.
    fn end(&self) -> u64 {
        self.start + self.arrivals.len() as u64
    }

    fn arrival(&self, sequence: u64) -> Option<i64> {
        let index = sequence.checked_sub(self.start)? as usize;
        self.arrivals
            .get(index)
            .copied()
            .filter(|&ticks| ticks != MISSING)
    }

    fn forget_reported(&mut self) {
        let keep_from = self.next.saturating_sub(REPEATABLE);
        while self.start < keep_from && !self.arrivals.is_empty() {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.arrivals.pop_front();
        self.start += 1;
    }
}

/// libwebrtc's receivers report every 50–250 ms; its senders are tuned to about this.
const INTERVAL: Duration = Duration::from_millis(100);
const TICK_NANOS: u128 = 1_000_000_000 / TICKS_PER_SECOND as u128;
const MISSING: i64 = i64::MIN;
/// Packets remembered: a second of 40 Mbit/s.
const PACKETS_MAX: usize = 4096;
/// Reported packets remembered, so that a late one can be reported among them.
const REPEATABLE: u64 = 256;
/// This many to report are due at once: more would not fit one datagram.
const STATUSES_DUE: u64 = 400;
/// Leaves room in 1200 bytes for SRTCP and a receiver report beside it.
const FEEDBACK_BYTES_MAX: usize = 1100;
