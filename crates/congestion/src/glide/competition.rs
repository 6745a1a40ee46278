//! Whose queue it is, and how to compete if it is not ours.
//!
//! A flow that keeps the queue short starves beside one that fills it. Copa (§2.2)
//! concludes that others are present from a queue that was not nearly empty for five round
//! trips, but a fade of a radio link and a long route look the same. Therefore this module
//! probes the queue: the window shrinks by the queue (or by half) for a round trip. A queue
//! of our own shrinks by as much; of a shared queue only our part goes, and the others fill
//! it again (elasticity: Goyal et al., SIGCOMM 2022; Nimbus probes by pulses). Beside others
//! the window is CUBIC's, as in Nimbus: their equal, whatever the buffer. The probe is
//! repeated from time to time.

use std::time::{Duration, Instant};

use crate::Ack;
use crate::cubic::Cubic;

use super::constants;
use super::queue::Queue;

/// State of the competitive mode.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    /// Constants of the competition.
    constants: constants::Competition,
    /// CUBIC's window while competing.
    rival: Option<Cubic>,
    /// The probe that is under way.
    probe: Option<ElasticityProbe>,
    /// The only probe that the present competition rests on, until its finding is tested.
    doubt: Option<Evidence>,
    /// Probes in a row that found the queue foreign.
    foreign: u32,
    /// Probes in a row that found the queue ours, while competing.
    ours: u32,
    /// When competition ended last.
    left_at: Option<Instant>,
    /// When a probe ended last.
    probed_at: Option<Instant>,
    /// When there was last a queue long enough to probe.
    queued: Option<Instant>,
    /// Window when the queue last had its target length or less, in bytes.
    uncontested_window: f64,
}

/// An elasticity probe: the window is held back to see what the queue does.
#[derive(Clone, Copy, Debug)]
struct ElasticityProbe {
    /// When the probe began.
    began: Instant,
    /// Bytes that may be in flight during the probe.
    window: f64,
    /// Queueing delay when the probe began.
    queue: Duration,
    /// How much a queue of our own would shrink.
    expected: Duration,
    /// When the bytes in flight had come down to `window`.
    reached: Option<Instant>,
    /// What was measured since then.
    response: Option<ProbeResponse>,
}

/// What a probe found.
#[derive(Clone, Copy, Debug)]
struct Finding {
    /// Share of the expected change that the queue showed.
    share: f64,
    /// The end of the probe, if it alone is reason enough to compete: a queue longer than
    /// ours can be did not respond.
    evidence: Option<Evidence>,
}

/// The end of a probe to which the queue did not respond.
///
/// A fade of a radio link during the probe looks the same, until the window is larger again:
/// then a queue of our own grows by as much.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// When the probe ended.
    ended: Instant,
    /// Bytes in flight during the probe.
    in_flight: f64,
    /// Queueing delay at the end of the probe.
    queue: Duration,
    /// Rate at which the path delivered during the probe, in bytes/s.
    rate: f64,
}

/// Measurement by packets that were sent after the window had shrunk.
#[derive(Clone, Copy, Debug)]
struct ProbeResponse {
    /// When the first of them was acknowledged.
    first: Instant,
    /// Shortest queueing delay that they met.
    shortest: Duration,
}

/// What a probe depends on.
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
    /// Accuracy of round trips, which uneven acknowledgements limit.
    pub(super) noise: Duration,
    /// Queueing delay that the flow aims at.
    pub(super) target: Duration,
    /// Whether a probe may begin: the window is used, and no other probe is under way.
    pub(super) may_probe: bool,
}

/// A change of mode that a probe causes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ModeChange {
    /// Others fill the queue: compete as their equal.
    Compete,
    /// The others are gone: stop competing.
    Leave,
}

impl Competition {
    /// Returns the state before any probe.
    pub(super) const fn new(constants: constants::Competition) -> Self {
        Self {
            constants,
            rival: None,
            probe: None,
            doubt: None,
            foreign: 0,
            ours: 0,
            left_at: None,
            probed_at: None,
            queued: None,
            uncontested_window: 0.0,
        }
    }

