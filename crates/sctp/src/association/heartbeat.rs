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

/// What we put into a heartbeat: a number and the packet's size.
const INFO_BYTES: usize = 8;
/// Probes of one size that may get lost (RFC 8899 §5.1.2, MAX_PROBES, less patient: a
/// data channel does not live long).
const PROBES_MAX: u32 = 2;
/// Closer than this is not worth a probe.
const STEP_MIN: usize = 32;
/// After a search, or after larger packets ceased to pass, another one comes as late as
/// this (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
const RAISE: Duration = Duration::from_secs(600);
/// An end that only receives looks at the round trip so often.
const MEASURED: Duration = Duration::from_secs(1);
/// Answers that wait to be sent, at the most.
const ANSWERS_MAX: usize = 4;

/// A heartbeat on its way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u32,
    at: Instant,
    /// Of the packet, if it probes.
    probe: Option<usize>,
    expires: Instant,
}

/// What became of heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) round_trip: Option<Duration>,
    /// Packets of this size pass.
    pub(super) mtu: Option<usize>,
}

/// Heartbeats of one association.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    numbers: u32,
    asked: Option<Asked>,
    /// The next ordinary one.
    next_at: Option<Instant>,
    due: bool,
    search: Option<Search>,
    /// When to search for a larger packet again.
    raise_at: Option<Instant>,
    /// When the round trip was last asked for.
    measured: Option<Instant>,
    answers: Vec<Vec<u8>>,
}

/// Looking for the largest packet that passes.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Passes.
    low: usize,
    /// Does not, as far as is known.
    high: usize,
    /// To try next.
    size: usize,
    failures: u32,
}

impl Heartbeats {
    /// Established: heartbeats begin, and the search for the path's MTU.
    pub(super) fn begin(&mut self, config: &Config, mtu: usize, now: Instant) {
        self.next_at = Some(now + config.heartbeat_interval);
        self.measured = Some(now);
        self.search(config, mtu, now);
    }

    /// Looks for packets larger than `mtu`, if they may be.
    fn search(&mut self, config: &Config, mtu: usize, now: Instant) {
        if config.mtu_max >= mtu + STEP_MIN {
            self.search = Some(Search {
                low: mtu,
                high: config.mtu_max + 1,
                size: config.mtu_max & !3,
                failures: 0,
            });
            self.raise_at = Some(now + RAISE);
        }
    }

    /// Nothing of the present size passes any more.
    pub(super) fn fall_back(&mut self, now: Instant) {
        self.search = None;
        self.raise_at = Some(now + RAISE);
    }

    /// Data comes and none goes, so that nothing else tells the round trip: ask.
    pub(super) fn measure(&mut self, now: Instant) {
        let recent = |at: Instant| now.saturating_duration_since(at) < MEASURED;
        if !self.measured.is_some_and(recent) {
            self.measured = Some(now);
            self.due = true;
        }
    }

    /// Data travels: no need to ask whether anybody is there.
    pub(super) fn postpone(&mut self, config: &Config, now: Instant) {
        self.next_at = Some(now + config.heartbeat_interval);
    }

    /// A question came; what it said is to be sent back.
    pub(super) fn on_heartbeat(&mut self, info: &[u8]) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push(info.to_vec());
        }
    }

    pub(super) fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.answers.pop()
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// An answer came.
    pub(super) fn on_answer(&mut self, info: &[u8], now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let matches = |asked: &Asked| info.len() == INFO_BYTES && u32_at(info, 0) == asked.number;
        let Some(asked) = self.asked.filter(matches) else {
            return outcome;
        };
        self.asked = None;
        outcome.round_trip = Some(now.saturating_duration_since(asked.at));
        if let (Some(size), Some(search)) = (asked.probe, &mut self.search) {
            search.low = size;
            outcome.mtu = Some(size);
            self.search = search.narrowed();
        }
        outcome
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let expires = self.asked.map(|asked| asked.expires);
        let timers = [expires, self.next_at, self.raise_at];
        timers.into_iter().flatten().min()
    }

    /// Whether one went unanswered that ought to have been. `mtu`: that of now.
    pub(super) fn handle_timeout(&mut self, config: &Config, mtu: usize, now: Instant) -> bool {
        let mut missed = false;
        if self.asked.is_some_and(|asked| now >= asked.expires) {
            let probe = self.asked.take().and_then(|asked| asked.probe);
            missed = probe.is_none();
            // Nobody answered: ask again at once (§8.3), as it may be over.
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

    pub(super) const fn is_due(&self) -> bool {
        self.due && self.asked.is_none()
    }

    /// Appends a heartbeat that is due.
    pub(super) fn write(&mut self, packet: &mut PacketBuilder<'_>, now: Instant, rto: Duration) {
        if self.is_due() && self.put(packet, now, rto, None) {
            self.due = false;
        }
    }

    /// The size of the next probe, if it is time for one.
    pub(super) fn probe(&self) -> Option<usize> {
        let idle = self.asked.is_none();
        self.search.filter(|_| idle).map(|search| search.size)
    }

    /// Fills a packet of the probe's size.
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
            // It fills what there is.
            let _ = pad.write(packet);
        }
    }

    /// The shell cannot carry a probe of this size.
    pub(super) fn refuse_probe(&mut self) {
        if let Some(search) = &mut self.search {
            search.high = search.size;
            self.search = search.narrowed();
        }
    }

    fn put(
        &mut self,
        packet: &mut PacketBuilder<'_>,
        now: Instant,
        rto: Duration,
        probe: Option<usize>,
    ) -> bool {
        self.numbers = self.numbers.wrapping_add(1);
        let mut info = [0; INFO_BYTES];
        info[..4].copy_from_slice(&self.numbers.to_be_bytes());
        let size = u32::try_from(probe.unwrap_or(0)).unwrap_or(0);
        info[4..].copy_from_slice(&size.to_be_bytes());
        if (Heartbeat { info: &info }).write(packet).is_err() {
            return false;
        }
        self.asked = Some(Asked {
            number: self.numbers,
            at: now,
            probe,
            expires: now + rto,
        });
        true
    }
}

impl Search {
    /// The next size to try; `None` when it is found.
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
