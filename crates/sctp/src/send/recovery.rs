//! Loss detection and retransmission timers.
//!
//! RACK (RFC 8985 §6) goes by time: a chunk is lost once something that was sent later has
//! arrived and the chunk itself is overdue by a reordering window. As the time of sending
//! counts, not the TSN, the loss of a retransmission is detected like any other, and
//! nothing is retransmitted twice within a round trip. A tail-loss probe (§7) and the T3
//! timer of RFC 9260 §6.3 follow when no acknowledgement comes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::RoundTrips;

use super::outstanding::{ChunkState, Outstanding};

/// Packets sent later that must arrive before a chunk is lost without a reordering window,
/// while no reordering was ever seen (RFC 8985 §6.2 step 4, `DupThresh`).
const LATER_PACKETS: u64 = 3;
/// Largest reordering window, in quarters of the smallest round trip (RFC 8985 §7.1 bounds
/// it by the smoothed one).
const REORDERING_QUARTERS_MAX: u32 = 8;
/// Loss detections without a duplicate after which the window returns to its smallest size
/// (RFC 8985 §6.2 step 4).
const PERSISTENCE: u32 = 16;
/// Shortest time before a tail-loss probe: timers are coarse, and so are those of peers.
const PROBE_MIN: Duration = Duration::from_millis(10);
/// Time that a peer may wait before it acknowledges a single packet.
const PEER_ACK_DELAY: Duration = Duration::from_millis(50);

/// Bounds of the retransmission time-out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtoBounds {
    /// Value before the first round trip is known.
    pub(crate) initial: Duration,
    /// Smallest value of the retransmission time-out.
    pub(crate) min: Duration,
    /// Largest value of the retransmission time-out.
    pub(crate) max: Duration,
}

/// The packet sent last among those that are known to have arrived (RFC 8985's
/// `RACK.segment`).
#[derive(Clone, Copy, Debug)]
struct NewestAcked {
    /// Number of the packet.
    packet: u64,
    /// Time between the packet and its acknowledgement.
    round_trip: Duration,
}

/// A timer that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiredTimer {
    /// The reordering window of a chunk is over: detect losses again.
    Losses,
    /// A tail-loss probe is to be sent.
    Probe,
    /// The T3 retransmission timer ran out.
    Timeout,
}

/// Loss detection of one association.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Bounds of the retransmission time-out.
    bounds: RtoBounds,
    /// Packet and TSN of every transmission whose chunk may be outstanding, in the order of
    /// sending.
    order: VecDeque<(u64, u64)>,
    /// The newest packet that is known to have arrived.
    newest_acked: Option<NewestAcked>,
    /// Highest TSN that was acknowledged.
    highest: u64,
    /// Whether reordering was seen: a chunk sent only once arrived out of order.
    reordered: bool,
    /// Reordering window, in quarters of the smallest round trip.
    reordering_quarters: u32,
    /// When the reordering window grew last.
    widened: Option<Instant>,
    /// Loss detections since the last spurious retransmission.
    detections_since_spurious: u32,
    /// When to detect losses again.
    losses_at: Option<Instant>,
    /// When to send a tail-loss probe.
    probe_at: Option<Instant>,
    /// Whether a probe was sent since the last acknowledgement; only one is (RFC 8985
    /// §7.2).
    probing: bool,
    /// When T3 runs out.
    timeout_at: Option<Instant>,
    /// Time-outs since the last acknowledgement.
    timeouts: u32,
}

impl Recovery {
    /// Returns loss detection before anything was sent.
    pub(crate) fn new(bounds: RtoBounds) -> Self {
        Self {
            bounds,
            order: VecDeque::new(),
            newest_acked: None,
            highest: 0,
            reordered: false,
            reordering_quarters: 1,
            widened: None,
            detections_since_spurious: 0,
            losses_at: None,
            probe_at: None,
            probing: false,
            timeout_at: None,
            timeouts: 0,
        }
    }

    /// Returns the retransmission time-out (RFC 9260 §6.3.1), with exponential backoff
    /// (§6.3.3 E2).
    pub(crate) fn rto(&self, trips: &RoundTrips) -> Duration {
        let base = match (trips.smoothed(), trips.variation()) {
            (Some(smoothed), Some(variation)) => smoothed + variation * 4,
            _ => self.bounds.initial,
        };
        let base = base.max(self.bounds.min);
        let backed_off = base.saturating_mul(1 << self.timeouts.min(10));
        backed_off.min(self.bounds.max).max(self.bounds.min)
    }

    /// Returns the time-outs since the last acknowledgement.
    pub(crate) const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Records that chunk `tsn` was sent in packet number `packet`.
    pub(crate) fn on_sent(&mut self, packet: u64, tsn: u64) {
        self.order.push_back((packet, tsn));
    }

