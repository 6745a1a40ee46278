//! One direction of a network.
//!
//! ```text
//!            ┌ queue_bytes, mark_above_bytes
//! send ──► queue ──► capacity ──► loss ──► policer ──► delay, jitter ──► batch ──► poll
//!            │       outages        │         │         reorder
//!         Dropped                 Lost     Policed
//! ```
//!
//! A datagram's outcome is decided when it is sent: everything before it in the queue is
//! known then. Therefore a link needs no timers of its own, and a datagram costs two
//! entries in rings that were allocated long before.

mod conditions;
mod flight;
mod policing;
mod queue;
mod randomness;

use std::time::{Duration, Instant};

pub(crate) use conditions::bytes_in;
pub use conditions::{Capacity, Conditions, Loss, Policer};
use flight::{Flight, Travelling};
use policing::Bucket;
use queue::Queue;
use randomness::Randomness;

/// Nanoseconds since a link's start.
type Nanos = u64;

/// Nanoseconds of a millisecond.
const MILLISECOND: Nanos = 1_000_000;

/// One direction of a network, in virtual time or in any other that does not go back.
///
/// `T` is what the link carries: a datagram's bytes, or whatever a simulation needs at the
/// other end. Several flows share a link by distinguishing their datagrams in `T`.
#[derive(Debug)]
pub struct Link<T> {
    /// How the link treats datagrams.
    conditions: Conditions,
    /// Origin of the link's times; `None` before the first datagram.
    start: Option<Instant>,
    /// Datagrams that wait for the link.
    queue: Queue,
    /// Random decisions of the link.
    randomness: Randomness,
    /// State of the policer.
    bucket: Option<Bucket>,
    /// When the last datagram arrives that keeps its order.
    last_arrival: Nanos,
    /// Datagrams that left the queue and have not arrived.
    flight: Flight<T>,
    /// Counters since the start.
    counts: Counts,
}

/// Counters of a link. Each datagram that was sent has been delivered, dropped, lost or
/// policed, or is in [`Link::in_flight`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams handed to [`Link::send`].
    pub sent: u64,
    /// Bytes handed to [`Link::send`].
    pub sent_bytes: u64,
    /// Datagrams taken out with [`Link::poll`].
    pub delivered: u64,
    /// Bytes taken out with [`Link::poll`].
    pub delivered_bytes: u64,
    /// Datagrams dropped because the queue was full.
    pub dropped: u64,
    /// Datagrams lost on the wire.
    pub lost: u64,
    /// Datagrams dropped by the policer.
    pub policed: u64,
    /// Datagrams that were not lost and were marked because the queue was long.
    pub marked: u64,
    /// Datagrams that were not lost and were held back so that others overtook them.
    pub reordered: u64,
}

/// The outcome of a datagram. A real sender could not know it; a laboratory may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The datagram arrives at this time.
    Arrives(Instant),
    /// The queue was full.
    Dropped,
    /// The datagram was lost on the wire.
    Lost,
    /// The policer dropped the datagram.
    Policed,
}

/// A datagram at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<T> {
    /// The datagram that was sent.
    pub datagram: T,
    /// When it arrived; [`Link::poll`] may have been called later.
    pub at: Instant,
    /// Time that the datagram waited behind others before its own first byte left.
    pub queued: Duration,
    /// Whether the datagram was marked on its way (RFC 3168). The link does not know which
    /// datagrams are ECN-capable: the mark counts only for those.
    pub congested: bool,
}

