//! Whose queue it is, and how to compete if it is not ours.
//!
//! A flow that keeps the queue short starves beside one that fills it. Copa (§2.2)
//! concludes that others are present from a queue that was not nearly empty for five round
//! trips, but a fade of a radio link and a long route look the same. Therefore this module
//! probes the queue: the window shrinks by the queue (or by half) for a round trip. A queue
//! of our own shrinks by as much; of a shared queue only our part goes, and the others fill
//! it again (elasticity: Goyal et al., SIGCOMM 2022; Nimbus probes by pulses). Beside others
//! the window is CUBIC's, as in Nimbus: their equal, whatever the buffer. The probe is
//! repeated from time to time. Where the spacing of packets shows others in the queue (see
//! `cross_traffic`), competition begins without a probe.

use std::time::{Duration, Instant};

use crate::cubic::Cubic;
use crate::{Ack, Controller as _, Loss};

use super::constants;
use super::elasticity::{
    ElasticityProbe, Evidence, Finding, ProbeInputs, Restored, smallest_change,
};
use super::queue::Queue;

/// State of the competitive mode.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    /// Constants of the competition.
    constants: constants::Competition,
    /// Constants of what the spacing of packets tells.
    cross_traffic: constants::CrossTraffic,
    /// CUBIC's window while competing.
    rival: Option<Cubic>,
    /// The probe that is under way.
    probe: Option<ElasticityProbe>,
    /// The only probe that the present competition rests on, until its finding is tested.
    doubt: Option<Evidence>,
    /// Probes in a row that found the queue foreign.
    foreign: u32,
    /// Probes in a row that found the queue ours.
    ours: u32,
    /// When competition ended last.
    left_at: Option<Instant>,
    /// When a probe ended last.
    probed_at: Option<Instant>,
    /// When there was last a queue long enough to probe.
    queued: Option<Instant>,
    /// The state of the path when the queue last had its target length or less.
    uncontested: Uncontested,
    /// Window up to which CUBIC's window keeps the fair rate while the queue grows, in
    /// bytes; `None` after the first loss, which shows the share better.
    lift: Option<f64>,
}

