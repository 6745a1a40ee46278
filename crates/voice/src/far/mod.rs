//! The far end of a call: its records, by our clock.
//!
//! ```text
//! tell(Record) ─► queue ─► poll_records ──► reliable channel  ──► receive ─► waits 4 s ─► poll_told: Told
//!                          poll_clock ────► unreliable channel ─► receive      ▲ place
//!                                           (`clock::Exchange`) ──────────────► Estimate
//! ```
//!
//! Two data channels, opened by the end that offers the call: [`RECORDS_LABEL`],
//! ordered and reliable, carries [`wire`] messages; [`CLOCK_LABEL`], unordered and never
//! sent again, the questions of [`clock`](crate::clock), since one that waits for a
//! retransmission measures that. Each end says hello and whether it wants to be told
//! anything; again each second until it hears one, and to whoever has heard none, since
//! what stands between the ends may have nobody yet to pass it on to, and an end that
//! connects anew knows nothing. Where nobody asks, nothing but the hellos is sent: records
//! are about 100 kbit/s each way.
//!
//! A record waits a little before it is placed, so that answers from before and after it
//! take part in its place.
//!
//! Like the clocks' messages, records prove nothing: a far end may tell what it likes.
//! What it tells is bounded, here and in [`wire`], and what cannot be is refused by name.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::clock::{self, Estimate, Exchange};
use crate::stamps::Record;
use wire::{Malformed, Message, Unwritten, Writer};

#[cfg(test)]
mod tests;
pub mod wire;

/// Of the channel that carries records.
pub const RECORDS_LABEL: &str = "glassline-stamps";
/// Of the channel that carries the clocks' questions and answers.
pub const CLOCK_LABEL: &str = "glassline-clock";
/// What is spoken on both: the protocol of their DCEP messages.
pub const PROTOCOL: &str = "glassline-stamps-1";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// [`RECORDS_LABEL`]
    Records,
    /// [`CLOCK_LABEL`]
    Clock,
}

/// Between two hellos of an end that hears none.
const HELLO_AGAIN: Duration = Duration::from_secs(1);

/// A record waits so long before it is told, so that many share a message.
const TOGETHER: Duration = Duration::from_millis(200);
/// What could not be told for so long is dropped.
const QUEUE_AGE_MAX: Duration = Duration::from_secs(5);
/// So many records wait to be told: of 10 ms each way and calls of devices each 2.5 ms
/// there are 1,000 a second.
const QUEUE_MAX: usize = 5_000;

/// How long a far record waits for answers that come after it.
const SETTLE: Duration = Duration::from_secs(4);
/// Far records that wait: twice what comes in that time, and eight seconds without an
/// answer.
const WAITING_MAX: usize = 8_000;
/// An estimate is used for so long.
const FRESH: Duration = Duration::from_millis(250);

/// Why something of the far end was not taken. The call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is no message of stamps.
    #[error("the other end's stamps: {0}")]
    Malformed(#[from] Malformed),
    /// It is no message of the clocks.
    #[error("the other end's clock: {0}")]
    Clock(#[from] clock::Refused),
    /// Nobody wanted them.
    #[error("the other end's stamps: records that nobody asked for")]
    Unasked,
}

/// A far end's record, by our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it tells.
    pub record: Record,
    /// How far its times may be off, at most, all in the same direction.
    pub error: Duration,
}

/// How it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// The far end has said hello.
    pub is_there: bool,
    /// And wants to be told.
    pub is_asked: bool,
    /// Records that came.
    pub told: u64,
    /// Records that it could not tell us, by its own count.
    pub dropped_there: u64,
    /// Records that we could not tell it.
    pub dropped_here: u64,
    /// Records that have no place on our clock, or found no room.
    pub unplaced: u64,
    /// Messages that were refused, but for answers that came too late to be believed.
    pub refused: u64,
    /// The first of them.
    pub refusal: Option<Refused>,
    /// Its clock against ours; `None` before an answer.
    pub clock: Option<Clock>,
}

/// What is known of the far end's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// How much faster it runs than ours, in parts per million.
    pub skew_ppm: f64,
    /// How far it may be off now.
    pub error: Duration,
    /// The shortest round trip of the last minute.
    pub round_trip_min: Duration,
}

/// One end's view of the other.
#[derive(Debug)]
pub struct Far {
    exchange: Exchange,
    asks: bool,
    /// When it was said last.
    hello: Option<Instant>,
    owes_hello: bool,
    queue: VecDeque<(Instant, Record<u64>)>,
    /// By when they came.
    waiting: VecDeque<(Instant, Record<u64>)>,
    is_flushed: bool,
    estimate: Option<(Instant, Estimate)>,
    report: Report,
}

impl Far {
    /// Nothing is known of it yet. `epoch` is before all records, by some seconds; `asks`:
    /// its records are wanted.
    pub fn new(epoch: Instant, asks: bool) -> Self {
        Self {
            exchange: Exchange::new(epoch),
            asks,
            hello: None,
            owes_hello: false,
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            is_flushed: false,
            estimate: None,
            report: Report::default(),
        }
    }

    /// A message of the far end came on `channel` at `arrived`, best stamped where the
    /// socket was read.
    ///
    /// # Errors
    /// Why it was not taken; all goes on.
    pub fn receive(
        &mut self,
        channel: Channel,
        message: &[u8],
        arrived: Instant,
    ) -> Result<(), Refused> {
        let taken = match channel {
            Channel::Records => self.records(message, arrived),
            Channel::Clock => self.exchange.receive(message, arrived).map_err(Into::into),
        };
        // A slow path's answer, or one of a path that has changed: no fault.
        let is_fault = |it: &Refused| *it != Refused::Clock(clock::Refused::Unasked);
        if let Some(refusal) = taken.err().filter(is_fault) {
            self.report.refused += 1;
            self.report.refusal.get_or_insert(refusal);
        }
        taken
    }

