//! Constants of what a loss means.

use std::time::Duration;

use super::{ConstantRef, Visit};

group! {
    /// Constants of the test whether a loss is a policer's.
    LossTest {
        /// Share of lost packets that needs no test (BBRv3 `LossThresh`).
        loss_min: f64 = 0.02,
        /// Factor above the random-loss floor from which loss is tested again.
        floor_margin: f64 = 1.7,
        /// Bursts of loss before a test. Fewer would be detected sooner and be chance more
        /// often; BBRv3 requires 6 in slow start (`StartupFullLossCnt`).
        bursts_min: u32 = 4,
        /// Packets lost before a test.
        packets_min: f64 = 6.0,
        /// Shortest time over which a rate can be told from aggregated acknowledgements.
        rate_time_min: Duration = Duration::from_millis(120),
        /// Time after which a count without suspicion ends.
        count_time_max: Duration = Duration::from_secs(2),
        /// Factor of the rate during a trial.
        trial_share: f64 = 0.9,
        /// Bursts of loss that a trial would see if the loss were random. With 6, chance
        /// shows no more than one in 1.7 % of trials (Poisson).
        trial_bursts: f64 = 6.0,
        /// Time within which a trial has to see them.
        trial_time_max: Duration = Duration::from_secs(10),
        /// Ratio of loss during a trial to loss before it below which the loss has vanished.
        vanished: f64 = 0.25,
        /// Ratio of loss during a trial to loss before it below which the loss is caused by
        /// speed, but the rate was not right.
        abated: f64 = 0.65,
        /// Most trials in a row.
        tries_max: u32 = 3,
        /// Share of loss above what radio links have.
        plain_loss: f64 = 0.1,
        /// Evidence for a token bucket that needs no test, as the logarithm of how many
        /// times likelier the losses are with the bucket than by chance.
        evidence: f64 = 15.0,
        /// Evidence for a token bucket that a test must leave to confirm a policer.
        evidence_least: f64 = 12.0,
        /// Queueing delay below which there is no queue.
        empty: Duration = Duration::from_millis(5),
        /// Share of its longest from which a queue counts as full: acknowledgements come a
        /// little after the loss.
        full: f64 = 0.7,
        /// Shortest queueing delay that differs from an empty queue.
        full_min: Duration = Duration::from_millis(3),
        /// Time after a test without result during which no other test begins.
        quiet: Duration = Duration::from_secs(10),
        /// Share of loss from which a test begins nevertheless, because the last result must
        /// have been wrong.
        loud: f64 = 0.2,
    }
}

group! {
    /// Constants of the time behind a policer.
    Policed {
        /// Factor of the bucket's rate at which packets leave while holding.
        hold_share: f64 = 0.98,
        /// Factor of the bucket's rate during a probe.
        probe_gain: f64 = 1.2,
        /// Largest factor of the bucket's rate during a probe, of a sender that uses little of it.
        probe_gain_max: f64 = 2.0,
        /// Time after which a probe becomes faster if the sender used little of it.
        probe_unused: Duration = Duration::from_secs(1),
        /// Share of what a probe lets pass below which the sender used little of it. A sender that
        /// follows the bucket's rate uses five sixths.
        probe_unused_share: f64 = 0.6,
        /// Largest ratio of loss while holding to loss before it; above, the rate was not
        /// the cause. Loss of a bucket whose rate is overestimated by a tenth is a tenth.
        doubt: f64 = 0.4,
        /// Smallest ratio of a policer's rate to the rate that came through at first.
        rate_share_min: f64 = 0.6,
        /// Largest burst of a bucket, in seconds at its rate: what was delivered before the
        /// rate fell looks like a burst, too.
        burst_max: f64 = 0.5,
        /// Time before the first probe, which confirms the policer.
        rest_first: Duration = Duration::from_millis(500),
        /// Shortest time between probes; doubled with each that failed.
        rest_min: Duration = Duration::from_secs(2),
        /// Longest time between probes.
        rest_max: Duration = Duration::from_secs(30),
        /// Share of a short queue that is ours: its swing is 2.5 times as long.
        short_share: f64 = 0.4,
        /// Time before a longer queue is tried, doubled with each failure up to eight times.
        rest_short: Duration = Duration::from_secs(8),
        /// Longest queue target: a queue that may be as long is not short.
        short_max: Duration = Duration::from_millis(400),
        /// Time after which a probe ends that the application does not use.
        probe_time_max: Duration = Duration::from_secs(5),
    }
}

impl Policed {
    /// Share of its gain by which a probe must be used. If it then lost nothing in that
    /// time, the rate is higher, however large the burst.
    pub(in crate::glide) fn probe_used(&self) -> f64 {
        (self.probe_gain - 1.0) / 2.0
    }
}

group! {
    /// Constants of random loss.
    RandomLoss {
        /// Packets after which the past counts half: about ten seconds at 3 Mbit/s.
        memory: f64 = 3000.0,
        /// Packets that a share is at least taken of: fewer give no reliable share.
        packets_min: f64 = 300.0,
        /// Largest share that is attributed to chance: radio links that lose more are rare,
        /// and a policer that was missed by mistake must be tested again.
        most: f64 = 0.08,
        /// Standard deviations of a Poisson distribution that count as chance: exceeded once
        /// in a thousand counts.
        deviations: f64 = 3.0,
    }
}
