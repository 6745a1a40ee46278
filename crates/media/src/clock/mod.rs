//! Clock comparison between two hosts: converts the other host's stamps to our clock, and
//! bounds the error.
//!
//! ```text
//! us     t1 ─request─►            ┌► t4      round trip  (t4 − t1) − (t3 − t2)
//! them              └► t2 ─ t3 ─response     offset      ((t2 − t1) + (t3 − t4)) / 2
//! ```
//!
//! This is NTP's exchange of four stamps (RFC 5905 §8). Of each eight responses the one with
//! the shortest round trip counts, because a queue on the path is also in the offset. A line
//! is fitted through the chosen ones of the last minute: offset and skew.
//!
//! **The error is a bound.** An offset is wrong by at most half of its round trip, whatever
//! part of it either direction took, and no exchange of messages can do better: if one
//! direction is always slower by `a` than the other, every offset is wrong by `a / 2`, and
//! all of them agree. So an estimate's error is half of the shortest round trip plus the
//! distance between the line and that measurement, and it grows beyond the last measurement.
//! The bound holds while the skew stays below [`SKEW_MAX_PPM`] and changes little within a
//! minute.
//!
//! The module has no clock and no socket: messages are bytes, and the caller carries them.
//! They are neither secret nor authenticated here; an attacker who can forge them can shift
//! the tables.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thiserror::Error;

mod fit;
#[cfg(test)]
mod tests;

use fit::{LinearFit, Measurement};

/// Largest skew between two hosts' clocks, in parts per million. Oscillators of computers
/// stay far below it, whether or not NTP adjusts them.
pub const SKEW_MAX_PPM: f64 = 500.0;

/// Length of the longest message, in bytes.
pub const MESSAGE_BYTES: usize = 1 + 4 + 3 * 8;

/// Time between two requests.
const INTERVAL: Duration = Duration::from_millis(125);

/// Responses of which the one with the shortest round trip counts.
const ROUND: u32 = 8;

/// Age of the measurements that the fit is made through.
const WINDOW: Duration = Duration::from_secs(60);

/// Most requests that may still be answered; 16 are two seconds.
const OUTSTANDING_MAX: usize = 16;

/// Most responses that wait to be sent; a peer that asks faster gets no response.
const PENDING_MAX: usize = 8;

const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;

/// The reason why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The bytes are no message of this protocol.
    #[error("{bytes} bytes are not a clock comparison message")]
    Malformed {
        /// Length of the message, in bytes.
        bytes: usize,
    },
    /// A response to a request that was not sent, or not lately.
    #[error("a response to no outstanding request")]
    Unrequested,
    /// A response whose times contradict each other: sent before the request, or later than
    /// it came back.
    #[error("a response whose times contradict each other")]
    Impossible,
    /// The other end sends requests faster than they can be answered.
    #[error("too many requests wait for a response")]
    TooMany,
}

/// A request, identified by its number and send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    sequence: u32,
    /// When it was sent, in ns on the requesting end's clock.
    t1: u64,
}

/// A request that arrived and was not answered yet.
#[derive(Clone, Copy, Debug)]
struct PendingResponse {
    request: Request,
    /// When the request arrived, in ns on our clock.
    t2: u64,
}

/// One end of the exchange. Both ends send requests and responses.
#[derive(Debug)]
pub struct Exchange {
    /// Origin of our stamps.
    epoch: Instant,
    /// When the next request is due; `None` before the first.
    next: Option<Instant>,
    /// Number of the next request.
    sequence: u32,
    /// Requests without a response, oldest first.
    outstanding: VecDeque<Request>,
    /// Requests of the other end that wait for our response.
    pending: VecDeque<PendingResponse>,
    /// Measurement with the shortest round trip of the current round.
    round: Option<Measurement>,
    /// Responses in the current round.
    responses: u32,
    /// Measurements of the last minute, oldest first.
    measured: VecDeque<Measurement>,
}

/// Estimate of the other host's clock relative to ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    epoch: Instant,
    fit: LinearFit,
    /// Shortest round trip of the last minute.
    pub round_trip_min: Duration,
}

