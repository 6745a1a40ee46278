use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use crate::SequenceExtender;
use crate::rtcp::{TICKS_PER_SECOND, TransportFeedbackBuilder};

/// Records arrivals at the receiver and writes transport feedback about them.
///
/// A packet that arrives after its number was reported missing is reported again together with
/// its neighbors. The recorder takes 8 bytes per packet and keeps at most 4096 packets; older
/// ones are dropped even if they were not reported.
#[derive(Clone, Debug)]
pub struct Recorder {
    interval: Duration,
    extender: SequenceExtender,
    epoch: Option<Instant>,
    /// For packet `start + index`, its arrival in ticks after `epoch`, or [`MISSING`].
    arrivals: VecDeque<i64>,
    start: u64,
    /// Number at which the next feedback begins: behind the last one, or at a late packet.
    next: u64,
    due: Option<Instant>,
    /// Missing packets that may still be recorded.
    gap_allowance: usize,
    feedback_count: u8,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(INTERVAL)
    }
}

impl Recorder {
    /// Creates a recorder that writes feedback every `interval` while packets arrive; the
    /// default is 100 ms.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            extender: SequenceExtender::new(),
            epoch: None,
            arrivals: VecDeque::new(),
            start: 0,
            next: 0,
            due: None,
            gap_allowance: PACKETS_MAX,
            feedback_count: 0,
        }
    }

    /// Records the arrival of the packet with this transport sequence number.
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

    /// Returns the instant at which [`poll`](Self::poll) has feedback.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Appends a feedback packet of at most 1100 bytes to `out` if one is due. Returns whether
    /// it did; call until it returns false. `sender` is the receiver's own SSRC, `media` any
    /// SSRC of the transport.
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

    /// Stores an arrival. Returns false for a duplicate, or a packet too old to be kept.
    fn store(&mut self, sequence: u64, ticks: i64) -> bool {
        let gap = sequence.saturating_sub(self.end());
        if self.arrivals.is_empty() || gap > self.gap_allowance as u64 {
            // This is the first packet, or one so far ahead that nothing between is reported.
            self.arrivals.clear();
            self.start = sequence;
            self.next = sequence;
        } else {
            self.gap_allowance -= gap as usize;
        }
        self.gap_allowance = (self.gap_allowance + GAP_PER_PACKET).min(PACKETS_MAX);
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

    /// Returns the number behind the highest packet recorded.
    fn end(&self) -> u64 {
        self.start + self.arrivals.len() as u64
    }

    /// Returns the arrival of a packet in ticks, if it arrived and is still kept.
    fn arrival(&self, sequence: u64) -> Option<i64> {
        let index = sequence.checked_sub(self.start)? as usize;
        self.arrivals
            .get(index)
            .copied()
            .filter(|&ticks| ticks != MISSING)
    }

    /// Drops packets that were reported, except the most recent ones.
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

/// Interval between feedback packets. libwebrtc's receivers send them every 50 to 250 ms, and
/// its senders are tuned for about this value.
const INTERVAL: Duration = Duration::from_millis(100);
/// Length of a tick of arrival times in ns.
const TICK_NANOS: u128 = 1_000_000_000 / TICKS_PER_SECOND as u128;
/// Marks a packet that has not arrived.
const MISSING: i64 = i64::MIN;
/// Most packets that are kept: a second of 40 Mbit/s.
const PACKETS_MAX: usize = 4096;
/// Missing packets that each arrival allows to record: far more than a path loses on which
/// anything can be sent. An outage may use what was saved up, `PACKETS_MAX`.
const GAP_PER_PACKET: usize = 16;
/// Reported packets that are kept, so that a late packet can be reported between them.
const REPEATABLE: u64 = 256;
/// Number of packets to report at which feedback is due at once: more would not fit a datagram.
const STATUSES_DUE: u64 = 400;
/// Size limit of a feedback packet. It leaves room in 1200 bytes for SRTCP and a receiver
/// report.
const FEEDBACK_BYTES_MAX: usize = 1100;
