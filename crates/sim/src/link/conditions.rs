//! The settings of a [`Link`](crate::Link).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use glassline_media::Bitrate;

use crate::Schedule;

/// How a link treats what is sent over it. The default is perfect: no delay, no
/// loss, no limit. Times of `outages` and of a trace count from the link's start.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How fast the queue empties.
    pub capacity: Capacity,
    /// Most bytes that wait for serialization, including the datagram that is being
    /// serialized; a datagram that does not fit is dropped.
    pub queue_bytes: usize,
    /// Datagrams that find more bytes than this in the queue are marked
    /// ([`Arrival::congested`](crate::Arrival), RFC 3168's CE); `None` marks none.
    pub mark_above_bytes: Option<usize>,
    /// Times in which nothing leaves the queue, though the queue still fills.
    pub outages: Vec<Range<Duration>>,
    /// Which datagrams get lost on the wire, after the queue.
    pub loss: Loss,
    /// Policer behind the queue, which drops what exceeds its rate, without delay.
    pub policer: Option<Policer>,
    /// Propagation delay of every datagram.
    pub delay: Duration,
    /// Further delay, drawn evenly from zero to this for every 10 ms. Datagrams behind are
    /// delayed too instead of overtaking.
    pub jitter: Duration,
    /// Arrivals are held until the next multiple of this since the link's start, like the
    /// grants of a cellular uplink, the aggregates of Wi-Fi, or aggregated
    /// acknowledgements. Zero holds none.
    pub batch: Duration,
    /// Probability that a datagram is held back by `reorder_delay`, so that those behind
    /// overtake it.
    pub reorder: f64,
    /// Time for which a datagram that is to be overtaken is held back.
    pub reorder_delay: Duration,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            capacity: Capacity::Unlimited,
            queue_bytes: usize::MAX,
            mark_above_bytes: None,
            outages: Vec::new(),
            loss: Loss::None,
            policer: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            batch: Duration::ZERO,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(5),
        }
    }
}

impl Conditions {
    /// Returns a link that is perfect except for its propagation delay.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Returns a link with this rate and propagation delay, and a queue that takes `queue`
    /// to empty.
    pub fn limited(rate: Bitrate, delay: Duration, queue: Duration) -> Self {
        Self {
            capacity: Capacity::Rate(rate),
            queue_bytes: bytes_in(rate, queue),
            ..Self::delayed(delay)
        }
    }

    /// Returns the bytes that the queue empties in these times since the link's start, if
    /// it always holds enough: what a laboratory knows ahead of its senders. `None` if
    /// nothing limits the link. Losses and the policer, which come behind the queue, do not
    /// count.
    pub fn carried_within(&self, times: Range<Duration>) -> Option<u64> {
        let mut outages: Vec<&Range<Duration>> = self.outages.iter().collect();
        outages.sort_unstable_by_key(|outage| outage.start);
        let (mut at, mut bytes) = (times.start, 0);
        for outage in outages {
            if outage.end > at && outage.start < times.end {
                bytes += self.capacity.carried_within(at..outage.start.max(at))?;
                at = outage.end;
            }
        }
        Some(bytes + self.capacity.carried_within(at..times.end.max(at))?)
    }

    /// Returns the same conditions with this loss.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }
}

/// How fast a link's queue empties. Only the bytes that the caller of `Link::send` gives
/// count.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Capacity {
    /// Unlimited: nothing ever waits, except during an outage.
    #[default]
    Unlimited,
    /// By a constant rate.
    Rate(Bitrate),
    /// By a trace of delivery opportunities, starting `offset` into it and repeating it. As
    /// in Mahimahi (Netravali et al., USENIX ATC 2015, §4), an opportunity carries 1500
    /// bytes of what waits at that time, including parts of datagrams; what is not used is
    /// wasted.
    Trace {
        /// The trace; shared, because traces are long.
        schedule: Arc<Schedule>,
        /// Position in the trace at the link's start, modulo its period.
        offset: Duration,
    },
}

impl Capacity {
    /// Returns the mean rate over all time; `None` if unlimited.
    pub fn mean(&self) -> Option<Bitrate> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => Some(*rate),
            Self::Trace { schedule, .. } => Some(schedule.mean()),
        }
    }

    /// Returns the bytes that pass in these times since the link's start, without outages.
    fn carried_within(&self, times: Range<Duration>) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => {
                let by = |time| bytes_in(*rate, time) as u64;
                Some(by(times.end).saturating_sub(by(times.start)))
            }
            Self::Trace { schedule, offset } => {
                let by = |time: Duration| schedule.carried_by(offset.saturating_add(time));
                Some(by(times.end).saturating_sub(by(times.start)))
            }
        }
    }
}

