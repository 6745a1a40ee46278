//! What a link is like: the settings of [`Link`](crate::Link).

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
    /// Most bytes that wait for serialisation; a datagram that does not fit is
    /// dropped. Counts the one being serialised.
    pub queue_bytes: usize,
    /// Datagrams that find more bytes than this in the queue are marked
    /// ([`Arrival::congested`](crate::Arrival), RFC 3168's CE); `None` marks none.
    pub mark_above_bytes: Option<usize>,
    /// Times in which nothing leaves the queue, though it still fills.
    pub outages: Vec<Range<Duration>>,
    /// Which datagrams get lost on the wire, after the queue.
    pub loss: Loss,
    /// What stands behind the queue and drops what exceeds a rate, without delay.
    pub policer: Option<Policer>,
    /// Propagation delay of every datagram.
    pub delay: Duration,
    /// Further delay, drawn evenly from zero to this for every 10 ms. Delays the
    /// ones behind too rather than let them overtake.
    pub jitter: Duration,
    /// Arrivals are held until the next multiple of this since the link's start:
    /// the grants of a cellular uplink, the aggregates of Wi-Fi, acknowledgements
    /// in bunches. Zero holds none.
    pub batch: Duration,
    /// Probability of being held back by `reorder_delay`, so that the ones
    /// behind overtake.
    pub reorder: f64,
    /// How long the ones to be overtaken are held back.
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
    /// A perfect link but for its propagation delay.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// A link of this rate and propagation delay, with a queue that takes `queue`
    /// to empty.
    pub fn limited(rate: Bitrate, delay: Duration, queue: Duration) -> Self {
        Self {
            capacity: Capacity::Rate(rate),
            queue_bytes: bytes_in(rate, queue),
            ..Self::delayed(delay)
        }
    }

    /// The same with this loss.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }
}

/// How fast a link's queue empties. Only the bytes that the sender names count.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Capacity {
    /// At once: nothing ever waits, but for an outage.
    #[default]
    Unlimited,
    /// Steadily.
    Rate(Bitrate),
    /// When the schedule says, starting `offset` into it and around again. As in
    /// Mahimahi (Netravali et al., USENIX ATC 2015, §4), an opportunity carries
    /// 1500 bytes of what waits at that moment, be it parts of datagrams; what is
    /// not used is wasted.
    Trace {
        /// The opportunities; shared, because traces are long.
        schedule: Arc<Schedule>,
        /// Where in the trace the link's start is; taken modulo its period.
        offset: Duration,
    },
}

impl Capacity {
    /// Mean rate over all time; `None` if unlimited.
    pub fn mean(&self) -> Option<Bitrate> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => Some(*rate),
            Self::Trace { schedule, .. } => Some(schedule.mean()),
        }
    }
}

/// A token bucket that drops what finds too few tokens. It stands behind the
/// queue and is asked when a datagram has left that; it starts full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// At which tokens come in.
    pub rate: Bitrate,
    /// How many bytes' worth it holds.
    pub burst_bytes: u64,
}

/// Which datagrams get lost on the wire.
///
/// Luck belongs to the time at which a datagram leaves the queue, not to its
/// number: the k-th to leave in some millisecond has the same fate whoever sends
/// it and whatever was sent before. Runs that differ in their sender alone are
/// thus compared on the same network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// None.
    None,
    /// Each one independently with this probability, 0..=1.
    Random(f64),
    /// In bursts: a Markov chain of two states (Gilbert 1960, Elliott 1963),
    /// stepped once a millisecond. Starts good.
    GilbertElliott {
        /// Probability of turning from good to bad in a millisecond.
        to_bad: f64,
        /// Probability of turning from bad to good; 1 ÷ this is a burst's mean
        /// length in milliseconds.
        to_good: f64,
        /// Loss probability while good, usually 0.
        good: f64,
        /// Loss probability while bad, usually 1.
        bad: f64,
    },
}

impl Loss {
    /// Bursts of `burst_ms` on average (at least 1), in which all is lost, and
    /// which take up the share `mean` (0..1) of the time.
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

/// What passes at `rate` in `time`, in bytes.
pub(crate) fn bytes_in(rate: Bitrate, time: Duration) -> usize {
    let bytes = u128::from(rate.bps()) * time.as_nanos() / 8_000_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
