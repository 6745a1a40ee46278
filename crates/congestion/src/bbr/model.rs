//! The parts of BBR's path model: rounds, windowed maxima, smallest round trip, full pipe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::RateSample;

/// Rounds for which a bandwidth sample counts: a gain cycle and a bit (§4.1.1.2).
const BANDWIDTH_ROUNDS: u64 = 10;
/// Time for which the smallest round trip counts (§4.1.2).
const MIN_RTT_TIME: Duration = Duration::from_secs(10);
/// Growth of the bandwidth per round that shows that the pipe is not full (§4.3.2.2).
const GROWTH: f64 = 1.25;
/// Rounds without such growth after which the pipe is full.
const FULL_ROUNDS: u32 = 3;

/// Counts round trips by packets: a round ends when the first packet that was sent in it is
/// acknowledged (§4.1.1.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Number of round trips so far.
    pub(super) count: u64,
    /// Whether the latest acknowledgement began a round.
    pub(super) started: bool,
    /// Bytes delivered in all when the present round began.
    began: u64,
}

impl Rounds {
    /// Records an acknowledgement; only a `valid` rate sample can begin a round.
    pub(super) const fn observe(&mut self, rate: &RateSample, valid: bool) {
        self.started = valid && rate.delivered_before >= self.began;
        if self.started {
            self.began = rate.delivered_total;
            self.count += 1;
        }
    }

    /// Begins a round at `delivered` bytes delivered in all, ahead of time.
    pub(super) const fn begin(&mut self, delivered: u64) {
        self.began = delivered;
    }
}

/// Maximum over the last ten rounds; zero before any sample.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundMax(VecDeque<(u64, f64)>);

impl RoundMax {
    /// Records a sample taken in a round.
    pub(super) fn record(&mut self, value: f64, round: u64) {
        while self.0.back().is_some_and(|(_, last)| *last <= value) {
            self.0.pop_back();
        }
        if self.0.back().is_none_or(|(at, _)| *at != round) {
            self.0.push_back((round, value));
        }
        let old = |at: u64| round.saturating_sub(at) > BANDWIDTH_ROUNDS;
        while self.0.front().is_some_and(|(at, _)| old(*at)) {
            self.0.pop_front();
        }
    }

    /// Returns the largest value within the window.
    pub(super) fn get(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, value)| *value)
    }
}

/// The smallest round trip, and when it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    /// Duration of the round trip.
    pub(super) rtt: Duration,
    /// When it was measured.
    pub(super) at: Instant,
}

impl MinRtt {
    /// Whether the measurement is too old to count.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > MIN_RTT_TIME
    }
}

/// Detects that Startup has filled the pipe (§4.3.2.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// Bandwidth at the last significant growth, in bytes/s.
    bandwidth: f64,
    /// Rounds since the last significant growth.
    rounds: u32,
}

impl FullPipe {
    /// Records the bandwidth in bytes/s at the end of a round that the application did not
    /// limit.
    pub(super) fn observe(&mut self, bandwidth: f64) {
        if self.is_full() {
            return;
        }
        if bandwidth >= self.bandwidth * GROWTH {
            *self = Self {
                bandwidth,
                rounds: 0,
            };
        } else {
            self.rounds += 1;
        }
    }

    /// Whether the pipe is full.
    pub(super) const fn is_full(&self) -> bool {
        self.rounds >= FULL_ROUNDS
    }

    /// Ends the detection: the pipe is full.
    pub(super) const fn fill(&mut self) {
        self.rounds = FULL_ROUNDS;
    }

    /// Starts the detection again, unless the pipe is full already: what slowed the flow
    /// may not have been the path.
    pub(super) const fn restart(&mut self) {
        if !self.is_full() {
            *self = Self {
                bandwidth: 0.0,
                rounds: 0,
            };
        }
    }
}