    /// Whether the flow competes.
    pub(super) const fn is_active(&self) -> bool {
        self.rival.is_some()
    }

    /// Whether others fill the queue or did so recently, so that the recent smallest round
    /// trips include their queue.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        let recent = |left_at| now.saturating_duration_since(left_at) < self.constants.recent;
        self.is_active() || self.left_at.is_some_and(recent)
    }

    /// Whether the window must not move, because a probe is under way or about to be
    /// repeated.
    pub(super) const fn is_probing(&self) -> bool {
        self.probe.is_some() || self.foreign > 0
    }

    /// Returns CUBIC's window while competing, to be changed.
    pub(super) const fn rival(&mut self) -> Option<&mut Cubic> {
        self.rival.as_mut()
    }

    /// Returns CUBIC's window while competing.
    pub(super) const fn rival_window(&self) -> Option<&Cubic> {
        self.rival.as_ref()
    }

    /// Returns the bytes that may be in flight during a probe.
    pub(super) fn held_back(&self) -> Option<f64> {
        self.probe.map(|probe| probe.window)
    }

    /// Handles an acknowledgement: advances a probe or begins one. Returns a change of mode.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    pub(super) fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        queue: &mut Queue,
        of: &ProbeInputs,
    ) -> Option<ModeChange> {
        let now = ack.now;
        if let Some(probe) = &mut self.probe {
            if probe.reached.is_none() && ack.in_flight as f64 <= probe.window {
                probe.reached = Some(now);
            }
            let shortest_queue = probe.observe(ack, queue);
            let late = now.saturating_duration_since(probe.began);
            if let Some(shortest) = shortest_queue {
                let finding = probe.finding(shortest, now, queue, of, &self.constants);
                self.probe = None;
                self.probed_at = Some(now);
                return self.conclude(&finding, now, queue, of);
            }
            if late > queue.smoothed() * 6 + Duration::from_secs(1) {
                self.probe = None;
                self.probed_at = Some(now);
            }
            return None;
        }
        if queue.delay() >= smallest_change(queue, of.noise, &self.constants)
            || self.queued.is_none()
        {
            self.queued = Some(now);
        }
        if self.is_active() {
            let empty = self.queued.map(|at| now.saturating_duration_since(at));
            if empty.is_some_and(|empty| empty > self.constants.empty)
                || self.is_refuted(ack, queue, of)
            {
                return Some(self.leave(now));
            }
        } else {
            if queue.full_for(now).is_zero() {
                self.foreign = 0;
            }
            if queue.delay() <= of.target && self.foreign == 0 {
                self.uncontested_window = of.window;
            }
        }
        if of.may_probe && self.is_due(now, queue, of.target) {
            self.probe = ElasticityProbe::new(ack, queue, of, &self.constants);
        }
        None
    }

    /// Whether it is time for a probe. `target`: queueing delay that the flow aims at.
    fn is_due(&self, now: Instant, queue: &Queue, target: Duration) -> bool {
        let smoothed = queue.smoothed();
        let since = self.probed_at.map(|at| now.saturating_duration_since(at));
        if self.is_active() {
            let pause = match self.ours {
                0 => self
                    .constants
                    .probe_interval
                    .max(smoothed * self.constants.probe_interval_rounds),
                _ => self.constants.confirm_interval.max(smoothed * 2),
            };
            return since.is_none_or(|since| since > pause);
        }
        // Round trips as long as our own queue would make them; another flow's queue makes
        // them longer.
        let period =
            (queue.least() + target * self.constants.own_targets) * self.constants.full_rounds;
        let pause = if self.foreign > 0 {
            smoothed * 2
        } else {
            period
        };
        queue.full_for(now) > period && since.is_none_or(|since| since > pause)
    }

    /// Concludes from what a probe found.
    fn conclude(
        &mut self,
        finding: &Finding,
        now: Instant,
        queue: &mut Queue,
        of: &ProbeInputs,
    ) -> Option<ModeChange> {
        let share = finding.share;
        if share >= self.constants.ours {
            self.foreign = 0;
            self.ours += 1;
            queue.count_anew(now);
            // A single such probe may have coincided with another flow's loss.
            let enough = self.is_active() && self.ours >= self.constants.ours_min;
            return enough.then(|| self.leave(now));
        }
        self.ours = 0;
        self.foreign += 1;
        let is_confirmed = self.is_recent(now) || self.foreign >= self.constants.foreign_min;
        if !self.is_active() && (is_confirmed || finding.evidence.is_some()) {
            self.doubt = finding.evidence.filter(|_| !is_confirmed);
            let aim = self.aim(of.window, share);
            // A queue that did not respond certainly belongs to others: the window that was
            // given up in the meantime is ours.
            let window = if share < self.constants.unnoticed {
                of.window.max(self.constants.kept * self.uncontested_window)
            } else {
                of.window
            };
            self.rival = Some(Cubic::resume(
                of.mtu,
                window,
                self.uncontested_window.max(aim),
            ));
            self.queued = Some(now);
            return Some(ModeChange::Compete);
        }
        let aim = self.aim(of.window, share);
        if let Some(rival) = &mut self.rival
            && share < self.constants.small
        {
            rival.aim(aim);
        }
        None
    }

    /// Returns the window with which the flow would have its fair share, in bytes. `share`:
    /// part of the queue that is ours with this `window`.
    const fn aim(&self, window: f64, share: f64) -> f64 {
        let fair = self.constants.fair;
        window * (fair / share.max(fair / self.constants.aim_max))
    }

    /// Whether the queue grew with our window after competition began by a single probe, and
    /// so is ours.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn is_refuted(&mut self, ack: &Ack<'_>, queue: &Queue, of: &ProbeInputs) -> bool {
        let Some(doubt) = self.doubt else {
            return false;
        };
        // Packets that were sent a round trip later met a queue with the larger window in it.
        let since = doubt.ended + queue.smoothed();
        if ack.packets.last().is_none_or(|newest| newest.sent < since) {
            return false;
        }
        let more = ack.in_flight_before as f64 - doubt.in_flight;
        let expected = Duration::from_secs_f64((more / doubt.rate).clamp(0.0, 60.0));
        if expected < smallest_change(queue, of.noise, &self.constants) || !of.may_probe {
            return false;
        }
        self.doubt = None;
        let grown = queue.delay().saturating_sub(doubt.queue);
        grown.as_secs_f64() >= self.constants.grown * expected.as_secs_f64()
    }

    /// Ends the competitive mode and returns that change.
    fn leave(&mut self, now: Instant) -> ModeChange {
        self.rival = None;
        self.doubt = None;
        self.foreign = 0;
        self.ours = 0;
        self.probed_at = None;
        self.left_at = Some(now);
        ModeChange::Leave
    }

    /// Forgets everything: the path may be another one.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.constants);
    }
}

