//! A TCP flow beside the viewers: CUBIC, with an acknowledgement for each segment.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Flow};

/// Payload of a segment in bytes.
const SEGMENT: u64 = 1_448;
/// Later acknowledgements after which a segment counts as lost (RFC 9002 §6.1.1).
const REORDERING: u64 = 3;
/// Least time without an acknowledgement after which all segments count as lost.
const TIMEOUT_MIN: Duration = Duration::from_millis(300);

/// The sending end of a TCP flow.
#[derive(Debug)]
pub(super) struct Bulk {
    flow: Flow,
    next: u64,
    unacked: BTreeSet<u64>,
    /// Bytes that are still to be sent; `None` for a flow without end.
    left: Option<u64>,
    /// Time of the latest acknowledgement, or of the first segment in flight.
    heard: Option<Instant>,
    /// Bytes that arrived.
    pub(super) delivered: u64,
}

impl Bulk {
    /// Returns a flow that sends `bytes`, or without end.
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self {
            flow: Flow::new(Algorithm::Cubic.start(SEGMENT)),
            next: 0,
            unacked: BTreeSet::new(),
            left: bytes,
            heard: None,
            delivered: 0,
        }
    }

    /// Returns whether all bytes have arrived.
    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0) && self.unacked.is_empty()
    }

    /// Sends as many bytes more.
    pub(super) fn continue_with(&mut self, bytes: u64) {
        self.left = Some(self.left.unwrap_or_default() + bytes);
    }

    /// Returns the number of the next segment that leaves at `now`; to be called until `None`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<u64> {
        if self.flow.allowance() < SEGMENT || self.left == Some(0) {
            return None;
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(SEGMENT);
        }
        let number = self.next;
        self.next += 1;
        if self.unacked.is_empty() {
            self.heard = Some(now);
        }
        self.unacked.insert(number);
        self.flow.on_sent(now, number, SEGMENT);
        Some(number)
    }

    /// Takes the acknowledgement of a segment.
    pub(super) fn acknowledge(&mut self, number: u64, now: Instant) {
        self.heard = Some(now);
        if self.unacked.remove(&number) {
            self.delivered += SEGMENT;
            self.flow.on_acked(now, [number], Duration::ZERO);
        }
        let lost: Vec<u64> = self
            .unacked
            .range(..number.saturating_sub(REORDERING - 1))
            .copied()
            .collect();
        self.lose(lost, false, now);
    }

    /// Returns when the segments in flight count as lost.
    pub(super) fn due(&self) -> Option<Instant> {
        let heard = self.heard.filter(|_| !self.unacked.is_empty())?;
        let round_trip = self.flow.round_trips().smoothed().unwrap_or(TIMEOUT_MIN);
        Some(heard + TIMEOUT_MIN.max(2 * round_trip))
    }

    /// Gives up the segments in flight if nothing was heard of them.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due().is_some_and(|at| at <= now) {
            self.heard = Some(now);
            let lost = self.unacked.iter().copied().collect();
            self.lose(lost, true, now);
        }
    }

    fn lose(&mut self, numbers: Vec<u64>, persistent: bool, now: Instant) {
        if numbers.is_empty() {
            return;
        }
        for number in &numbers {
            self.unacked.remove(number);
        }
        if let Some(left) = &mut self.left {
            *left += numbers.len() as u64 * SEGMENT;
        }
        self.flow.on_lost(now, numbers, persistent);
    }
}
