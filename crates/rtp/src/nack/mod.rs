//! Requests for lost packets, at the receiver (generic NACK, RFC 4585 §6.2.1; retransmission is
//! RFC 4588). The RFCs leave open when to request a packet, how often, and when to stop; the
//! policy here is our own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Timing and bounds of a [`NackGenerator`].
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Time from noticing a gap to the first request. Most gaps that are not losses, but
    /// reordering, close within it.
    pub reorder_wait: Duration,
    /// Minimum time between two requests for the same packet. Where it is longer, the
    /// round-trip time plus a quarter is used.
    pub retry_interval_min: Duration,
    /// Whether the first request is repeated after a fifth of the retry interval. The loss of a
    /// request is then rare, and a packet that arrives within that time is not requested twice.
    /// Publishers that do not ignore repetitions send a packet twice.
    pub repeats: bool,
    /// Number of requests for one packet before it is given up.
    pub requests_max: u32,
    /// Time from noticing a gap until its packets are given up, because they would arrive too
    /// late.
    pub budget: Duration,
    /// Number of packets that may be missing at a time; beyond it the oldest are given up. The
    /// packets of a gap larger than this are not requested at all: a keyframe costs less.
    pub missing_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reorder_wait: Duration::from_millis(3),
            retry_interval_min: Duration::from_millis(20),
            repeats: false,
            requests_max: 10,
            budget: Duration::from_secs(1),
            missing_max: 1000,
        }
    }
}

/// The place of a packet among those that the generator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet is the first, or follows the highest number so far.
    Next,
    /// The packet is ahead of `missing` packets that have not arrived.
    Gap {
        /// Number of packets between the highest number so far and this one.
        missing: u64,
    },
    /// The packet fills a gap.
    Recovered {
        /// Number of requests that were made for the packet; 0 if it was only reordered.
        requests: u32,
        /// Time since its gap was noticed.
        after: Duration,
    },
    /// The packet is a duplicate, or was given up.
    Old,
}

/// Tracks the sequence numbers of one stream and decides which packets to request.
///
/// ```
/// use glassline_rtp::nack::{Arrival, Config, NackGenerator};
/// use std::time::{Duration, Instant};
///
/// let mut nack = NackGenerator::new(Config::default());
/// let now = Instant::now();
/// assert_eq!(nack.on_packet(100, now), Arrival::Next);
/// assert_eq!(nack.on_packet(102, now), Arrival::Gap { missing: 1 });
/// // Reordering may still close the gap; the request is due after `Config::reorder_wait`.
/// assert!(nack.poll(now).is_empty());
/// let due = nack.poll_timeout().expect("a packet is missing");
/// assert_eq!(nack.poll(due), [101]);
/// // The retransmission arrives.
/// let later = due + Duration::from_millis(30);
/// assert!(matches!(nack.on_packet(101, later), Arrival::Recovered { requests: 1, .. }));
/// ```
#[derive(Clone, Debug)]
pub struct NackGenerator {
    config: Config,
    retry_interval: Duration,
    /// Round-trip time by answered requests; `None` before the first, and once
    /// [`set_rtt`](Self::set_rtt) gave a better one.
    learned_rtt: Option<Duration>,
    learns_rtt: bool,
    highest: Option<u64>,
    /// Runs of missing packets by their first number, apart from each other: the gap before a
    /// packet is one entry, however long its sender makes it.
    runs: BTreeMap<u64, MissingRun>,
    /// Number of packets in `runs`.
    missing: usize,
    due: Option<Instant>,
    given_up: u64,
}

