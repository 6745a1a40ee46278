//! Elasticity probe: holds the window back for a round trip, and measures what the queue does.

use std::time::{Duration, Instant};

use crate::Ack;

use super::constants;
use super::cross_traffic::OthersShare;
use super::queue::Queue;

/// An elasticity probe: the window is held back to see what the queue does.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElasticityProbe {
    /// When the probe began.
    pub(super) began: Instant,
    /// Bytes that may be in flight during the probe.
    pub(super) window: f64,
    /// Queueing delay when the probe began.
    queue: Duration,
    /// How much a queue of our own would shrink.
    expected: Duration,
    /// When the bytes in flight had come down to `window`.
    pub(super) reached: Option<Instant>,
    /// The measurement since then.
    response: Option<ProbeResponse>,
}

/// The finding of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    /// Share of the expected change that the queue showed.
    pub(super) share: f64,
    /// Whether it alone is reason enough to compete: a queue longer than ours can be did not
    /// respond.
    pub(super) is_evident: bool,
    /// The end of the probe.
    pub(super) evidence: Evidence,
}

/// The end of a probe to which the queue did not respond as ours would.
///
/// A fade of a radio link during the probe looks the same, until the window is larger again:
/// then a queue of our own grows by as much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// When the probe ended.
    pub(super) ended: Instant,
    /// Bytes in flight during the probe.
    pub(super) in_flight: f64,
    /// Queueing delay at the end of the probe.
    pub(super) queue: Duration,
    /// Rate at which the path delivered during the probe, in bytes/s.
    pub(super) rate: f64,
    /// The bytes in flight when the window was larger again.
    pub(super) restored: Option<Restored>,
}

/// Bytes in flight after a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restored {
    /// When they were in flight.
    pub(super) at: Instant,
    /// Number of bytes that were sent and not acknowledged.
    pub(super) in_flight: f64,
}

/// Measurement by packets that were sent after the window had shrunk.
#[derive(Clone, Copy, Debug)]
struct ProbeResponse {
    /// When the first of them was acknowledged.
    first: Instant,
    /// Shortest queueing delay that they met.
    shortest: Duration,
}

/// The inputs of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeInputs {
    /// Present window, in bytes.
    pub(super) window: f64,
    /// Smallest window, in bytes.
    pub(super) window_least: f64,
    /// Size of datagrams, in bytes.
    pub(super) mtu: f64,
    /// Sustained delivery rate, in bytes/s.
    pub(super) rate: f64,
    /// Rate that would be fair beside one other flow, in bytes/s.
    pub(super) fair_rate: f64,
    /// Mean change of the path's rate from one measurement to the next, as a share of it; 1
    /// before any.
    pub(super) unsteadiness: f64,
    /// Accuracy of round trips, which uneven acknowledgements limit.
    pub(super) noise: Duration,
    /// Queueing delay that the flow aims at.
    pub(super) target: Duration,
    /// Share of other flows by the spacing of packets; `None` if that is unknown.
    pub(super) others: Option<OthersShare>,
    /// Whether a probe may begin: the window is used, and no other probe is under way.
    pub(super) may_probe: bool,
}

/// Returns the smallest change of the queue that can be told from noise.
pub(super) fn smallest_change(
    queue: &Queue,
    noise: Duration,
    constants: &constants::Competition,
) -> Duration {
    let share = queue.standing().mul_f64(constants.change_share);
    constants.change_min.max(share) + noise
}

impl ElasticityProbe {
    /// Begins a probe; `None` if its result would tell nothing. `drained_share`: share of
    /// the queue that the probe drains, if the queue is ours.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    pub(super) fn new(
        ack: &Ack<'_>,
        queue: &Queue,
        of: &ProbeInputs,
        drained_share: f64,
        constants: &constants::Competition,
    ) -> Option<Self> {
        let least = queue.least().as_secs_f64();
        let delay = queue.delay();
        // Aggregated acknowledgements make the rate of a single round trip look higher.
        let rate = ack.rate.bytes_per_second(queue.least())?.min(of.rate);
        let kept = ack.in_flight_before as f64 * (1.0 - constants.cut_max);
        let noticed = smallest_change(queue, of.noise, constants) * 2;
        let drained = delay.mul_f64(drained_share).max(noticed);
        let left = least + delay.saturating_sub(drained).as_secs_f64();
        let window = (rate * left).max(kept);
        let rest = Duration::from_secs_f64((window / rate - least).max(0.0));
        let expected = delay.saturating_sub(rest);
        (expected >= smallest_change(queue, of.noise, constants)).then_some(Self {
            began: ack.now,
            window,
            queue: delay,
            expected,
            reached: None,
            response: None,
        })
    }

    /// Returns what the probe found. `shortest`: shortest queueing delay that it met.
    pub(super) fn finding(
        &self,
        shortest: Duration,
        now: Instant,
        queue: &Queue,
        of: &ProbeInputs,
        constants: &constants::Competition,
    ) -> Finding {
        let shrunk = self.queue.saturating_sub(shortest.saturating_sub(of.noise));
        let share = shrunk.as_secs_f64() / self.expected.as_secs_f64();
        // What the smallest window did not let shrink says nothing.
        let is_evident = share < constants.unnoticed
            && self.window >= of.window_least
            && self.queue > of.target.mul_f64(constants.evident_targets);
        let seconds = (queue.least() + shortest).as_secs_f64();
        Finding {
            share,
            is_evident,
            evidence: Evidence {
                ended: now,
                in_flight: self.window,
                queue: shortest,
                rate: self.window / seconds.max(1e-3),
                restored: None,
            },
        }
    }

    /// Records an acknowledgement. Returns the shortest queueing delay of packets that were
    /// sent after the window had shrunk, once half a round trip of them was acknowledged.
    pub(super) fn observe(&mut self, ack: &Ack<'_>, queue: &Queue) -> Option<Duration> {
        let reached = self.reached?;
        let newest = ack.packets.last()?;
        if newest.sent < reached {
            return None;
        }
        let delay = queue.latest_delay();
        let response = self.response.get_or_insert(ProbeResponse {
            first: ack.now,
            shortest: delay,
        });
        response.shortest = response.shortest.min(delay);
        let measured_for = ack.now.saturating_duration_since(response.first);
        (measured_for >= queue.smoothed() / 2).then_some(response.shortest)
    }
}