impl Exchange {
    /// Makes one end. Stamps count from `epoch`, which all records share that the other end
    /// converts to its clock. The first request is due at once.
    pub const fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            next: None,
            sequence: 0,
            outstanding: VecDeque::new(),
            pending: VecDeque::new(),
            round: None,
            responses: 0,
            measured: VecDeque::new(),
        }
    }

    /// The stamp of `at` for the other end: nanoseconds since our epoch, 0 before it.
    pub fn stamp(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.epoch))
    }

    /// Takes a message that arrived at `arrived`, best stamped where the socket was read. A
    /// response that is due is the next [`Self::poll_transmit`].
    ///
    /// # Errors
    /// [`Refused`] says why the message was not taken.
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
            (REQUEST, 1, 0) => {
                let t1 = times.next().ok_or(malformed)?;
                self.on_request(sequence, t1, arrived)
            }
            (RESPONSE, 3, 0) => {
                let mut time = || times.next().ok_or(malformed);
                self.on_response(sequence, [time()?, time()?, time()?], arrived)
            }
            _ => Err(malformed),
        }
    }

    /// Handles a request of the other end.
    fn on_request(&mut self, sequence: u32, t1: u64, arrived: Instant) -> Result<(), Refused> {
        if self.pending.len() >= PENDING_MAX {
            return Err(Refused::TooMany);
        }
        self.pending.push_back(PendingResponse {
            request: Request { sequence, t1 },
            t2: self.stamp(arrived),
        });
        Ok(())
    }

    /// Handles a response of the other end.
    fn on_response(
        &mut self,
        sequence: u32,
        [t1, t2, t3]: [u64; 3],
        arrived: Instant,
    ) -> Result<(), Refused> {
        let open = self
            .outstanding
            .iter()
            .position(|it| *it == Request { sequence, t1 });
        let open = open.ok_or(Refused::Unrequested)?;
        self.outstanding.remove(open);
        let measured = Measurement::new([t1, t2, t3, self.stamp(arrived)]);
        let measured = measured.ok_or(Refused::Impossible)?;
        let is_quicker = self
            .round
            .is_none_or(|it| measured.round_trip < it.round_trip);
        if is_quicker {
            self.round = Some(measured);
        }
        self.responses += 1;
        if self.responses == ROUND {
            self.responses = 0;
            self.measured.extend(self.round.take());
        }
        let oldest = self.stamp(arrived).saturating_sub(nanoseconds(WINDOW));
        while self.measured.front().is_some_and(|it| it.at < oldest) {
            self.measured.pop_front();
        }
        Ok(())
    }

    /// Returns the next message to be sent at once: responses first, then a request if one is
    /// due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let stamp = self.stamp(now);
        if let Some(PendingResponse { request, t2 }) = self.pending.pop_front() {
            let Request { sequence, t1 } = request;
            return Some(message(RESPONSE, sequence, &[t1, t2, stamp]));
        }
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + INTERVAL);
        if self.outstanding.len() >= OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.outstanding.push_back(Request {
            sequence,
            t1: stamp,
        });
        Some(message(REQUEST, sequence, &[stamp]))
    }

    /// When [`Self::poll_transmit`] next returns a message, if none arrives before; `None`
    /// means at once.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| self.pending.is_empty())
    }

    /// Estimates the other end's clock from the last minute; `None` before the first
    /// response.
    pub fn estimate(&self) -> Option<Estimate> {
        let all = || self.measured.iter().copied().chain(self.round);
        let fit = LinearFit::through(&all())?;
        let round_trip = all().map(|it| it.round_trip).min()?;
        Some(Estimate {
            epoch: self.epoch,
            fit,
            round_trip_min: Duration::from_nanos(round_trip),
        })
    }
}

impl Estimate {
    /// Converts the other end's stamp `remote_ns` to our clock; `None` if the result is
    /// before our epoch or beyond the range of `Instant`.
    pub fn local(&self, remote_ns: u64) -> Option<Instant> {
        let local = self.fit.local(remote_ns);
        (local >= 0.0).then_some(())?;
        self.epoch.checked_add(Duration::from_nanos(local as u64))
    }

    /// Largest possible error of [`Self::local`] around `at`.
    pub fn error(&self, at: Instant) -> Duration {
        let at = nanoseconds(at.saturating_duration_since(self.epoch));
        Duration::from_nanos(self.fit.error(at as f64).ceil() as u64)
    }

    /// The other end's clock minus ours at `at`, in seconds, each since its own epoch.
    pub fn offset_s(&self, at: Instant) -> f64 {
        let at = nanoseconds(at.saturating_duration_since(self.epoch));
        self.fit.offset(at as f64) / 1e9
    }

    /// How much faster the other end's clock runs than ours, in parts per million.
    pub const fn skew_ppm(&self) -> f64 {
        self.fit.skew * 1e6
    }
}

/// Writes a message of type `kind`.
fn message(kind: u8, sequence: u32, times: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
    bytes.push(kind);
    bytes.extend(sequence.to_be_bytes());
    for time in times {
        bytes.extend(time.to_be_bytes());
    }
    bytes
}

/// Nanoseconds of `duration`; 584 years fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
