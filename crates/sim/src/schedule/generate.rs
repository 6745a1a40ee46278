//! Traces drawn from models, so that no recorded ones need to be shipped.

use std::ops::RangeInclusive;
use std::time::Duration;

use glassline_media::Bitrate;

use super::{OPPORTUNITY_BYTES, Schedule};
use crate::Rng;

/// A rate whose logarithm varies around its mean (a first-order autoregressive process),
/// with outages: what a phone's uplink looks like over tens of seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Fading {
    /// Expected rate outside outages.
    pub mean: Bitrate,
    /// Standard deviation of the rate's natural logarithm; 0 keeps it constant.
    pub sigma: f64,
    /// Correlation of one step with the next, 0..1.
    pub correlation: f64,
    /// Length of a step, in which the rate is constant.
    pub step: Duration,
    /// Probability that an outage begins in a step.
    pub outage: f64,
    /// Steps that an outage lasts, evenly distributed.
    pub outage_steps: RangeInclusive<u32>,
    /// Share of the rate that is left in an outage.
    pub outage_share: f64,
}

/// A state of a Markov chain: a rate that lasts for a random time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Rate in the state.
    pub rate: Bitrate,
    /// Mean length of the state (exponentially distributed).
    pub mean: Duration,
}

impl Schedule {
    /// Returns a trace of `period` (at most an hour) from `fading`, which starts anywhere
    /// in its stationary distribution.
    pub fn fading(fading: &Fading, period: Duration, rng: &mut Rng) -> Self {
        let correlation = fading.correlation.clamp(0.0, 1.0);
        let innovation = (1.0 - correlation * correlation).sqrt();
        let step_ms = whole_ms(fading.step).max(1);
        let mut level = normal(rng);
        let mut outage_left = 0;
        let mut writer = Writer::new(period);
        while writer.now_ms < writer.period_ms {
            if outage_left > 0 {
                outage_left -= 1;
            } else if rng.chance(fading.outage) {
                let (least, most) = (*fading.outage_steps.start(), *fading.outage_steps.end());
                let span = u64::from(most.saturating_sub(least)) + 1;
                outage_left = u64::from(least) + rng.below(span);
            }
            let share = if outage_left > 0 {
                fading.outage_share
            } else {
                // The mean of a log-normal is exp(σ²/2) above its median.
                (fading.sigma * level - fading.sigma * fading.sigma / 2.0).exp()
            };
            writer.advance(fading.mean, share, step_ms);
            level = correlation * level + innovation * normal(rng);
        }
        writer.finish()
    }

    /// Returns a trace (of at most an hour) of rates that last for the given times, one
    /// after the other. Unlike new conditions in place of old ones, the trace also affects
    /// what already waits.
    pub fn steps(steps: &[(Bitrate, Duration)]) -> Self {
        let period = steps.iter().map(|(_, time)| *time).sum();
        let mut writer = Writer::new(period);
        for (rate, time) in steps {
            writer.advance(*rate, 1.0, whole_ms(*time));
        }
        writer.finish()
    }

    /// Returns a trace of `period` (at most an hour) that changes from any of `states` to
    /// any other, evenly. Without states, the trace has a single opportunity.
    pub fn markov(states: &[State], period: Duration, rng: &mut Rng) -> Self {
        let mut writer = Writer::new(period);
        let count = states.len() as u64;
        let mut at = usize::try_from(rng.below(count)).unwrap_or(0);
        while let (true, Some(state)) = (writer.now_ms < writer.period_ms, states.get(at)) {
            let dwell = state.mean.mul_f64(-(1.0 - rng.unit()).ln());
            writer.advance(state.rate, 1.0, whole_ms(dwell).max(1));
            let onward = 1 + rng.below(count.saturating_sub(1));
            at = (at + usize::try_from(onward).unwrap_or(0)) % states.len();
        }
        writer.finish()
    }
}

/// Converts rates to delivery opportunities.
struct Writer {
    /// Opportunities so far, in ms.
    at_ms: Vec<u32>,
    /// End of what was written, in ms.
    now_ms: u32,
    /// Period of the trace, in ms.
    period_ms: u32,
    /// Bytes that do not fill an opportunity yet.
    bytes: f64,
}

impl Writer {
    /// Returns a writer of a trace of `period`.
    fn new(period: Duration) -> Self {
        Self {
            at_ms: Vec::new(),
            now_ms: 0,
            period_ms: whole_ms(period).clamp(1, 3_600_000),
            bytes: 0.0,
        }
    }

    /// Writes `share` of `rate` for `ms` milliseconds.
    fn advance(&mut self, rate: Bitrate, share: f64, ms: u32) {
        let per_ms = rate.bps() as f64 * share.max(0.0) / 8000.0;
        let end = self.period_ms.min(self.now_ms.saturating_add(ms));
        for at in self.now_ms..end {
            self.bytes += per_ms;
            while self.bytes >= OPPORTUNITY_BYTES as f64
                && self.at_ms.len() < Schedule::OPPORTUNITIES_MAX
            {
                self.bytes -= OPPORTUNITY_BYTES as f64;
                self.at_ms.push(at);
            }
        }
        self.now_ms = end;
    }

    /// Returns the finished trace.
    fn finish(mut self) -> Schedule {
        if self.at_ms.is_empty() {
            self.at_ms.push(self.period_ms);
        }
        Schedule::new(self.at_ms, self.period_ms).expect("written in order")
    }
}

/// Returns the whole milliseconds of a time.
fn whole_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// Returns a standard normal number (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}
