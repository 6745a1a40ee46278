//! Two hosts, two clocks: what the other one's stamps are on ours, and how far that
//! may be wrong.
//!
//! ```text
//! us     t1 ──ask──►            ┌► t4      round trip  (t4 − t1) − (t3 − t2)
//! them          └► t2 ─ t3 ─answer         offset      ((t2 − t1) + (t3 − t4)) / 2
//! ```
//!
//! This is NTP's exchange of four stamps (RFC 5905 §8). Of each eight answers the one
//! with the shortest round trip counts, since a queue that is in it is in the offset,
//! too; through those of the last minute goes a line: offset and skew.
//!
//! **The error is a bound.** An offset is wrong by at most half of its round trip,
//! whatever part of that either way took, and no exchange of messages can know more:
//! if one way is slower by `a` than the other, always, every offset is wrong by `a / 2`
//! and all of them agree. So an estimate's error is half of the shortest round trip
//! plus what its line misses that measurement by, and it grows beyond the last
//! measurement. It holds as long as the skew stays below [`SKEW_MAX_PPM`] and changes
//! little in a minute.
//!
//! No clock and no socket: messages are bytes, and go whichever way takes them. They
//! are not secret and prove nothing; who can forge them can shift the tables.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thiserror::Error;

mod fit;
#[cfg(test)]
mod tests;

use fit::{Line, Measured};

/// Oscillators of computers stay far below, with or without NTP pulling at them.
pub const SKEW_MAX_PPM: f64 = 500.0;

/// Bytes of the longest message.
pub const MESSAGE_BYTES: usize = 1 + 4 + 3 * 8;

/// Between two questions.
const INTERVAL: Duration = Duration::from_millis(125);

/// Answers of which the quickest counts.
const ROUND: u32 = 8;

/// Measurements that the line goes through.
const WINDOW: Duration = Duration::from_secs(60);

/// Questions that may be answered; 16 are two seconds.
const OPEN_MAX: usize = 16;

/// Answers that wait to be sent; whoever asks faster is not answered.
const OWED_MAX: usize = 8;

const ASK: u8 = 1;
const ANSWER: u8 = 2;

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// Not one of these messages.
    #[error("{bytes} bytes that are no message of the clocks")]
    Malformed {
        /// So long.
        bytes: usize,
    },
    /// We did not ask this, or not lately.
    #[error("an answer to nothing that we asked")]
    Unasked,
    /// Sent before it was asked, or later than it came back.
    #[error("an answer whose times cannot be")]
    Impossible,
    /// The other end asks faster than it can be answered.
    #[error("a question too many")]
    TooMany,
}

/// A question that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    sequence: u32,
    /// When it was sent, by the clock of the end that asked.
    t1: u64,
}

/// A question that came, and when.
#[derive(Clone, Copy, Debug)]
struct Owed {
    question: Question,
    /// When it came, by our clock.
    t2: u64,
}

/// One end of the exchange. Both ends ask, both answer.
#[derive(Debug)]
pub struct Exchange {
    /// What our stamps count from.
    epoch: Instant,
    next: Option<Instant>,
    sequence: u32,
    /// Questions without an answer, the oldest first.
    open: VecDeque<Question>,
    /// Answers that we owe.
    owed: VecDeque<Owed>,
    /// The quickest of this round, and how many it has had.
    round: Option<Measured>,
    answers: u32,
    measured: VecDeque<Measured>,
}

/// The other host's clock on ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    epoch: Instant,
    line: Line,
    /// The shortest round trip of the last minute.
    pub round_trip_min: Duration,
}

