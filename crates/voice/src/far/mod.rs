//! The far end of a call: its records, converted to our clock.
//!
//! ```text
//! push(Record) ─► queue ─► poll_records ──► reliable channel  ──► receive ─► waits 4 s ─► poll_remote: RemoteRecord
//!                          poll_clock ────► unreliable channel ─► receive      ▲ conversion
//!                                           (`clock::Exchange`) ──────────────► Estimate
//! ```
//!
//! Two data channels are opened by the end that offers the call. [`RECORDS_LABEL`], ordered
//! and reliable, carries [`wire`] messages. [`CLOCK_LABEL`], unordered and without
//! retransmission, carries the requests of [`clock`], because a request that
//! waits for a retransmission would measure that wait.
//!
//! Each end sends a hello that says whether it wants records. It repeats the hello each
//! second until it receives one, and answers an end that has received none: an intermediary
//! may have had no receiver yet, and an end that reconnects knows nothing. If neither end
//! wants records, only hellos are sent: records take about 100 kbit/s in each direction.
//!
//! A record waits a few seconds before it is converted, so that clock measurements from
//! before and after it take part.
//!
//! Records are not authenticated here, nor are clock messages: a far end may claim anything.
//! Its messages are bounded, here and in [`wire`], and impossible values are refused by name.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::stamps::Record;
use glassline_media::clock::{self, Estimate, Exchange};
use wire::{Malformed, Message, Unwritten, Writer};

#[cfg(test)]
mod tests;
pub mod wire;

/// Label of the channel that carries records.
pub const RECORDS_LABEL: &str = "glassline-stamps";
/// Label of the channel that carries clock comparison messages.
pub const CLOCK_LABEL: &str = "glassline-clock";
/// Protocol of both channels in their DCEP messages (RFC 8832).
pub const PROTOCOL: &str = "glassline-stamps-1";

/// Which of the two data channels a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// The data channel with the label [`RECORDS_LABEL`].
    Records,
    /// The data channel with the label [`CLOCK_LABEL`].
    Clock,
}

/// Time between two hellos of an end that has received none.
const HELLO_AGAIN: Duration = Duration::from_secs(1);

/// Time that a record waits before it is sent, so that many share a message.
const TOGETHER: Duration = Duration::from_millis(200);
/// Age at which a record that could not be sent is dropped.
const QUEUE_AGE_MAX: Duration = Duration::from_secs(5);
/// Most records that wait to be sent. Packets of 10 ms in each direction and device callbacks
/// each 2.5 ms make 1,000 records a second.
const QUEUE_MAX: usize = 5_000;

/// Time that a received record waits for later clock measurements.
const SETTLE: Duration = Duration::from_secs(4);
/// Most received records that wait: twice what arrives in [`SETTLE`], and eight seconds
/// without a clock measurement.
const WAITING_MAX: usize = 8_000;
/// Time for which a clock estimate is reused.
const FRESH: Duration = Duration::from_millis(250);

/// The reason why a message of the far end was not taken. The call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is no message of the records channel.
    #[error("the other end's records: {0}")]
    Malformed(#[from] Malformed),
    /// It is no message of the clock channel.
    #[error("the other end's clock: {0}")]
    Clock(#[from] clock::Refused),
    /// The far end sent records although none were requested.
    #[error("the other end sent records that were not requested")]
    Unrequested,
}

/// A record of the far end, converted to our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRecord {
    /// Record that the other end sent.
    pub record: Record,
    /// Largest possible error of its times; all are wrong in the same direction.
    pub error: Duration,
}

/// State of the exchange of records with the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Whether the far end has sent a hello.
    pub is_there: bool,
    /// Whether the far end wants our records.
    pub is_requested: bool,
    /// Records received from the other end.
    pub received: u64,
    /// Records that the far end could not send, by its own count.
    pub dropped_there: u64,
    /// Records that we could not send.
    pub dropped_here: u64,
    /// Received records that could not be converted to our clock, or found no room.
    pub unconverted: u64,
    /// Messages refused, except clock responses that came too late.
    pub refused: u64,
    /// The reason why the first of them was refused.
    pub refusal: Option<Refused>,
    /// The far end's clock relative to ours; `None` before a response.
    pub clock: Option<Clock>,
}

/// Estimate of the far end's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// How much faster it runs than ours, in parts per million.
    pub skew_ppm: f64,
    /// Largest possible error of the estimate now.
    pub error: Duration,
    /// Shortest round trip of the last minute.
    pub round_trip_min: Duration,
}

/// One end's exchange of records and clock measurements with the far end.
#[derive(Debug)]
pub struct FarEnd {
    exchange: Exchange,
    /// Whether we want the far end's records.
    wants_records: bool,
    /// When we last sent a hello.
    hello: Option<Instant>,
    /// Whether the far end has asked for a hello.
    owes_hello: bool,
    /// Records to be sent, and when each was made.
    queue: VecDeque<(Instant, Record<u64>)>,
    /// Received records, by their arrival.
    waiting: VecDeque<(Instant, Record<u64>)>,
    /// Whether the call is over, so that nothing waits any more.
    is_flushed: bool,
    /// The last estimate, and when it was made.
    estimate: Option<(Instant, Estimate)>,
    report: Report,
}