    /// Starts the timers after a packet with data was sent. `alone`: no other packet is in
    /// flight, so the peer may delay its acknowledgement.
    pub(crate) fn on_packet(&mut self, now: Instant, trips: &RoundTrips, alone: bool) {
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now + self.rto(trips));
        }
        if self.timeouts == 0 && !self.probing {
            self.probe_at = trips.smoothed().map(|smoothed| {
                let wait = (smoothed * 2).max(PROBE_MIN);
                now + if alone { wait + PEER_ACK_DELAY } else { wait }
            });
        }
    }

    /// Records the acknowledgement of a chunk. `times`: how often it was sent; one that was
    /// sent once shows reordering. `highest_before`: highest TSN acknowledged before this
    /// SACK.
    pub(crate) fn on_arrived(
        &mut self,
        now: Instant,
        packet: u64,
        sent: Instant,
        tsn: u64,
        times: u16,
        highest_before: u64,
    ) {
        if self
            .newest_acked
            .is_none_or(|newest_acked| packet > newest_acked.packet)
        {
            self.newest_acked = Some(NewestAcked {
                packet,
                round_trip: now.saturating_duration_since(sent),
            });
        }
        self.highest = self.highest.max(tsn);
        if times == 1 && tsn < highest_before {
            self.reordered = true;
        }
    }

    /// Returns the highest TSN that was acknowledged.
    pub(crate) const fn highest(&self) -> u64 {
        self.highest
    }

    /// Widens the reordering window after a spurious retransmission, at most once per round
    /// trip (RFC 8985 §6.2 step 4).
    pub(crate) fn on_spurious_retransmit(&mut self, now: Instant, trips: &RoundTrips) {
        let round_trip = trips.smoothed().unwrap_or_default();
        let recent = |at: Instant| now.saturating_duration_since(at) < round_trip;
        self.reordered = true;
        self.detections_since_spurious = 0;
        if !self.widened.is_some_and(recent) {
            self.reordering_quarters = (self.reordering_quarters + 1).min(REORDERING_QUARTERS_MAX);
            self.widened = Some(now);
        }
    }

    /// Restarts the timers after an acknowledgement of new data. `waiting`: data is still
    /// outstanding. `alone`: at most one packet is in flight.
    pub(crate) fn on_progress(
        &mut self,
        now: Instant,
        trips: &RoundTrips,
        waiting: bool,
        alone: bool,
    ) {
        self.timeouts = 0;
        self.probing = false;
        self.timeout_at = None;
        self.probe_at = None;
        if waiting {
            self.on_packet(now, trips, alone);
        }
    }

    /// Stops the timers, because nothing is outstanding.
    pub(crate) fn on_idle(&mut self) {
        self.timeout_at = None;
        self.probe_at = None;
        self.losses_at = None;
    }

    /// Returns the reordering window (RFC 8985 §6.2 step 4).
    fn reordering_window(&self, trips: &RoundTrips) -> Duration {
        let least = trips.least().unwrap_or_default();
        let smoothed = trips.smoothed().unwrap_or_default();
        (least / 4 * self.reordering_quarters).min(smoothed)
    }

    /// Appends to `lost` the TSNs that are lost by now, in the order of sending; the caller
    /// marks the chunks. Sets the timer for those that may be lost soon. Nothing is known
    /// of TSNs beyond `sack_coverage_end`.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        outstanding: &Outstanding,
        trips: &RoundTrips,
        sack_coverage_end: u64,
        lost: &mut Vec<u64>,
    ) {
        self.losses_at = None;
        let before = lost.len();
        while let Some(&(packet, tsn)) = self.order.front() {
            let present = |it: &&super::outstanding::OutstandingChunk| {
                it.packet == packet && it.state == ChunkState::InFlight
            };
            let Some(chunk) = outstanding.get(tsn).filter(present) else {
                self.order.pop_front();
                continue;
            };
            let Some(newest_acked) = self
                .newest_acked
                .filter(|newest_acked| newest_acked.packet >= packet)
            else {
                break;
            };
            if tsn > sack_coverage_end {
                break;
            }
            let counted = !self.reordered && newest_acked.packet >= packet + LATER_PACKETS;
            let reordering_window = if counted {
                Duration::ZERO
            } else {
                self.reordering_window(trips)
            };
            let due = chunk.at + newest_acked.round_trip + reordering_window;
            if due > now {
                self.losses_at = Some(due);
                break;
            }
            lost.push(tsn);
            self.order.pop_front();
        }
        if lost.len() > before {
            self.detections_since_spurious += 1;
            if self.detections_since_spurious >= PERSISTENCE {
                self.reordering_quarters = 1;
                self.detections_since_spurious = 0;
            }
        }
    }

    /// Handles T3: appends to `lost` the chunks that are overdue, the first one in any
    /// case.
    pub(crate) fn time_out(
        &mut self,
        now: Instant,
        outstanding: &Outstanding,
        trips: &RoundTrips,
        lost: &mut Vec<u64>,
    ) {
        let overdue = trips.smoothed().unwrap_or_default() + self.reordering_window(trips);
        while let Some(&(packet, tsn)) = self.order.front() {
            let present = |it: &&super::outstanding::OutstandingChunk| {
                it.packet == packet && it.state == ChunkState::InFlight
            };
            if let Some(chunk) = outstanding.get(tsn).filter(present) {
                if !lost.is_empty() && chunk.at + overdue > now {
                    break;
                }
                lost.push(tsn);
            }
            self.order.pop_front();
        }
        self.timeouts += 1;
        self.probe_at = None;
        self.losses_at = None;
        self.timeout_at = Some(now + self.rto(trips));
    }

    /// Records that a probe was sent: T3 is the next timer.
    pub(crate) fn on_probe(&mut self, now: Instant, trips: &RoundTrips) {
        self.probe_at = None;
        self.probing = true;
        self.timeout_at = Some(now + self.rto(trips));
    }

    /// Returns the earliest timer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timers = [self.losses_at, self.probe_at, self.timeout_at];
        timers.into_iter().flatten().min()
    }

    /// Returns a timer that ran out; one at a time.
    pub(crate) fn due(&self, now: Instant) -> Option<ExpiredTimer> {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_over(self.losses_at) {
            Some(ExpiredTimer::Losses)
        } else if is_over(self.timeout_at) {
            Some(ExpiredTimer::Timeout)
        } else if is_over(self.probe_at) {
            Some(ExpiredTimer::Probe)
        } else {
            None
        }
    }
}
