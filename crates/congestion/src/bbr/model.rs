//! What the path is taken to be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::RateSample;

/// Rounds that a bandwidth counts: a cycle of gains and a bit (§4.1.1.2).
const BANDWIDTH_ROUNDS: u64 = 10;
/// How long a least round trip counts (§4.1.2).
const LEAST_RTT_TIME: Duration = Duration::from_secs(10);
/// Growth of the bandwidth that says that there may be more (§4.3.2.2).
const GROWTH: f64 = 1.25;
/// Rounds without such growth that say that there is not.
const FULL_ROUNDS: u32 = 3;

/// Round trips counted by packets: a round ends when the first packet that left in it
/// is acknowledged (§4.1.1.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// The latest acknowledgement began one.
    pub(super) started: bool,
    /// Bytes delivered when it began.
    began: u64,
}

impl Rounds {
    pub(super) const fn observe(&mut self, rate: &RateSample, valid: bool) {
        self.started = valid && rate.delivered_before >= self.began;
        if self.started {
            self.began = rate.delivered_total;
            self.count += 1;
        }
    }

    /// Begins one here, out of turn.
    pub(super) const fn begin(&mut self, delivered: u64) {
        self.began = delivered;
    }
}

/// The largest of the last ten rounds; zero before any.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundMax(VecDeque<(u64, f64)>);

impl RoundMax {
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

    pub(super) fn get(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, value)| *value)
    }
}

/// The least round trip, and when it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeastRtt {
    pub(super) rtt: Duration,
    pub(super) at: Instant,
}

impl LeastRtt {
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > LEAST_RTT_TIME
    }
}

/// Whether Startup has filled the pipe (§4.3.2.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pipe {
    bandwidth: f64,
    rounds: u32,
}

impl Pipe {
    /// The bandwidth at the end of a round that the application did not limit.
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

    pub(super) const fn is_full(&self) -> bool {
        self.rounds >= FULL_ROUNDS
    }

    /// What slowed it down may not have been the path: look again, if it still does.
    pub(super) const fn doubt(&mut self) {
        if !self.is_full() {
            *self = Self {
                bandwidth: 0.0,
                rounds: 0,
            };
        }
    }
}
