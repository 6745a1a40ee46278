//! Heartbeats: is the peer still there (RFC 9260 §8.3), and how large may packets be
//! (RFC 8899 §5, with HEARTBEAT and PAD as §6.2.1 has it).
//!
//! ```text
//!  established ─► probe mtu_max ─ answered ─► done
//!                     │ unanswered, twice
//!                     ▼
//!                 halve the distance to what is known to pass, until it is small
//! ```
//!
//! Should larger packets cease to pass, the association goes back to where the search
//! began, and searches anew after a while.

use std::time::{Duration, Instant};

use glassline_media::fields::u32_at;

use crate::Config;
use crate::chunk::{Heartbeat, Pad};
use crate::packet::PacketBuilder;

/// Bytes of our Heartbeat Info: a 32-bit number and the packet's size.
const INFO_BYTES: usize = 8;
/// Probes of one size that may get lost before that size counts as too large (RFC 8899
/// §5.1.2, MAX_PROBES; fewer than the RFC suggests, because a data channel does not live
/// long).
const PROBES_MAX: u32 = 2;
/// The search ends when its bounds are this close, in bytes.
const STEP_MIN: usize = 32;
/// Time after a search, or after larger packets ceased to pass, until the next search (RFC
/// 8899 §5.1.1, PMTU_RAISE_TIMER).
const RAISE: Duration = Duration::from_secs(600);
/// How often an end that only receives measures the round trip.
const MEASURED: Duration = Duration::from_secs(1);
/// HEARTBEAT ACKs that may wait to be sent.
const ANSWERS_MAX: usize = 4;

/// A heartbeat that was sent and not yet answered.
#[derive(Clone, Copy, Debug)]
struct PendingHeartbeat {
    /// Number in the Heartbeat Info, which the answer must repeat.
    number: u32,
    /// When the heartbeat was sent.
    at: Instant,
    /// Size of the packet in bytes, if it is an MTU probe.
    probe: Option<usize>,
    /// When the heartbeat counts as unanswered.
    expires: Instant,
}

/// The finding of an answered heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeartbeatResult {
    /// Time between the heartbeat and its answer.
    pub(super) round_trip: Option<Duration>,
    /// Size of the probe that arrived, in bytes: packets this large pass.
    pub(super) mtu: Option<usize>,
}

/// Heartbeats and MTU search of one association.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    /// Number of the latest heartbeat.
    last_number: u32,
    /// The heartbeat that waits for its answer; there is at most one.
    pending: Option<PendingHeartbeat>,
    /// When the next periodic heartbeat is due.
    next_at: Option<Instant>,
    /// Whether a heartbeat has to be sent now.
    due: bool,
    /// The MTU search that is under way.
    search: Option<MtuSearch>,
    /// When to start the next MTU search.
    raise_at: Option<Instant>,
    /// When a heartbeat was last sent to measure the round trip.
    measured: Option<Instant>,
    /// Heartbeat Info values that wait to be sent back.
    answers: Vec<Vec<u8>>,
}

/// A binary search for the largest packet that passes (RFC 8899 §5.3).
#[derive(Clone, Copy, Debug)]
struct MtuSearch {
    /// Largest size that is known to pass, in bytes.
    low: usize,
    /// Smallest size that is assumed not to pass, in bytes.
    high: usize,
    /// Size of the next probe, in bytes.
    size: usize,
    /// Probes of this size that were lost.
    failures: u32,
}

impl Heartbeats {
    /// Starts the periodic heartbeats and the MTU search of an established association.
    pub(super) fn begin(&mut self, config: &Config, mtu: usize, now: Instant) {
        self.next_at = Some(now + config.heartbeat_interval);
        self.measured = Some(now);
        self.search(config, mtu, now);
    }

    /// Starts a search for packets larger than `mtu`, if the configuration allows any.
    fn search(&mut self, config: &Config, mtu: usize, now: Instant) {
        if config.mtu_max >= mtu + STEP_MIN {
            self.search = Some(MtuSearch {
                low: mtu,
                high: config.mtu_max + 1,
                size: config.mtu_max & !3,
                failures: 0,
            });
            self.raise_at = Some(now + RAISE);
        }
    }

    /// Stops the search, because packets of the present size ceased to pass.
    pub(super) fn fall_back(&mut self, now: Instant) {
        self.search = None;
        self.raise_at = Some(now + RAISE);
    }

    /// Requests a heartbeat to measure the round trip: data arrives and none is sent, so
    /// nothing else measures it. Does nothing if the last measurement is recent.
    pub(super) fn measure(&mut self, now: Instant) {
        let recent = |at: Instant| now.saturating_duration_since(at) < MEASURED;
        if !self.measured.is_some_and(recent) {
            self.measured = Some(now);
            self.due = true;
        }
    }

    /// Postpones the next periodic heartbeat, because the acknowledgement of the data just
    /// sent shows as well that the peer is alive.
    pub(super) fn postpone(&mut self, config: &Config, now: Instant) {
        self.next_at = Some(now + config.heartbeat_interval);
    }

