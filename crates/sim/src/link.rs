use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::Rng;

/// How a link treats what is sent over it. The default is perfect: no delay, no
/// loss, no limit.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Serialisation rate, counting the bytes of the datagrams only; `None` is
    /// infinitely fast and has no queue.
    pub rate: Option<Bitrate>,
    /// Propagation delay of every datagram.
    pub delay: Duration,
    /// Further delay, drawn evenly from zero to this. Delays the ones behind
    /// too rather than let them overtake.
    pub jitter: Duration,
    /// Which datagrams get lost on the wire, after the queue.
    pub loss: Loss,
    /// Probability of being held back by `reorder_delay`, so that the ones
    /// behind overtake.
    pub reorder: f64,
    /// How long the ones to be overtaken are held back.
    pub reorder_delay: Duration,
    /// Most bytes that wait for serialisation; a datagram that does not fit is
    /// dropped. Counts the one being serialised.
    pub queue_bytes: usize,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(5),
            queue_bytes: usize::MAX,
        }
    }
}

impl Conditions {
    /// A perfect link but for its propagation delay.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// The same with this loss.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }
}

/// Which datagrams get lost on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// None.
    None,
    /// Each one independently with this probability, 0..=1.
    Random(f64),
    /// In bursts: a Markov chain of two states (Gilbert 1960, Elliott 1963),
    /// stepped once per datagram before its fate is drawn. Starts good.
    GilbertElliott {
        /// Probability of turning from good to bad.
        to_bad: f64,
        /// Probability of turning from bad to good; 1 ÷ this is a burst's mean
        /// length in datagrams.
        to_good: f64,
        /// Loss probability while good, usually 0.
        good: f64,
        /// Loss probability while bad, usually 1.
        bad: f64,
    },
}

impl Loss {
    /// Bursts of `burst` datagrams on average, all of a burst lost, that lose
    /// the share `mean` (0..1) of all.
    pub fn bursts(mean: f64, burst: f64) -> Self {
        let to_good = 1.0 / burst.max(1.0);
        Self::GilbertElliott {
            to_bad: to_good * mean / (1.0 - mean),
            to_good,
            good: 0.0,
            bad: 1.0,
        }
    }
}

/// What became of the datagrams so far.
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
    /// Held back so that others overtook.
    pub reordered: u64,
}

/// One direction of a network, in virtual time.
#[derive(Debug)]
pub struct Link {
    conditions: Conditions,
    rng: Rng,
    bad: bool,
    serialised: Option<Instant>,
    /// Datagrams not yet serialised: when each will be, and its bytes.
    queue: VecDeque<(Instant, usize)>,
    queued_bytes: usize,
    last_arrival: Option<Instant>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    counts: Counts,
}

impl Link {
    /// An empty link; `seed` decides its jitter, loss and reordering.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            rng: Rng::new(seed),
            bad: false,
            serialised: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            last_arrival: None,
            in_flight: BinaryHeap::new(),
            counts: Counts::default(),
        }
    }

    /// Hands a datagram to the link. `now` must not go back from call to call.
    pub fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        let order = self.counts.sent;
        self.counts.sent += 1;
        self.counts.sent_bytes += datagram.len() as u64;
        let Some(departure) = self.serialise(now, datagram.len()) else {
            self.counts.dropped += 1;
            return;
        };
        // Every datagram draws the same numbers whatever its fate, so that one
        // changed setting does not shift the luck of the others.
        let lost = self.draw_loss();
        let jitter = self.conditions.jitter.mul_f64(self.rng.unit());
        let held_back = self.rng.chance(self.conditions.reorder);
        if lost {
            self.counts.lost += 1;
            return;
        }
        let mut arrival = departure + self.conditions.delay + jitter;
        if held_back {
            self.counts.reordered += 1;
            arrival += self.conditions.reorder_delay;
        } else {
            arrival = self.last_arrival.map_or(arrival, |last| last.max(arrival));
            self.last_arrival = Some(arrival);
        }
        self.in_flight.push(Reverse(InFlight {
            arrival,
            order,
            datagram,
        }));
    }

    /// The next datagram that has arrived by `now`; call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(InFlight { datagram, .. }) = self.in_flight.pop()?;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += datagram.len() as u64;
        Some(datagram)
    }

    /// When [`Self::poll`] will have something; `None` while the link is empty.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.peek().map(|Reverse(next)| next.arrival)
    }

    /// What became of the datagrams so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that wait for serialisation at `now`.
    pub fn queued_bytes(&mut self, now: Instant) -> usize {
        while let Some((departure, bytes)) = self.queue.front() {
            if *departure > now {
                break;
            }
            self.queued_bytes -= bytes;
            self.queue.pop_front();
        }
        self.queued_bytes
    }

    /// Treats what is sent from now on differently; what is on its way keeps its
    /// fate.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// When the datagram has left the queue and the sender's interface; `None`
    /// if the queue has no room.
    fn serialise(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        let Some(rate) = self.conditions.rate else {
            return Some(now);
        };
        if self.queued_bytes(now).saturating_add(bytes) > self.conditions.queue_bytes {
            return None;
        }
        let bits = bytes as u128 * 8;
        let nanos = bits * 1_000_000_000 / u128::from(rate.bps().max(1));
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2));
        let departure = self.serialised.map_or(now, |last| last.max(now)) + time;
        self.serialised = Some(departure);
        self.queue.push_back((departure, bytes));
        self.queued_bytes += bytes;
        Some(departure)
    }

    fn draw_loss(&mut self) -> bool {
        let turn = self.rng.unit();
        let fate = self.rng.unit();
        match self.conditions.loss {
            Loss::None => false,
            Loss::Random(probability) => fate < probability,
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                let turning = if self.bad { to_good } else { to_bad };
                if turn < turning {
                    self.bad = !self.bad;
                }
                fate < if self.bad { bad } else { good }
            }
        }
    }
}

/// A datagram on its way, ordered by arrival, then by sending.
#[derive(Debug)]
struct InFlight {
    arrival: Instant,
    order: u64,
    datagram: Vec<u8>,
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.arrival, self.order).cmp(&(other.arrival, other.order))
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InFlight {}

#[cfg(test)]
mod tests;
