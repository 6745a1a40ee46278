//! A time of sending faster than a policer is assumed to pass.

use std::time::Instant;

use super::overdraft::Overdraft;
use super::{Bucket, Phase, Policer, PolicerInputs, TrialBaseline};

/// Bytes beyond a bucket's burst that a probe has to pass, in seconds at the bucket's rate, from two packets to
/// eight: a rate that was found while the path had nearly stopped is left within some seconds.
const SLACK: f64 = 0.5;

/// A probe whether a policer passes more than is assumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) bucket: Bucket,
    /// Bytes that arrived beyond the bucket's rate.
    pub(super) overdraft: Overdraft,
    /// Whether a slower probe passed just before.
    is_repeated: bool,
}

impl Probe {
    /// Returns a probe of a bucket that may be full.
    pub(super) fn new(bucket: Bucket, now: Instant) -> Self {
        Self {
            bucket: Bucket::new(bucket.rate, bucket.burst, now),
            overdraft: Overdraft::default(),
            is_repeated: false,
        }
    }
}

impl Policer {
    /// Ends a probe when it has seen enough: the policer is confirmed, or its rate is
    /// higher.
    pub(super) fn probe(&mut self, of: &PolicerInputs, probe: Probe) {
        let Probe {
            mut bucket,
            overdraft,
            ..
        } = probe;
        let count = self.count;
        let elapsed = count.elapsed(of.now).as_secs_f64();
        // Bytes above the rate, which the bucket must have dropped.
        let sent = count.delivered + count.lost;
        let above = (sent - bucket.rate * elapsed).max(overdraft.bytes());
        if count.bursts > 1 && !self.is_chance(of.mtu) {
            self.rest = (self.rest * 2).min(self.policed.rest_max);
            self.gain = self.policed.probe_gain;
            if let Some(queue) = count.full_queue(of.variation, &self.test) {
                return self.shorten(queue, bucket.rate, of.now);
            }
            self.confirmed |= self.is_evident(of);
            bucket.drop_seen();
            self.rest(bucket, of);
        } else if above > bucket.burst + (SLACK * bucket.rate).clamp(2.0 * of.mtu, 8.0 * of.mtu)
            || (count.elapsed(of.now) > self.policed.probe_time_max
                && above > self.policed.probe_used() * bucket.rate * elapsed)
        {
            bucket.rate *= self.gain;
            // What passed without loss may be far from the limit: the path has another one now.
            if probe.is_repeated {
                self.gain = (self.gain * self.gain).min(self.policed.probe_gain_max);
            }
            self.rest = self.policed.rest_min;
            self.before = self.before.map(|before| TrialBaseline {
                rate: bucket.rate,
                ..before
            });
            if of.queue > of.target / 2 {
                // The path has a measurable queue: no model is needed.
                self.measured = Some(bucket.rate);
                return self.enter(Phase::Free, of.now);
            }
            let next = Probe {
                is_repeated: true,
                ..Probe::new(bucket, of.now)
            };
            self.enter(Phase::Probing(next), of.now);
        } else if count.elapsed(of.now) > self.policed.probe_time_max {
            self.rest(bucket, of);
        } else if self.is_probed_in_vain(&bucket, of) {
            self.gain = (self.gain * self.policed.probe_gain).min(self.policed.probe_gain_max);
            self.enter(Phase::Probing(probe), of.now);
        }
    }

    /// Whether the sender used too little of a probe to end it, so that only a faster one can.
    fn is_probed_in_vain(&self, bucket: &Bucket, of: &PolicerInputs) -> bool {
        let time = self.count.elapsed(of.now);
        let offered = self.gain * bucket.rate * time.as_secs_f64();
        self.gain < self.policed.probe_gain_max
            && time >= self.policed.probe_unused
            && self.count.delivered < self.policed.probe_unused_share * offered
    }
}
