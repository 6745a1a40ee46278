//! One direction of a network.
//!
//! ```text
//!            ┌ queue_bytes, mark_above_bytes
//! send ──► queue ──► capacity ──► loss ──► policer ──► delay, jitter ──► batch ──► poll
//!            │       outages        │         │         reorder
//!         Dropped                 Lost     Policed
//! ```
//!
//! What becomes of a datagram is settled when it is sent: everything before it in
//! the queue is known then. So a link needs no timers of its own, and a datagram
//! costs two entries in rings that were allocated long ago.

mod conditions;
mod flight;
mod luck;
mod policing;
mod queue;

use std::time::{Duration, Instant};

pub(crate) use conditions::bytes_in;
pub use conditions::{Capacity, Conditions, Loss, Policer};
use flight::{Flight, Travelling};
use luck::Luck;
use policing::Bucket;
use queue::Queue;

/// Nanoseconds since a link's start.
type Nanos = u64;

const MILLISECOND: Nanos = 1_000_000;

/// One direction of a network, in virtual time or in any other that does not go back.
///
/// `T` is what it carries: a datagram's bytes, or whatever a simulation needs at the
/// other end. Several flows share a link by telling their datagrams apart in `T`.
#[derive(Debug)]
pub struct Link<T> {
    conditions: Conditions,
    start: Option<Instant>,
    queue: Queue,
    luck: Luck,
    bucket: Option<Bucket>,
    last_arrival: Nanos,
    flight: Flight<T>,
    counts: Counts,
}

/// What became of the datagrams so far. Each that was sent has been delivered,
/// dropped, lost or policed, or is in [`Link::in_flight`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed to [`Link::send`].
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Taken out with [`Link::poll`].
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Lost on the wire.
    pub lost: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Of those that travel on: marked because the queue was long.
    pub marked: u64,
    /// Of those that travel on: held back so that others overtook.
    pub reordered: u64,
}

/// What becomes of a datagram. No sender could know; a laboratory may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then.
    Arrives(Instant),
    /// The queue was full.
    Dropped,
    /// Lost on the wire.
    Lost,
    /// The policer dropped it.
    Policed,
}

/// A datagram at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<T> {
    /// What was sent.
    pub datagram: T,
    /// When it arrived; [`Link::poll`] may have been called later.
    pub at: Instant,
    /// How long it waited behind others before its own first byte left.
    pub queued: Duration,
    /// Marked on its way (RFC 3168). The link does not know who understands marks:
    /// heed it only where the datagram was sent as ECN-capable.
    pub congested: bool,
}

impl<T> Link<T> {
    /// An empty link; `seed` decides its jitter, loss and reordering. It starts
    /// with the first datagram unless [`Self::starting_at`] says when.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let mut link = Self {
            bucket: None,
            start: None,
            queue: Queue::default(),
            luck: Luck::new(seed),
            last_arrival: 0,
            flight: Flight::new(),
            counts: Counts::default(),
            conditions: Conditions::default(),
        };
        link.apply(conditions, 0);
        link
    }

    /// Counts the time of traces, outages, batches and luck from `start`, which must
    /// not be after the first datagram. Runs that shall meet the same network say so.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// Hands a datagram of `bytes` to the link, headers of lower layers included if
    /// they shall count. `now` must not go back from call to call.
    pub fn send(&mut self, now: Instant, bytes: usize, datagram: T) -> Fate {
        let start = *self.start.get_or_insert(now);
        let now = nanos(now.saturating_duration_since(start));
        let number = self.counts.sent;
        self.counts.sent += 1;
        self.counts.sent_bytes += bytes as u64;

        let waiting = self.queue.bytes(now);
        if waiting.saturating_add(bytes) > self.conditions.queue_bytes {
            self.counts.dropped += 1;
            return Fate::Dropped;
        }
        let marks = self.conditions.mark_above_bytes;
        let congested = marks.is_some_and(|most| waiting > most);
        let waited = self.queue.wait(now);
        let departure = self.queue.push(now, bytes, &self.conditions.capacity);
        self.luck.next_datagram(departure);
        if self.luck.lost(self.conditions.loss) {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        let passes = |bucket: &mut Bucket| bucket.passes(departure, bytes);
        if !self.bucket.as_mut().is_none_or(passes) {
            self.counts.policed += 1;
            return Fate::Policed;
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
        Fate::Arrives(start + Duration::from_nanos(arrival))
    }

    /// The next datagram that has arrived by `now`; call until `None`.
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

    /// When [`Self::poll`] will have something; `None` while nothing is on its way.
    pub fn next_arrival(&self) -> Option<Instant> {
        let next = self.flight.peek()?;
        Some(self.start? + Duration::from_nanos(next.arrival))
    }

    /// What became of the datagrams so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many are in the queue or on the wire and will arrive.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Bytes that wait for serialisation at `now`.
    pub fn queued_bytes(&mut self, now: Instant) -> usize {
        let now = self.since_start(now);
        self.queue.bytes(now)
    }

    /// How long a datagram sent at `now` would wait before its own first byte leaves.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.queue.wait(self.since_start(now)))
    }

    /// How it treats what is sent now.
    pub const fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Treats what is sent from now on differently; what is on its way keeps its
    /// fate, so a queue that was filled at a low rate empties at that rate: a
    /// [`Schedule::steps`](crate::Schedule::steps) does otherwise. A policer that stays
    /// the same keeps its tokens, another starts full.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        let last = self.counts.sent;
        self.apply(conditions, last);
    }

    fn apply(&mut self, conditions: Conditions, sent: u64) {
        let outages = conditions.outages.iter();
        let outages = outages.map(|outage| nanos(outage.start)..nanos(outage.end));
        self.queue.set_outages(outages.collect());
        self.queue.reset_trace();
        if sent > 0 && conditions.loss != self.conditions.loss {
            self.luck.restart_weather();
        }
        let kept = self.bucket.map(|bucket| bucket.policer());
        if conditions.policer != kept {
            // Whenever it began: a full bucket gains nothing by waiting.
            self.bucket = conditions.policer.map(|policer| Bucket::full(policer, 0));
        }
        self.conditions = conditions;
    }

    /// Puts a datagram that has left the queue on its way; when it arrives.
    fn travel(&mut self, departure: Nanos, datagram: impl FnOnce(Nanos) -> Travelling<T>) -> Nanos {
        let conditions = &self.conditions;
        let mut arrival = departure.saturating_add(nanos(conditions.delay));
        if !conditions.jitter.is_zero() {
            let share = self.luck.jitter(departure);
            arrival = arrival.saturating_add(nanos(conditions.jitter.mul_f64(share)));
        }
        let held_back = self.luck.held_back(conditions.reorder);
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

    fn since_start(&self, now: Instant) -> Nanos {
        let start = self.start.unwrap_or(now);
        nanos(now.saturating_duration_since(start))
    }
}

/// A link's times are kept below this, 146 years, so that sums and instants hold.
const END_OF_TIME: Nanos = Nanos::MAX / 4;

fn nanos(time: Duration) -> Nanos {
    let seconds = time.as_secs().saturating_mul(1_000_000_000);
    let nanos = seconds.saturating_add(time.subsec_nanos().into());
    nanos.min(END_OF_TIME)
}

#[cfg(test)]
mod tests;
