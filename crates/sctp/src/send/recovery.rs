//! When a chunk counts as lost, and when silence does.
//!
//! RACK (RFC 8985 §6) by time: a chunk is lost once something that left later has
//! arrived and it is itself overdue by a reordering window. As time of sending is what
//! counts, not the TSN, a retransmission that gets lost is found like anything else,
//! and nothing is sent again twice within a round trip. Then a probe for the tail
//! (§7), and last the T3 timer of RFC 9260 §6.3.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::RoundTrips;

use super::outstanding::{Fate, Outstanding};

/// So many later packets have to arrive before time alone decides, as long as nothing
/// was ever seen out of order (RFC 8985 §6.2 step 4, `DupThresh`).
const LATER_PACKETS: u64 = 3;
/// The reordering window in quarters of the least round trip, at the most (§7.1 of the
/// RFC bounds it by the smoothed one).
const QUARTERS_MAX: u32 = 8;
/// Losses without a duplicate after which the window narrows again (§6.2 step 4).
const PERSISTENCE: u32 = 16;
/// Timers are coarse, and so are peers: no probe sooner.
const PROBE_MIN: Duration = Duration::from_millis(10);
/// What a peer may wait before it acknowledges one packet alone.
const PEER_DELAY: Duration = Duration::from_millis(50);

/// Retransmission time-outs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) initial: Duration,
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

/// The newest packet that is known to have arrived.
#[derive(Clone, Copy, Debug)]
struct Newest {
    packet: u64,
    round_trip: Duration,
}

/// What the timers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Look for losses again.
    Losses,
    /// Send a probe.
    Probe,
    /// T3 ran out.
    Timeout,
}

/// Loss detection of one association.
#[derive(Debug)]
pub(crate) struct Recovery {
    bounds: Bounds,
    /// Every transmission of a chunk that is not settled: packet and TSN, in order.
    order: VecDeque<(u64, u64)>,
    newest: Option<Newest>,
    /// The highest TSN that arrived.
    highest: u64,
    /// Something arrived out of order that was sent once only.
    reordered: bool,
    /// The reordering window, in quarters of the least round trip.
    quarters: u32,
    widened: Option<Instant>,
    without_duplicates: u32,
    losses_at: Option<Instant>,
    probe_at: Option<Instant>,
    /// One probe only until something is acknowledged (RFC 8985 §7.2).
    probing: bool,
    timeout_at: Option<Instant>,
    /// Time-outs since anything was acknowledged.
    timeouts: u32,
}