impl Default for NackGenerator {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl NackGenerator {
    /// Creates a generator that has not received anything.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            retry_interval: INITIAL_RTT.max(config.retry_interval_min),
            learned_rtt: None,
            learns_rtt: true,
            highest: None,
            runs: BTreeMap::new(),
            missing: 0,
            due: None,
            given_up: 0,
        }
    }

    /// Sets the round-trip time, which decides how soon a request is repeated. Until then, the
    /// generator learns it from packets that were requested once (RFC 6298 §3 excludes others).
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.learns_rtt = false;
        self.use_rtt(rtt);
    }

    fn use_rtt(&mut self, rtt: Duration) {
        self.retry_interval = (rtt + rtt / 4).max(self.config.retry_interval_min);
    }

    /// Records a packet, original or retransmitted, by its extended sequence number.
    pub fn on_packet(&mut self, sequence: u64, now: Instant) -> Arrival {
        let Some(highest) = self.highest else {
            self.highest = Some(sequence);
            return Arrival::Next;
        };
        if sequence <= highest {
            let Some(run) = self.take(sequence) else {
                return Arrival::Old;
            };
            if (1..=1 + u32::from(self.config.repeats)).contains(&run.requests) {
                self.learn_rtt(now.saturating_duration_since(run.requested));
            }
            return Arrival::Recovered {
                requests: run.requests,
                after: now.saturating_duration_since(run.noticed),
            };
        }
        self.highest = Some(sequence);
        let missing = sequence - highest - 1;
        if missing == 0 {
            return Arrival::Next;
        }
        self.record_gap(highest + 1, sequence, now);
        Arrival::Gap { missing }
    }

    /// Returns the instant at which [`poll`](Self::poll) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the sequence numbers to request now, in ascending order, at most
    /// [`REQUEST_MAX`]; none if no request is due. Call again at once if `poll_timeout` is not
    /// in the future then.
    pub fn poll(&mut self, now: Instant) -> Vec<u16> {
        let mut lost = Vec::new();
        if self.due.is_none_or(|due| now < due) {
            return lost;
        }
        let (config, retry) = (self.config, self.retry_interval);
        let before = self.missing;
        self.runs.retain(|&first, run| {
            let age = now.saturating_duration_since(run.noticed);
            let spent = run.requests >= config.requests_max && now >= run.next;
            let kept = age < config.budget && !spent;
            if !kept {
                self.missing -= run.count(first);
            }
            kept
        });
        self.given_up += (before - self.missing) as u64;
        let mut rest = None;
        for (&first, run) in &mut self.runs {
            let room = REQUEST_MAX - lost.len();
            if room == 0 || rest.is_some() {
                break;
            }
            if run.next > now {
                continue;
            }
            if run.count(first) > room {
                rest = Some((first + room as u64, *run));
                run.end = first + room as u64;
            }
            lost.extend((first..run.end).map(|sequence| sequence as u16));
            run.on_request(&config, retry, now);
        }
        self.runs.extend(rest);
        self.due = self.runs.values().map(|run| run.next).min();
        lost
    }

    /// Number of packets that are missing now, whether requested or about to be.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Returns the number of packets that were given up since the last call. If it is not zero,
    /// the receiver needs a keyframe.
    pub fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    /// Takes a sample of the round trip, smoothed as RFC 6298 §2.3 does.
    fn learn_rtt(&mut self, sample: Duration) {
        if self.learns_rtt {
            let rtt = self
                .learned_rtt
                .map_or(sample, |rtt| rtt * 7 / 8 + sample / 8);
            self.learned_rtt = Some(rtt);
            self.use_rtt(rtt);
        }
    }

    /// Removes packet `sequence` from the missing ones. Returns the run that it was in.
    fn take(&mut self, sequence: u64) -> Option<MissingRun> {
        let (&first, run) = self.runs.range_mut(..=sequence).next_back()?;
        let whole = *run;
        if sequence >= whole.end {
            return None;
        }
        if first == sequence {
            self.runs.remove(&first);
        } else {
            run.end = sequence;
        }
        if sequence + 1 < whole.end {
            self.runs.insert(sequence + 1, whole);
        }
        self.missing -= 1;
        Some(whole)
    }

    /// Adds the packets `first..end` to the missing ones.
    fn record_gap(&mut self, first: u64, end: u64, now: Instant) {
        if end - first > self.config.missing_max as u64 {
            self.given_up += end - first + self.missing as u64;
            self.runs.clear();
            self.missing = 0;
            self.due = None;
            return;
        }
        let next = now + self.config.reorder_wait;
        let run = MissingRun {
            end,
            noticed: now,
            next,
            requested: now,
            requests: 0,
        };
        self.missing += run.count(first);
        self.runs.insert(first, run);
        self.give_up_oldest();
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }

    /// Gives up the oldest packets beyond `missing_max`.
    fn give_up_oldest(&mut self) {
        while let surplus @ 1.. = self.missing.saturating_sub(self.config.missing_max)
            && let Some((first, run)) = self.runs.pop_first()
        {
            let given_up = surplus.min(run.count(first));
            self.missing -= given_up;
            self.given_up += given_up as u64;
            if given_up < run.count(first) {
                self.runs.insert(first + given_up as u64, run);
            }
        }
    }
}

/// Most sequence numbers in one request: even if none share a bitmap, the NACK fits a datagram.
pub const REQUEST_MAX: usize = 250;

/// Round-trip time that is assumed until one was measured.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Consecutive packets that have not arrived: when their gap was noticed, when the next request
/// is due, and the number of requests so far.
#[derive(Clone, Copy, Debug)]
struct MissingRun {
    /// Number behind the last packet.
    end: u64,
    noticed: Instant,
    next: Instant,
    /// Time of the first request.
    requested: Instant,
    requests: u32,
}

impl MissingRun {
    /// Returns the number of packets of a run that begins at `first`.
    fn count(&self, first: u64) -> usize {
        (self.end - first) as usize
    }

    /// Notes that the packets are requested at `now`.
    fn on_request(&mut self, config: &Config, retry: Duration, now: Instant) {
        self.requests += 1;
        if self.requests == 1 {
            self.requested = now;
        }
        self.next = match self.requests {
            1 if config.repeats => now + retry / 5,
            2 if config.repeats => self.requested + retry,
            _ => now + retry,
        };
    }
}

#[cfg(test)]
mod tests;
