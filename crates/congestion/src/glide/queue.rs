//! What round trips tell of the queue.

use std::time::{Duration, Instant};

use crate::RoundTrips;
use crate::filter::{Largest, Least, Windowed};

/// Before round trips are known, the standing one is the least of so long.
const STANDING_FIRST: Duration = Duration::from_millis(100);
/// How long a least round trip counts (Copa §2.1).
const LEAST_WINDOW: Duration = Duration::from_secs(10);
/// The same while others keep the queue full, so that their queue does not become
/// our idea of an empty path. CUBIC may not empty a long one for minutes.
const LEAST_WINDOW_CONTESTED: Duration = Duration::from_secs(120);
/// Round trips over which the swing of the queue is taken (Copa §2.2).
const SWING_ROUNDS: u32 = 4;
/// The queue is nearly empty below this share of its swing (Copa §2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// And below this part of the queue that we would make ourselves, in any case.
const UNTOUCHED: u32 = 4;

/// The queue of the path, by its round trips.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    least: Windowed<Duration, Least>,
    standing: Windowed<Duration, Least>,
    largest: Windowed<Duration, Largest>,
    latest: Duration,
    smoothed: Duration,
    /// When it was nearly empty last.
    emptied: Option<Instant>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            least: Windowed::new(LEAST_WINDOW),
            standing: Windowed::new(STANDING_FIRST),
            largest: Windowed::new(STANDING_FIRST),
            latest: Duration::ZERO,
            smoothed: Duration::ZERO,
            emptied: None,
        }
    }

    /// A round trip of `rtt`; `contested` while others fill the queue.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        rtt: Duration,
        trips: &RoundTrips,
        contested: bool,
        target: Duration,
    ) {
        self.smoothed = trips.smoothed().unwrap_or(rtt);
        self.latest = rtt;
        self.least.set_window(if contested {
            LEAST_WINDOW_CONTESTED
        } else {
            LEAST_WINDOW
        });
        self.least.record(rtt, now);
        // Half a round trip is enough for acknowledgements that come in lumps (§2.1).
        self.standing.set_window(self.smoothed / 2);
        self.standing.record(rtt, now);
        self.largest.set_window(self.smoothed * SWING_ROUNDS);
        self.largest.record(rtt, now);
        let nearly_empty = self.swing().mul_f64(NEARLY_EMPTY).max(target / UNTOUCHED);
        if self.latest_delay() <= nearly_empty || self.emptied.is_none() {
            self.emptied = Some(now);
        }
    }

    /// The least round trip: the path's without a queue. Zero before the first.
    pub(super) fn least(&self) -> Duration {
        self.least.get().unwrap_or_default()
    }

    /// The standing round trip.
    pub(super) fn standing(&self) -> Duration {
        self.standing.get().unwrap_or(self.latest)
    }

    pub(super) const fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// What the standing queue costs.
    pub(super) fn delay(&self) -> Duration {
        self.standing().saturating_sub(self.least())
    }

    /// What the queue cost the latest packet.
    pub(super) fn latest_delay(&self) -> Duration {
        self.latest.saturating_sub(self.least())
    }

    /// The longest queue of the last round trips.
    pub(super) fn swing(&self) -> Duration {
        self.largest
            .get()
            .unwrap_or_default()
            .saturating_sub(self.least())
    }

    /// For how long the queue has not been nearly empty.
    pub(super) fn full_for(&self, now: Instant) -> Duration {
        self.emptied
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Starts to count [`full_for`](Self::full_for) anew.
    pub(super) const fn count_anew(&mut self, now: Instant) {
        self.emptied = Some(now);
    }
}