    fn records(&mut self, message: &[u8], arrived: Instant) -> Result<(), Refused> {
        match wire::parse(message)? {
            Message::Hello { asks, is_alone } => {
                self.report.is_there = true;
                self.report.is_asked = asks;
                self.owes_hello |= is_alone;
            }
            Message::Records { .. } if !self.asks => return Err(Refused::Unasked),
            Message::Records { dropped, records } => {
                self.report.dropped_there = self.report.dropped_there.max(dropped);
                self.report.told += records.len() as u64;
                let records = records.into_iter().map(|it| (arrived, it));
                self.waiting.extend(records);
            }
        }
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.report.unplaced += 1;
        }
        Ok(())
    }

    /// The far end wants records.
    pub const fn is_asked(&self) -> bool {
        self.report.is_asked
    }

    /// Something happened here, and is told if the far end asked.
    pub fn tell(&mut self, record: &Record, now: Instant) {
        if !self.report.is_asked {
            return;
        }
        if self.queue.len() >= QUEUE_MAX {
            self.queue.pop_front();
            self.report.dropped_here += 1;
        }
        let stamp = |at| Some(self.exchange.stamp(at));
        if let Some(record) = record.placed(stamp) {
            self.queue.push_back((now, record));
        }
    }

    /// The next message for the reliable channel, which is open; ask while it has room.
    pub fn poll_records(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.hello.is_none() || self.hello_again_at().is_some_and(|at| at <= now) {
            self.hello = Some(now);
            self.owes_hello = false;
            return Some(wire::hello(self.asks, !self.report.is_there));
        }
        let age = |told: Instant| now.saturating_duration_since(told);
        while self
            .queue
            .front()
            .is_some_and(|it| age(it.0) > QUEUE_AGE_MAX)
        {
            self.queue.pop_front();
            self.report.dropped_here += 1;
        }
        let is_due = |it: &(Instant, _)| age(it.0) >= TOGETHER;
        if !self.is_flushed && !self.queue.front().is_some_and(is_due) {
            return None;
        }
        let base = self.queue.front()?.1.at();
        let mut writer = Writer::new(self.report.dropped_here, base);
        while let Some((_, record)) = self.queue.front() {
            match writer.push(record) {
                Ok(()) => {}
                Err(Unwritten::Full) => break,
                Err(Unwritten::OutOfRange) => self.report.dropped_here += 1,
            }
            self.queue.pop_front();
        }
        (!writer.is_empty()).then(|| writer.finish())
    }

    /// The next message for the unreliable channel, which is open: send it at once.
    pub fn poll_clock(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.compares_clocks()
            .then(|| self.exchange.poll_transmit(now))?
    }

    /// When a hello is due, after the first; `None` if none is.
    fn hello_again_at(&self) -> Option<Instant> {
        let said = self.hello?;
        match (self.owes_hello, self.report.is_there) {
            (true, _) => Some(said),
            (false, false) => Some(said + HELLO_AGAIN),
            (false, true) => None,
        }
    }

    /// When there is something to send, if nothing comes before: ask, too, after each
    /// message, and when the channels open. `None` if there is nothing.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let queued = self.queue.front().map(|it| it.0 + TOGETHER);
        let clock = self
            .exchange
            .poll_timeout()
            .filter(|_| self.compares_clocks());
        let hello = self.hello_again_at();
        [queued, clock, hello].into_iter().flatten().min()
    }

    /// Somebody wants to know, and there is somebody to ask.
    const fn compares_clocks(&self) -> bool {
        self.report.is_there && (self.asks || self.report.is_asked)
    }

    /// The next record of the far end that has found its place.
    pub fn poll_told(&mut self, now: Instant) -> Option<Told> {
        loop {
            let (came, _) = self.waiting.front()?;
            let is_settled = now.saturating_duration_since(*came) >= SETTLE;
            if !is_settled && !self.is_flushed {
                return None;
            }
            let Some(estimate) = self.estimate(now) else {
                if !self.is_flushed {
                    // The first answers may have been lost.
                    return None;
                }
                self.report.unplaced += self.waiting.len() as u64;
                self.waiting.clear();
                return None;
            };
            let (_, record) = self.waiting.pop_front()?;
            match record.placed(|at| estimate.local(at)) {
                Some(record) => {
                    let error = estimate.error(record.at());
                    return Some(Told { record, error });
                }
                None => self.report.unplaced += 1,
            }
        }
    }

    /// The call is over: nothing waits any more.
    pub fn flush(&mut self) {
        self.is_flushed = true;
        self.estimate = None;
    }

    fn estimate(&mut self, now: Instant) -> Option<Estimate> {
        let is_fresh = |it: &(Instant, _)| now.saturating_duration_since(it.0) < FRESH;
        if !self.estimate.as_ref().is_some_and(is_fresh) {
            let estimate = self.exchange.estimate()?;
            self.report.clock = Some(Clock {
                skew_ppm: estimate.skew_ppm(),
                error: estimate.error(now),
                round_trip_min: estimate.round_trip_min,
            });
            self.estimate = Some((now, estimate));
        }
        self.estimate.map(|it| it.1)
    }

    /// How it stands.
    pub const fn report(&self) -> Report {
        self.report
    }
}