impl Exchange {
    /// Stamps count from `epoch`: that of all records which the other end shall place
    /// on its clock. The first question is due at once.
    pub const fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            next: None,
            sequence: 0,
            open: VecDeque::new(),
            owed: VecDeque::new(),
            round: None,
            answers: 0,
            measured: VecDeque::new(),
        }
    }

    /// `at` as the other end will see it: nanoseconds since our epoch, 0 before it.
    pub fn stamp(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.epoch))
    }

    /// A message came at `arrived`, best stamped where the socket was read. An answer
    /// that is owed is the next [`Self::poll_transmit`].
    pub fn receive(&mut self, message: &[u8], arrived: Instant) -> Result<(), Refused> {
        let bytes = message.len();
        let malformed = Refused::Malformed { bytes };
        let (kind, rest) = message.split_first().ok_or(malformed)?;
        let (sequence, rest) = rest.split_first_chunk().ok_or(malformed)?;
        let sequence = u32::from_be_bytes(*sequence);
        let mut times = rest.chunks_exact(8).map(|it| {
            let it = it.try_into().expect("chunks of eight");
            u64::from_be_bytes(it)
        });
        match (*kind, times.len(), rest.len() % 8) {
            (ASK, 1, 0) => {
                let t1 = times.next().ok_or(malformed)?;
                self.asked(sequence, t1, arrived)
            }
            (ANSWER, 3, 0) => {
                let mut time = || times.next().ok_or(malformed);
                self.answered(sequence, [time()?, time()?, time()?], arrived)
            }
            _ => Err(malformed),
        }
    }

    fn asked(&mut self, sequence: u32, t1: u64, arrived: Instant) -> Result<(), Refused> {
        if self.owed.len() >= OWED_MAX {
            return Err(Refused::TooMany);
        }
        self.owed.push_back(Owed {
            question: Question { sequence, t1 },
            t2: self.stamp(arrived),
        });
        Ok(())
    }

    fn answered(
        &mut self,
        sequence: u32,
        [t1, t2, t3]: [u64; 3],
        arrived: Instant,
    ) -> Result<(), Refused> {
        let open = self
            .open
            .iter()
            .position(|it| *it == Question { sequence, t1 });
        let open = open.ok_or(Refused::Unasked)?;
        self.open.remove(open);
        let measured = Measured::new([t1, t2, t3, self.stamp(arrived)]);
        let measured = measured.ok_or(Refused::Impossible)?;
        let is_quicker = self
            .round
            .is_none_or(|it| measured.round_trip < it.round_trip);
        if is_quicker {
            self.round = Some(measured);
        }
        self.answers += 1;
        if self.answers == ROUND {
            self.answers = 0;
            self.measured.extend(self.round.take());
        }
        let oldest = self.stamp(arrived).saturating_sub(nanoseconds(WINDOW));
        while self.measured.front().is_some_and(|it| it.at < oldest) {
            self.measured.pop_front();
        }
        Ok(())
    }

    /// What to send, at once: answers that are owed, then a question if one is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let stamp = self.stamp(now);
        if let Some(Owed { question, t2 }) = self.owed.pop_front() {
            let Question { sequence, t1 } = question;
            return Some(message(ANSWER, sequence, &[t1, t2, stamp]));
        }
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + INTERVAL);
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.open.push_back(Question {
            sequence,
            t1: stamp,
        });
        Some(message(ASK, sequence, &[stamp]))
    }

    /// When [`Self::poll_transmit`] has something, if nothing comes before; `None` is
    /// at once.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| self.owed.is_empty())
    }

    /// The other end's clock, as the last minute shows it; `None` before an answer.
    pub fn estimate(&self) -> Option<Estimate> {
        let all = || self.measured.iter().copied().chain(self.round);
        let line = Line::through(&all())?;
        let round_trip = all().map(|it| it.round_trip).min()?;
        Some(Estimate {
            epoch: self.epoch,
            line,
            round_trip_min: Duration::from_nanos(round_trip),
        })
    }
}

impl Estimate {
    /// When, on our clock, the other end stamped `remote_ns`; `None` if that is
    /// before our epoch or beyond what an `Instant` holds.
    pub fn local(&self, remote_ns: u64) -> Option<Instant> {
        let local = self.line.local(remote_ns);
        (local >= 0.0).then_some(())?;
        self.epoch.checked_add(Duration::from_nanos(local as u64))
    }

    /// How far [`Self::local`] may be off around `at`, at most.
    pub fn error(&self, at: Instant) -> Duration {
        let at = nanoseconds(at.saturating_duration_since(self.epoch));
        Duration::from_nanos(self.line.error(at as f64).ceil() as u64)
    }

    /// The other end's clock less ours at `at`, in seconds, each since its epoch.
    pub fn offset_s(&self, at: Instant) -> f64 {
        let at = nanoseconds(at.saturating_duration_since(self.epoch));
        self.line.offset(at as f64) / 1e9
    }

    /// How much faster the other end's clock runs than ours.
    pub const fn skew_ppm(&self) -> f64 {
        self.line.skew * 1e6
    }
}

fn message(kind: u8, sequence: u32, times: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
    bytes.push(kind);
    bytes.extend(sequence.to_be_bytes());
    for time in times {
        bytes.extend(time.to_be_bytes());
    }
    bytes
}

/// 584 years fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