/// A token bucket that drops datagrams that find too few tokens. It is behind the queue,
/// handles a datagram when that has left the queue, and starts full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate at which tokens come.
    pub rate: Bitrate,
    /// Capacity of the bucket, in bytes.
    pub burst_bytes: u64,
}

/// Which datagrams get lost on the wire.
///
/// A loss belongs to the time at which a datagram leaves the queue, not to the datagram's
/// number: whether the k-th datagram of a millisecond is lost does not depend on its sender
/// or on what was sent before. Runs that differ in their sender alone are thereby compared
/// on the same network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// No datagram is lost.
    None,
    /// Each datagram is lost independently with this probability, 0..=1.
    Random(f64),
    /// Datagrams are lost in bursts: a Markov chain of two states (Gilbert 1960, Elliott
    /// 1963), stepped once per millisecond. It starts in the good state.
    GilbertElliott {
        /// Probability of changing from good to bad in a millisecond.
        to_bad: f64,
        /// Probability of changing from bad to good in a millisecond; 1 ÷ this is the mean
        /// length of a burst in ms.
        to_good: f64,
        /// Loss probability in the good state, usually 0.
        good: f64,
        /// Loss probability in the bad state, usually 1.
        bad: f64,
    },
}

impl Loss {
    /// Returns bursts of `burst_ms` on average (at least 1) in which everything is lost,
    /// and which take up the share `mean` (0..1) of the time.
    pub fn bursts(mean: f64, burst_ms: f64) -> Self {
        let to_good = 1.0 / burst_ms.max(1.0);
        Self::GilbertElliott {
            to_bad: to_good * mean / (1.0 - mean),
            to_good,
            good: 0.0,
            bad: 1.0,
        }
    }
}

/// Returns the bytes that pass at `rate` in `time`.
pub(crate) fn bytes_in(rate: Bitrate, time: Duration) -> usize {
    let bytes = u128::from(rate.bps()) * time.as_nanos() / 8_000_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Link};

    const SECOND: Duration = Duration::from_secs(1);

    /// Bytes that a link which is always full lets pass in `times`.
    fn passed(conditions: &Conditions, times: &Range<Duration>) -> u64 {
        const DATAGRAM: usize = 100;
        let clock = Clock::new();
        let start = clock.now();
        let mut link = Link::new(conditions.clone(), 1).starting_at(start);
        let mut bytes = 0;
        while link.queue_delay(start) <= times.end {
            link.send(start, DATAGRAM, ());
        }
        while let Some(arrival) = link.poll(start + times.end) {
            if arrival.at > start + times.start {
                bytes += DATAGRAM as u64;
            }
        }
        bytes
    }

    #[test]
    fn what_is_foreseen_is_what_a_full_link_carries() {
        let rate = Bitrate::from_bps(800_000);
        let trace = Schedule::new(vec![0, 3, 3, 40, 90, 100], 100).expect("a trace");
        let capacities = [
            Capacity::Rate(rate),
            Capacity::Trace {
                schedule: Arc::new(trace),
                offset: Duration::from_millis(730),
            },
        ];
        for capacity in capacities {
            let conditions = Conditions {
                capacity,
                outages: vec![2 * SECOND..3 * SECOND, SECOND..SECOND * 5 / 2],
                ..Conditions::default()
            };
            for times in [
                Duration::ZERO..SECOND,
                SECOND / 2..4 * SECOND,
                SECOND..2 * SECOND,
            ] {
                let foreseen = conditions.carried_within(times.clone()).expect("a limit");
                let passed = passed(&conditions, &times);
                // A datagram may straddle either end, and so may an opportunity.
                assert!(
                    foreseen.abs_diff(passed) <= 2 * OPPORTUNITY,
                    "{times:?} of {conditions:?}: {foreseen} foreseen, {passed} passed"
                );
            }
        }
        assert_eq!(
            Conditions::default().carried_within(Duration::ZERO..SECOND),
            None
        );
    }

    const OPPORTUNITY: u64 = crate::schedule::OPPORTUNITY_BYTES;
}