impl FarEnd {
    /// Makes the exchange. `epoch` lies some seconds before all records; `wants_records` says
    /// whether the far end's records are wanted.
    pub fn new(epoch: Instant, wants_records: bool) -> Self {
        Self {
            exchange: Exchange::new(epoch),
            wants_records,
            hello: None,
            owes_hello: false,
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            is_flushed: false,
            estimate: None,
            report: Report::default(),
        }
    }

    /// Takes a message of the far end that arrived on `channel` at `arrived`, best stamped
    /// where the socket was read.
    ///
    /// # Errors
    /// [`Refused`] says why it was not taken; the call continues.
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
        // A late response on a slow or changed path is no fault.
        let is_fault = |it: &Refused| *it != Refused::Clock(clock::Refused::Unrequested);
        if let Some(refusal) = taken.err().filter(is_fault) {
            self.report.refused += 1;
            self.report.refusal.get_or_insert(refusal);
        }
        taken
    }

    /// Takes a message of the records channel.
    fn records(&mut self, message: &[u8], arrived: Instant) -> Result<(), Refused> {
        match wire::parse(message)? {
            Message::Hello {
                wants_records,
                wants_hello,
            } => {
                self.report.is_there = true;
                self.report.is_requested = wants_records;
                self.owes_hello |= wants_hello;
            }
            Message::Records { .. } if !self.wants_records => return Err(Refused::Unrequested),
            Message::Records { dropped, records } => {
                self.report.dropped_there = self.report.dropped_there.max(dropped);
                self.report.received += records.len() as u64;
                let records = records.into_iter().map(|it| (arrived, it));
                self.waiting.extend(records);
            }
        }
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.report.unconverted += 1;
        }
        Ok(())
    }

    /// Whether the far end wants our records.
    pub const fn is_requested(&self) -> bool {
        self.report.is_requested
    }

    /// Queues one of our records for the far end, if it wants records.
    pub fn push(&mut self, record: &Record, now: Instant) {
        if !self.report.is_requested {
            return;
        }
        if self.queue.len() >= QUEUE_MAX {
            self.queue.pop_front();
            self.report.dropped_here += 1;
        }
        let stamp = |at| Some(self.exchange.stamp(at));
        if let Some(record) = record.map_times(stamp) {
            self.queue.push_back((now, record));
        }
    }

    /// Returns the next message for the reliable channel. Call it when the channel is open
    /// and has room.
    pub fn poll_records(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.hello.is_none() || self.hello_again_at().is_some_and(|at| at <= now) {
            self.hello = Some(now);
            self.owes_hello = false;
            return Some(wire::hello(self.wants_records, !self.report.is_there));
        }
        let age = |queued: Instant| now.saturating_duration_since(queued);
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

    /// Returns the next message for the unreliable channel. Call it when the channel is open,
    /// and send the message at once.
    pub fn poll_clock(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.compares_clocks()
            .then(|| self.exchange.poll_transmit(now))?
    }

    /// When a hello after the first one is due; `None` if none is.
    fn hello_again_at(&self) -> Option<Instant> {
        let said = self.hello?;
        match (self.owes_hello, self.report.is_there) {
            (true, _) => Some(said),
            (false, false) => Some(said + HELLO_AGAIN),
            (false, true) => None,
        }
    }

    /// When the next message is due, if none arrives before; `None` if none is. Poll as well
    /// after each received message and when the channels open.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let queued = self.queue.front().map(|it| it.0 + TOGETHER);
        let clock = self
            .exchange
            .poll_timeout()
            .filter(|_| self.compares_clocks());
        let hello = self.hello_again_at();
        [queued, clock, hello].into_iter().flatten().min()
    }

    /// Whether either end wants records and the far end is there.
    const fn compares_clocks(&self) -> bool {
        self.report.is_there && (self.wants_records || self.report.is_requested)
    }

    /// Returns the next record of the far end that could be converted to our clock.
    pub fn poll_remote(&mut self, now: Instant) -> Option<RemoteRecord> {
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
                self.report.unconverted += self.waiting.len() as u64;
                self.waiting.clear();
                return None;
            };
            let (_, record) = self.waiting.pop_front()?;
            match record.map_times(|at| estimate.local(at)) {
                Some(record) => {
                    let error = estimate.error(record.at());
                    return Some(RemoteRecord { record, error });
                }
                None => self.report.unconverted += 1,
            }
        }
    }

    /// Ends the exchange with the call: nothing waits any more.
    pub fn flush(&mut self) {
        self.is_flushed = true;
        self.estimate = None;
    }

    /// Returns a recent estimate of the far end's clock.
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

    /// Returns the state of the exchange.
    pub const fn report(&self) -> Report {
        self.report
    }
}