impl Recovery {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            order: VecDeque::new(),
            newest: None,
            highest: 0,
            reordered: false,
            quarters: 1,
            widened: None,
            without_duplicates: 0,
            losses_at: None,
            probe_at: None,
            probing: false,
            timeout_at: None,
            timeouts: 0,
        }
    }

    /// RFC 9260 §6.3.1, backed off (§6.3.3 E2).
    pub(crate) fn rto(&self, trips: &RoundTrips) -> Duration {
        let base = match (trips.smoothed(), trips.variation()) {
            (Some(smoothed), Some(variation)) => smoothed + variation * 4,
            _ => self.bounds.initial,
        };
        let base = base.max(self.bounds.min);
        let backed_off = base.saturating_mul(1 << self.timeouts.min(10));
        backed_off.min(self.bounds.max).max(self.bounds.min)
    }

    /// Time-outs since anything was acknowledged.
    pub(crate) const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Chunk `tsn` left in `packet`.
    pub(crate) fn on_sent(&mut self, packet: u64, tsn: u64) {
        self.order.push_back((packet, tsn));
    }

    /// A packet with data left; `in_flight` counts it.
    pub(crate) fn on_packet(&mut self, now: Instant, trips: &RoundTrips, alone: bool) {
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now + self.rto(trips));
        }
        if self.timeouts == 0 && !self.probing {
            self.probe_at = trips.smoothed().map(|smoothed| {
                let wait = (smoothed * 2).max(PROBE_MIN);
                now + if alone { wait + PEER_DELAY } else { wait }
            });
        }
    }

    /// A chunk arrived. `late`: it was in flight for the first time, so that order can
    /// be told by it.
    pub(crate) fn on_arrived(
        &mut self,
        now: Instant,
        packet: u64,
        sent: Instant,
        tsn: u64,
        times: u16,
        highest_before: u64,
    ) {
        if self.newest.is_none_or(|newest| packet > newest.packet) {
            self.newest = Some(Newest {
                packet,
                round_trip: now.saturating_duration_since(sent),
            });
        }
        self.highest = self.highest.max(tsn);
        if times == 1 && tsn < highest_before {
            self.reordered = true;
        }
    }

    /// The highest TSN that arrived.
    pub(crate) const fn highest(&self) -> u64 {
        self.highest
    }

    /// Something was sent again for nothing: be more patient, at most once a round trip
    /// (RFC 8985 §6.2 step 4).
    pub(crate) fn on_needless(&mut self, now: Instant, trips: &RoundTrips) {
        let round_trip = trips.smoothed().unwrap_or_default();
        let recent = |at: Instant| now.saturating_duration_since(at) < round_trip;
        self.reordered = true;
        self.without_duplicates = 0;
        if !self.widened.is_some_and(recent) {
            self.quarters = (self.quarters + 1).min(QUARTERS_MAX);
            self.widened = Some(now);
        }
    }

    /// An acknowledgement brought something new: timers begin again. `waiting`: there
    /// is still something on its way.
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

    /// Nothing is on its way any more.
    pub(crate) fn on_idle(&mut self) {
        self.timeout_at = None;
        self.probe_at = None;
        self.losses_at = None;
    }

    fn patience(&self, trips: &RoundTrips) -> Duration {
        let least = trips.least().unwrap_or_default();
        let smoothed = trips.smoothed().unwrap_or_default();
        (least / 4 * self.quarters).min(smoothed)
    }

    /// TSNs that are lost by now, in the order in which they were sent; the caller
    /// notes so. Sets the timer for those that may be soon. Nothing is known of TSNs
    /// beyond `reach`.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        outstanding: &Outstanding,
        trips: &RoundTrips,
        reach: u64,
        lost: &mut Vec<u64>,
    ) {
        self.losses_at = None;
        let before = lost.len();
        while let Some(&(packet, tsn)) = self.order.front() {
            let present =
                |it: &&super::outstanding::Sent| it.packet == packet && it.fate == Fate::InFlight;
            let Some(chunk) = outstanding.get(tsn).filter(present) else {
                self.order.pop_front();
                continue;
            };
            let Some(newest) = self.newest.filter(|newest| newest.packet >= packet) else {
                break;
            };
            if tsn > reach {
                break;
            }
            let counted = !self.reordered && newest.packet >= packet + LATER_PACKETS;
            let patience = if counted {
                Duration::ZERO
            } else {
                self.patience(trips)
            };
            let due = chunk.at + newest.round_trip + patience;
            if due > now {
                self.losses_at = Some(due);
                break;
            }
            lost.push(tsn);
            self.order.pop_front();
        }
        if lost.len() > before {
            self.without_duplicates += 1;
            if self.without_duplicates >= PERSISTENCE {
                self.quarters = 1;
                self.without_duplicates = 0;
            }
        }
    }

    /// T3 ran out: what is overdue is lost, the first chunk in any case.
    pub(crate) fn time_out(
        &mut self,
        now: Instant,
        outstanding: &Outstanding,
        trips: &RoundTrips,
        lost: &mut Vec<u64>,
    ) {
        let overdue = trips.smoothed().unwrap_or_default() + self.patience(trips);
        while let Some(&(packet, tsn)) = self.order.front() {
            let present =
                |it: &&super::outstanding::Sent| it.packet == packet && it.fate == Fate::InFlight;
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

    /// A probe left: T3 is next.
    pub(crate) fn on_probe(&mut self, now: Instant, trips: &RoundTrips) {
        self.probe_at = None;
        self.probing = true;
        self.timeout_at = Some(now + self.rto(trips));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timers = [self.losses_at, self.probe_at, self.timeout_at];
        timers.into_iter().flatten().min()
    }

    /// What has run out; one at a time.
    pub(crate) fn due(&self, now: Instant) -> Option<Due> {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_over(self.losses_at) {
            Some(Due::Losses)
        } else if is_over(self.timeout_at) {
            Some(Due::Timeout)
        } else if is_over(self.probe_at) {
            Some(Due::Probe)
        } else {
            None
        }
    }
}