/// Facts about a path without a competitor.
#[derive(Clone, Copy, Debug)]
struct Uncontested {
    /// Window, in bytes.
    window: f64,
    /// Rate that is fair beside one other flow, in bytes/s.
    fair_rate: f64,
    /// Mean change of the path's rate; see [`Delivery`](super::delivery::Delivery).
    unsteadiness: f64,
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
    pub(super) const fn new(
        constants: constants::Competition,
        cross_traffic: constants::CrossTraffic,
    ) -> Self {
        Self {
            constants,
            cross_traffic,
            rival: None,
            probe: None,
            doubt: None,
            foreign: 0,
            ours: 0,
            left_at: None,
            probed_at: None,
            queued: None,
            uncontested: Uncontested {
                window: 0.0,
                fair_rate: 0.0,
                unsteadiness: 1.0,
            },
            lift: None,
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

    /// Whether what is acknowledged may have been sent during a probe. `smoothed`: smoothed
    /// round trip.
    pub(super) fn is_probed(&self, now: Instant, smoothed: Duration) -> bool {
        let recent = |at| now.saturating_duration_since(at) < smoothed * 2;
        self.is_probing() || self.probed_at.is_some_and(recent)
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
        if of.may_probe {
            self.keep_rate(queue);
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
                self.uncontested = Uncontested {
                    window: of.window,
                    fair_rate: of.fair_rate,
                    unsteadiness: of.unsteadiness,
                };
            }
        }
        if self.is_shared(queue, of) {
            self.ours = 0;
            self.probed_at = Some(now);
            // The window that was given up to the others' queue is ours.
            self.compete(0.0, now, queue, of);
            return Some(ModeChange::Compete);
        }
        if of.may_probe && self.is_due(now, queue, of) {
            // Beside others the link stays busy while our part of the queue drains, and a
            // steady one while all of it drains.
            let drained =
                if !self.is_active() && self.foreign == 0 && self.is_usual(queue, of.target) {
                    self.constants.drained
                } else {
                    1.0
                };
            self.probe = ElasticityProbe::new(ack, queue, of, drained, &self.constants);
        }
        None
    }

    /// Whether the spacing of packets shows others in the queue, before any probe.
    fn is_shared(&self, queue: &Queue, of: &ProbeInputs) -> bool {
        let Some(others) = of.others else {
            return false;
        };
        let spacing = &self.cross_traffic;
        let errors = if self.is_fading() {
            spacing.errors * spacing.errors_fading
        } else {
            spacing.errors
        };
        let least = others.share - errors * others.error;
        !self.is_active() && queue.delay() > of.target && least > spacing.others_min
    }

    /// Whether it is time for a probe.
    fn is_due(&self, now: Instant, queue: &Queue, of: &ProbeInputs) -> bool {
        let target = of.target;
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
        let round = queue.least() + target * self.constants.own_targets;
        let period = (round * self.constants.full_rounds).mul_f64(self.patience(queue, target));
        let pause = if self.foreign > 0 {
            smoothed * 2
        } else {
            period
        };
        // A queue longer than ours can be, on a path whose rate was steady, cannot wait: the
        // window shrinks meanwhile, and an encoder follows.
        let is_sudden = queue.delay() > target.mul_f64(self.constants.evident_targets);
        let period = if is_sudden && self.foreign == 0 && !self.is_fading() {
            round * self.constants.evident_rounds
        } else {
            period
        };
        let pause = pause.min(period);
        queue.full_for(now) > period && since.is_none_or(|since| since > pause)
    }

    /// Whether the queue is as long as our own may be, on a path whose rate changes all the
    /// time.
    fn is_usual(&self, queue: &Queue, target: Duration) -> bool {
        let longest = target.mul_f64(self.constants.evident_targets);
        self.is_fading() && queue.delay() <= longest
    }

    /// Returns the factor of the time until a probe. Each probe of a queue of our own on a
    /// path that fades costs goodput, since the link may become faster meanwhile.
    fn patience(&self, queue: &Queue, target: Duration) -> f64 {
        if !self.is_usual(queue, target) {
            return 1.0;
        }
        let found = i32::try_from(self.ours).unwrap_or(i32::MAX);
        let patience = self.constants.patience.powi(found);
        patience.min(self.constants.patience_max)
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
        let is_sudden =
            self.uncontested.unsteadiness < self.constants.steady && share < self.constants.fair;
        let is_confirmed = self.is_recent(now) || self.foreign >= self.constants.foreign_min;
        if !self.is_active() && (is_confirmed || is_sudden || finding.is_evident) {
            self.doubt = Some(finding.evidence);
            self.compete(share, now, queue, of);
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

    /// Begins to compete. `share`: part of the queue that is ours.
    fn compete(&mut self, share: f64, now: Instant, queue: &Queue, of: &ProbeInputs) {
        let before = self.uncontested;
        // A queue that did not respond certainly belongs to others: the window that was
        // given up in the meantime is ours.
        let kept = if share < self.constants.unnoticed {
            of.window.max(self.constants.kept * before.window)
        } else {
            of.window
        };
        let fair = self.fair_window(queue);
        let window = kept.max(fair.min(self.constants.lift_max * kept));
        let aim = self.aim(of.window, share);
        let top = before.window.max(aim).max(fair);
        self.rival = Some(Cubic::resume(of.mtu, window, top));
        // A fade also makes a queue, and what the path carried before is no share then.
        self.lift = (!self.is_fading()).then_some(self.constants.lift_max * window);
        self.queued = Some(now);
    }

    /// Raises CUBIC's window with the round trip, so that the flow keeps its fair rate while
    /// others make the queue longer: an encoder that was cut once is slow to come back.
    fn keep_rate(&mut self, queue: &Queue) {
        let fair = self.fair_window(queue);
        if let Some((most, rival)) = self.lift.zip(self.rival.as_mut()) {
            rival.lift(fair.min(most));
        }
    }

    /// Returns the window that gives the fair rate with the present queue, in bytes.
    const fn fair_window(&self, queue: &Queue) -> f64 {
        self.uncontested.fair_rate * queue.smoothed().as_secs_f64()
    }

    /// Whether the path's rate changed all the time before the queue grew, so that a fade may
    /// have made the queue.
    fn is_fading(&self) -> bool {
        (self.constants.steady..=self.constants.unknown).contains(&self.uncontested.unsteadiness)
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
        let (Some(doubt), Some(newest)) = (&mut self.doubt, ack.packets.last()) else {
            return false;
        };
        let in_flight = ack.in_flight_before as f64;
        // A packet meets the queue of what was in flight when it was sent.
        let Some(restored) = doubt.restored else {
            let is_due = newest.sent >= doubt.ended + queue.smoothed() && of.may_probe;
            doubt.restored = is_due.then_some(Restored {
                at: ack.now,
                in_flight,
            });
            return false;
        };
        if newest.sent < restored.at {
            return false;
        }
        doubt.restored = None;
        let more = restored.in_flight - doubt.in_flight;
        let expected = Duration::from_secs_f64((more / doubt.rate).clamp(0.0, 60.0));
        if expected < smallest_change(queue, of.noise, &self.constants) {
            return false;
        }
        let grown = queue.latest_delay().saturating_sub(doubt.queue);
        self.doubt = None;
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

    /// Handles a loss while competing.
    pub(super) fn on_loss(&mut self, loss: &Loss, queue: &Queue) {
        let fair = self.fair_window(queue);
        let Some(rival) = &mut self.rival else {
            return;
        };
        rival.on_loss(loss);
        if let Some(most) = self.lift.take() {
            // The first loss is that of the others' growth, too: the window returns.
            rival.return_to(fair.min(most));
        }
    }

    /// Forgets everything: the path may be another one.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.constants, self.cross_traffic);
    }
}