impl<T> Link<T> {
    /// Returns an empty link; `seed` decides its jitter, loss and reordering. It starts
    /// with the first datagram unless [`Self::starting_at`] sets the start.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let mut link = Self {
            bucket: None,
            start: None,
            queue: Queue::default(),
            randomness: Randomness::new(seed),
            last_arrival: 0,
            flight: Flight::new(),
            counts: Counts::default(),
            conditions: Conditions::default(),
        };
        link.apply(conditions, 0);
        link
    }

    /// Sets the origin of the times of traces, outages, batches and random decisions, which
    /// must not be after the first datagram. Runs that shall meet the same network set it.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// Hands a datagram of `bytes` to the link, headers of lower layers included if
    /// they shall count. `now` must not go back from call to call.
    pub fn send(&mut self, now: Instant, bytes: usize, datagram: T) -> SendOutcome {
        let start = *self.start.get_or_insert(now);
        let now = nanos(now.saturating_duration_since(start));
        let number = self.counts.sent;
        self.counts.sent += 1;
        self.counts.sent_bytes += bytes as u64;

        let waiting = self.queue.bytes(now);
        if waiting.saturating_add(bytes) > self.conditions.queue_bytes {
            self.counts.dropped += 1;
            return SendOutcome::Dropped;
        }
        let marks = self.conditions.mark_above_bytes;
        let congested = marks.is_some_and(|most| waiting > most);
        let waited = self.queue.wait(now);
        let departure = self.queue.push(now, bytes, &self.conditions.capacity);
        self.randomness.next_datagram(departure);
        if self.randomness.lost(self.conditions.loss) {
            self.counts.lost += 1;
            return SendOutcome::Lost;
        }
        let passes = |bucket: &mut Bucket| bucket.passes(departure, bytes);
        if !self.bucket.as_mut().is_none_or(passes) {
            self.counts.policed += 1;
            return SendOutcome::Policed;
        }
        self.counts.marked += u64::from(congested);
        let arrival = self.travel(departure, |arrival| Travelling {
            arrival,
            number,
            bytes,
            waited,
            congested,
            datagram,
        });
        SendOutcome::Arrives(start + Duration::from_nanos(arrival))
    }

    /// Returns the next datagram that has arrived by `now`; to be called until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Arrival<T>> {
        let at = self.next_arrival()?;
        if at > now {
            return None;
        }
        let next = self.flight.pop()?;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += next.bytes as u64;
        Some(Arrival {
            datagram: next.datagram,
            at,
            queued: Duration::from_nanos(next.waited),
            congested: next.congested,
        })
    }

    /// Returns when [`Self::poll`] will have a datagram; `None` while nothing is in flight.
    pub fn next_arrival(&self) -> Option<Instant> {
        let next = self.flight.peek()?;
        Some(self.start? + Duration::from_nanos(next.arrival))
    }

    /// Returns the counters since the start.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of datagrams in the queue or on the wire that will arrive.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Returns the bytes that wait for serialization at `now`.
    pub fn queued_bytes(&mut self, now: Instant) -> usize {
        let now = self.since_start(now);
        self.queue.bytes(now)
    }

    /// Returns how long a datagram sent at `now` would wait before its own first byte
    /// leaves.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.queue.wait(self.since_start(now)))
    }

    /// Returns how the link treats what is sent now.
    pub const fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Changes how the link treats what is sent from now on. Datagrams in flight keep their
    /// outcome, so a queue that was filled at a low rate empties at that rate, unlike with
    /// [`Schedule::steps`](crate::Schedule::steps). A policer that stays the same keeps its
    /// tokens, another one starts full.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        let last = self.counts.sent;
        self.apply(conditions, last);
    }

    /// Applies new conditions; `sent`: datagrams sent so far.
    fn apply(&mut self, conditions: Conditions, sent: u64) {
        let outages = conditions.outages.iter();
        let outages = outages.map(|outage| nanos(outage.start)..nanos(outage.end));
        self.queue.set_outages(outages.collect());
        self.queue.reset_trace();
        if sent > 0 && conditions.loss != self.conditions.loss {
            self.randomness.restart_loss_chain();
        }
        let kept = self.bucket.map(|bucket| bucket.policer());
        if conditions.policer != kept {
            // The bucket's start does not matter: a full bucket gains nothing by waiting.
            self.bucket = conditions.policer.map(|policer| Bucket::full(policer, 0));
        }
        self.conditions = conditions;
    }

    /// Puts a datagram that has left the queue in flight, and returns when it arrives.
    fn travel(&mut self, departure: Nanos, datagram: impl FnOnce(Nanos) -> Travelling<T>) -> Nanos {
        let conditions = &self.conditions;
        let mut arrival = departure.saturating_add(nanos(conditions.delay));
        if !conditions.jitter.is_zero() {
            let share = self.randomness.jitter(departure);
            arrival = arrival.saturating_add(nanos(conditions.jitter.mul_f64(share)));
        }
        let held_back = self.randomness.held_back(conditions.reorder);
        if held_back {
            arrival = arrival.saturating_add(nanos(conditions.reorder_delay));
        }
        let batch = nanos(conditions.batch);
        if batch > 0 {
            arrival = arrival.div_ceil(batch).saturating_mul(batch);
        }
        if held_back {
            self.counts.reordered += 1;
            self.flight.hold_back(datagram(arrival));
        } else {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
            self.flight.push(datagram(arrival));
        }
        arrival
    }

    /// Returns the link's time at `now`.
    fn since_start(&self, now: Instant) -> Nanos {
        let start = self.start.unwrap_or(now);
        nanos(now.saturating_duration_since(start))
    }
}

/// Bound of a link's times, 146 years, so that sums and instants do not overflow.
const END_OF_TIME: Nanos = Nanos::MAX / 4;

/// Converts a time to nanoseconds, bounded by [`END_OF_TIME`].
fn nanos(time: Duration) -> Nanos {
    let seconds = time.as_secs().saturating_mul(1_000_000_000);
    let nanos = seconds.saturating_add(time.subsec_nanos().into());
    nanos.min(END_OF_TIME)
}

#[cfg(test)]
mod tests;