    /// Queues the answer to a HEARTBEAT that carried `info`.
    pub(super) fn on_heartbeat(&mut self, info: &[u8]) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push(info.to_vec());
        }
    }

    /// Removes and returns the info of a HEARTBEAT ACK that waits to be sent.
    pub(super) fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.answers.pop()
    }

    /// Whether a HEARTBEAT ACK waits to be sent.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Handles a HEARTBEAT ACK. Answers other than to the pending heartbeat change nothing.
    pub(super) fn on_answer(&mut self, info: &[u8], now: Instant) -> HeartbeatResult {
        let mut outcome = HeartbeatResult::default();
        let matches = |pending: &PendingHeartbeat| {
            info.len() == INFO_BYTES && u32_at(info, 0) == pending.number
        };
        let Some(pending) = self.pending.filter(matches) else {
            return outcome;
        };
        self.pending = None;
        outcome.round_trip = Some(now.saturating_duration_since(pending.at));
        if let (Some(size), Some(search)) = (pending.probe, &mut self.search) {
            search.low = size;
            outcome.mtu = Some(size);
            self.search = search.narrowed();
        }
        outcome
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let expires = self.pending.map(|pending| pending.expires);
        let timers = [expires, self.next_at, self.raise_at];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers. Returns whether a heartbeat that was not an MTU probe went
    /// unanswered. `mtu`: the present packet size, in bytes.
    pub(super) fn handle_timeout(&mut self, config: &Config, mtu: usize, now: Instant) -> bool {
        let mut missed = false;
        if self.pending.is_some_and(|pending| now >= pending.expires) {
            let probe = self.pending.take().and_then(|pending| pending.probe);
            missed = probe.is_none();
            // Send the next one at once (§8.3), as the peer may be gone.
            self.due |= missed;
            if let (Some(_), Some(search)) = (probe, &mut self.search) {
                search.failures += 1;
                if search.failures >= PROBES_MAX {
                    search.high = search.size;
                    self.search = search.narrowed();
                }
            }
        }
        if self.next_at.is_some_and(|at| now >= at) {
            self.next_at = Some(now + config.heartbeat_interval);
            self.due = true;
        }
        if self.raise_at.is_some_and(|at| now >= at) {
            self.raise_at = None;
            self.search(config, mtu, now);
        }
        missed
    }

    /// Whether a heartbeat has to be sent now.
    pub(super) const fn is_due(&self) -> bool {
        self.due && self.pending.is_none()
    }

    /// Appends a heartbeat to the packet if one is due. `rto`: time after which it counts
    /// as unanswered.
    pub(super) fn write(&mut self, packet: &mut PacketBuilder<'_>, now: Instant, rto: Duration) {
        if self.is_due() && self.put(packet, now, rto, None) {
            self.due = false;
        }
    }

    /// Returns the size of the next MTU probe in bytes, if one should be sent now.
    pub(super) fn probe(&self) -> Option<usize> {
        let idle = self.pending.is_none();
        self.search.filter(|_| idle).map(|search| search.size)
    }

    /// Fills the packet with a heartbeat and padding, as an MTU probe.
    pub(super) fn write_probe(
        &mut self,
        packet: &mut PacketBuilder<'_>,
        now: Instant,
        rto: Duration,
    ) {
        let size = packet.len() + packet.room();
        if self.put(packet, now, rto, Some(size))
            && let Some(pad) = Pad::filling(packet)
        {
            // The padding has exactly the size of the room that is left.
            let _ = pad.write(packet);
        }
    }

    /// Notes that the caller's buffer cannot hold a probe of this size: the search goes on
    /// below it.
    pub(super) fn refuse_probe(&mut self) {
        if let Some(search) = &mut self.search {
            search.high = search.size;
            self.search = search.narrowed();
        }
    }

    /// Appends a heartbeat and remembers it as pending; false if it does not fit.
    fn put(
        &mut self,
        packet: &mut PacketBuilder<'_>,
        now: Instant,
        rto: Duration,
        probe: Option<usize>,
    ) -> bool {
        self.last_number = self.last_number.wrapping_add(1);
        let mut info = [0; INFO_BYTES];
        info[..4].copy_from_slice(&self.last_number.to_be_bytes());
        let size = u32::try_from(probe.unwrap_or(0)).unwrap_or(0);
        info[4..].copy_from_slice(&size.to_be_bytes());
        if (Heartbeat { info: &info }).write(packet).is_err() {
            return false;
        }
        self.pending = Some(PendingHeartbeat {
            number: self.last_number,
            at: now,
            probe,
            expires: now + rto,
        });
        true
    }
}

impl MtuSearch {
    /// Returns the search with its next size; `None` when it is finished.
    fn narrowed(mut self) -> Option<Self> {
        self.failures = 0;
        if self.high <= self.low + STEP_MIN {
            return None;
        }
        let between = self.low + (self.high - self.low) / 2;
        self.size = between & !3;
        (self.size > self.low).then_some(self)
    }
}