/// Returns the smallest change of the queue that can be told from noise.
fn smallest_change(queue: &Queue, noise: Duration, constants: &constants::Competition) -> Duration {
    let share = queue.standing().mul_f64(constants.change_share);
    constants.change_min.max(share) + noise
}

impl ElasticityProbe {
    /// Begins a probe; `None` if its result would tell nothing.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn new(
        ack: &Ack<'_>,
        queue: &Queue,
        of: &ProbeInputs,
        constants: &constants::Competition,
    ) -> Option<Self> {
        let least = queue.least().as_secs_f64();
        let delay = queue.delay();
        // Aggregated acknowledgements make the rate of a single round trip look higher.
        let rate = ack.rate.bytes_per_second(queue.least())?.min(of.rate);
        let kept = ack.in_flight_before as f64 * (1.0 - constants.cut_max);
        let window = (rate * least).max(kept);
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
    fn finding(
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
            evidence: is_evident.then_some(Evidence {
                ended: now,
                in_flight: self.window,
                queue: shortest,
                rate: self.window / seconds.max(1e-3),
            }),
        }
    }

    /// Records an acknowledgement. Returns the shortest queueing delay of packets that were
    /// sent after the window had shrunk, once half a round trip of them was acknowledged.
    fn observe(&mut self, ack: &Ack<'_>, queue: &Queue) -> Option<Duration> {
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
