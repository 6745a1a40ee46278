//! Glide, our own controller: Copa's delay target, with what the study of live uploads
//! found missing from it.
//!
//! ```text
//!                    ┌─ Queue ──── standing and least round trip, swing
//!   Ack, Loss ──────►├─ Delivery ─ best and sustained rate, aggregated acknowledgements
//!                    ├─ CrossTraffic ─ share of other flows, by the spacing of packets
//!                    └─ LossCount  loss
//!                          │
//!     VelocityWindow  window towards a target queue      (Copa §2.1)
//!     Policer         token bucket, random-loss floor    (Flach et al. 2016, by tests)
//!     Competition     CUBIC's window beside others       (Copa §2.2, Nimbus)
//!                          │
//!                          ▼   window, pacing rate, deliverable rate
//! ```
//!
//! - **delta from a delay**: Copa keeps 1/delta packets queued, which at the study's 0.04
//!   is 240 ms on 1 Mbit/s and 12 ms on 20 Mbit/s. Here delta is packet/(rate · target), so
//!   that the queue is a time.
//! - **bounded in flight**: never more than the measured rate times the round trip, the queue
//!   and the aggregation of acknowledgements.
//! - **loss and queues of other flows are tested** before a conclusion: `policer`, `competition`.

mod bucket;
mod competition;
mod config;
pub mod constants;
mod cross_traffic;
mod delivery;
mod delivery_history;
mod elasticity;
mod loss_count;
mod policer;
mod proof;
mod queue;
mod random_loss;
mod velocity_window;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::cubic::Cubic;
use crate::flow::bitrate;
use crate::{Ack, Controller, Loss, PathModel};

pub use config::Config;
pub use constants::Constants;

use competition::Competition;
use cross_traffic::CrossTraffic;
use delivery::Delivery;
use elasticity::{ProbeInputs, smallest_change};
use policer::{Policer, PolicerInputs};
use queue::Queue;
use velocity_window::{Step, VelocityWindow};

/// The Glide controller. Windows are in bytes, rates in bytes/s.
#[derive(Clone, Debug)]
pub struct Glide {
    /// The aims of the flow.
    config: Config,
    /// Size of datagrams, in bytes.
    mtu: f64,
    /// Window of the default mode.
    velocity_window: VelocityWindow,
    /// Whether the flow is in slow start.
    starting: bool,
    /// When slow start doubled the window last.
    doubled: Option<Instant>,
    /// The path's queue, by its round trips.
    queue: Queue,
    /// Delivery rates measured from acknowledgments.
    delivery: Delivery,
    /// Mean deviation of round trips.
    variation: Duration,
    /// Model of a policer; `None` before the first acknowledgement.
    policer: Option<Policer>,
    /// The evidence of other flows in the spacing of packets.
    cross_traffic: CrossTraffic,
    /// State of the competitive mode.
    competition: Competition,
    /// Time for which the application has had more to send than was sent.
    backlogged: Duration,
    /// Whether neither window nor queue was full at the latest acknowledgement.
    unfilled: bool,
}

impl Glide {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub fn new(config: Config, mtu: u64) -> Self {
        let mtu = mtu as f64;
        let constants = &config.constants;
        Self {
            config: Config {
                target_queue: config
                    .target_queue
                    .clamp(Config::TARGET_QUEUE_MIN, Config::TARGET_QUEUE_MAX),
                ..config
            },
            mtu,
            velocity_window: VelocityWindow::new(
                constants.window.initial_segments * mtu,
                constants.window,
            ),
            starting: true,
            doubled: None,
            queue: Queue::new(constants.queue),
            delivery: Delivery::new(constants.delivery),
            variation: Duration::ZERO,
            policer: None,
            cross_traffic: CrossTraffic::new(constants.cross_traffic),
            competition: Competition::new(constants.competition, constants.cross_traffic),
            unfilled: false,
            backlogged: Duration::ZERO,
        }
    }

    /// Returns the constants of window and pacing.
    const fn constants(&self) -> &constants::Window {
        &self.config.constants.window
    }

    /// Returns how unevenly acknowledgements come.
    fn noise(&self) -> Duration {
        let seconds = self.delivery.unevenness(2.0 * self.mtu);
        Duration::from_secs_f64(seconds.min(1.0))
    }

    /// Whether pacing alone limits the flow, so that its rate says nothing about the path.
    fn is_pacing_only(&self) -> bool {
        let free = |it: &Policer| it.rate().is_none() && !it.is_losing();
        let free = self.policer.as_ref().is_none_or(free);
        self.unfilled && free && !self.starting && !self.competition.is_active()
    }

    /// Returns the smallest window, in bytes.
    fn least_window(&self) -> f64 {
        self.constants().least_segments * self.mtu
    }

    /// Returns the queueing delay to aim at, in seconds.
    fn target(&self) -> f64 {
        let constants = self.constants();
        let rate = self.delivery.best().unwrap_or(constants.target_rate);
        let rate = rate.max(1.0);
        let scale = (constants.target_rate / rate).sqrt();
        // No `clamp`, which panics if a laboratory crosses the two.
        let scale = scale
            .max(constants.target_scale_min)
            .min(constants.target_scale_max);
        let target = self.config.target_queue.as_secs_f64() * scale;
        let target = if self.is_backlogged() {
            target * constants.backlog_targets
        } else {
            target
        };
        let limit = self.policer.as_ref().and_then(Policer::queue_limit);
        let target = limit.map_or(target, |limit| target.min(limit.as_secs_f64()));
        // A queue of less than two packets cannot be measured.
        target.max(2.0 * self.mtu / rate)
    }

    /// Whether data waits in the application for so long that a longer queue costs nothing.
    /// The queue before a policer is empty and stays so.
    fn is_backlogged(&self) -> bool {
        let is_policed = self.policer.as_ref().is_some_and(|it| it.rate().is_some());
        self.backlogged >= self.constants().backlogged && !self.starting && !is_policed
    }

    /// Returns the rate that would be fair beside one other flow, in bytes/s: half of the
    /// path's, or what the application sends where that does not fill the path.
    fn fair_rate(&self) -> f64 {
        let half = self.config.constants.competition.fair * self.delivery.best().unwrap_or(0.0);
        if self.delivery.is_proven() {
            half
        } else {
            half.max(self.delivery.sustained().unwrap_or(0.0))
        }
    }

    /// Returns the inputs of the policer model.
    fn policer_inputs(&self, now: Instant) -> PolicerInputs {
        PolicerInputs {
            now,
            smoothed: self.queue.smoothed(),
            queue: self.queue.latest_delay(),
            variation: self.variation,
            target: Duration::from_secs_f64(self.target().min(2.0)),
            mtu: self.mtu,
            is_backlogged: self.is_backlogged(),
        }
    }

    /// Takes Copa's step, or doubles the window in slow start (§2.1).
    fn steer(&mut self, ack: &Ack<'_>, used: bool) {
        let rate = self.delivery.best().unwrap_or(0.0);
        let queue_target = rate * self.target();
        // §2.1 steps 1 and 2: the target rate is 1/(delta · queueing delay).
        let queue = self.queue.delay().as_secs_f64();
        let present = self.velocity_window.window / self.queue.standing().as_secs_f64().max(1e-6);
        let rise = queue <= 0.0 || queue_target / queue >= present;
        if self.starting {
            if rise {
                return self.double(ack.now, used);
            }
            self.starting = false;
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        self.velocity_window.step(&Step {
            now: ack.now,
            acked: ack.bytes as f64,
            rise,
            used,
            queue_target: queue_target.max(self.mtu),
            smoothed: self.queue.smoothed(),
        });
    }

    /// Doubles the window once per round trip, in slow start.
    fn double(&mut self, now: Instant, used: bool) {
        let smoothed = self.queue.smoothed();
        let due = |at: Instant| now.saturating_duration_since(at) >= smoothed;
        if self.doubled.is_some_and(due) && used {
            self.velocity_window.window *= 2.0;
        }
        if self.doubled.is_none_or(due) {
            self.doubled = Some(now);
        }
    }

    /// Bounds the window to what the path holds with the wanted queue.
    fn bound(&mut self) {
        let Some(rate) = self.delivery.best() else {
            return;
        };
        if self.starting {
            return;
        }
        let seconds =
            self.queue.least().as_secs_f64() + self.constants().bound_targets * self.target();
        let bound = rate * seconds + self.delivery.aggregation();
        self.velocity_window.window = self
            .velocity_window
            .window
            .min(bound)
            .max(self.least_window());
    }

    /// Returns the bytes in flight that the policer's token bucket allows.
    fn policed_window(&self) -> Option<f64> {
        let policer = self.policer.as_ref()?;
        let pace = policer.pacing(self.mtu)?;
        let seconds =
            self.queue.least().as_secs_f64() + self.constants().policed_targets * self.target();
        Some(pace * seconds + policer.spare() + self.delivery.aggregation())
    }

    /// Returns the window with all its bounds, in bytes.
    fn window_bytes(&self) -> f64 {
        let mut window = match self.competition.rival_window() {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            Some(rival) => rival.window() as f64,
            None => self.velocity_window.window,
        };
        for limit in [self.policed_window(), self.competition.held_back()] {
            window = limit.map_or(window, |limit| window.min(limit));
        }
        window.max(self.least_window())
    }
}

impl Controller for Glide {
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if let Some(policer) = &mut self.policer {
            policer.on_sent(now, bytes as f64);
        }
        if let Some(rival) = self.competition.rival() {
            rival.on_sent(now, bytes, in_flight);
        }
    }

    fn heeds_sending(&self) -> bool {
        let is_metering = self.policer.as_ref().is_some_and(Policer::heeds_sending);
        is_metering || self.competition.rival_window().is_some()
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        let now = ack.now;
        self.backlogged = ack.backlogged;
        let contested = self.competition.is_active();
        let recent = self.competition.is_recent(now);
        let target = Duration::from_secs_f64(self.target().min(2.0));
        self.queue
            .observe(now, rtt, ack.round_trips, recent, target);
        let (smoothed, least) = (self.queue.smoothed(), self.queue.least());
        let queued = !contested && self.queue.delay() > target;
        let round = self.delivery.observe(ack, smoothed, least, queued);
        let window = self.window_bytes();
        // A window that is not used must not grow: on a live stream it would grow without
        // bound.
        let used = ack.in_flight_before as f64 >= self.constants().used * window;
        self.unfilled = (ack.in_flight_before as f64) < self.constants().filled * window
            && self.queue.latest_delay() <= target / self.constants().unfilled_divisor;
        self.variation = ack.round_trips.variation().unwrap_or_default();
        let of = self.policer_inputs(now);
        let constants = &self.config.constants;
        let policer = self
            .policer
            .get_or_insert_with(|| Policer::new(constants, now));
        if !contested {
            policer.on_ack(ack.packets, round, &of);
            if let Some(rate) = policer.take_measured() {
                self.delivery.restart(rate, now);
            }
        }
        if let Some(rival) = self.competition.rival() {
            rival.on_ack(ack);
        } else if !self.competition.is_probing() {
            self.steer(ack, used);
            self.bound();
        }
        if self.config.competes && !self.starting {
            let testing = self.policer.as_ref().is_some_and(Policer::is_testing);
            let filled = ack.in_flight_before as f64 >= self.constants().filled * window;
            let noise = self.noise();
            let change = smallest_change(&self.queue, noise, &self.config.constants.competition);
            let stands = self.queue.latest_delay() > 2 * change;
            if !stands {
                self.cross_traffic.forget();
            } else if ack.rate.app_limited && !self.competition.is_probed(now, smoothed) {
                // What the window paces follows the path's own changes, and looks like others.
                self.cross_traffic.observe(ack, self.mtu);
            }
            let of = ProbeInputs {
                window,
                window_least: self.least_window(),
                mtu: self.mtu,
                rate: self.delivery.sustained().unwrap_or(f64::INFINITY),
                fair_rate: self.fair_rate(),
                unsteadiness: self.delivery.unsteadiness(),
                noise,
                target: of.target,
                others: self.cross_traffic.others_share(),
                may_probe: filled && !testing,
            };
            let mode_change = self.competition.on_ack(ack, &mut self.queue, &of);
            match mode_change {
                Some(competition::ModeChange::Compete) => {
                    if let Some(policer) = &mut self.policer {
                        policer.forget(now);
                    }
                }
                Some(competition::ModeChange::Leave) => {
                    self.velocity_window.jump(window);
                    self.bound();
                }
                None => {}
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_loss(&mut self, loss: &Loss) {
        self.cross_traffic.forget();
        if loss.persistent {
            // Persistent congestion (RFC 9002 §7.6): what was known may have been another
            // path's.
            self.velocity_window.jump(self.least_window());
            self.starting = true;
            self.delivery.forget();
            self.competition.forget();
            if let Some(policer) = &mut self.policer {
                policer.forget(loss.now);
            }
            return;
        }
        if self.competition.is_active() {
            return self.competition.on_loss(loss, &self.queue);
        }
        let of = self.policer_inputs(loss.now);
        if let Some(policer) = &mut self.policer {
            policer.on_loss(loss.bytes as f64, loss.newest_sent, &of);
            if policer.rate().is_some() || policer.is_testing() {
                self.starting = false;
            }
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if let Some(rival) = self.competition.rival() {
            rival.on_spurious_loss(now);
        }
    }

    fn on_proven(&mut self, now: Instant, rate: Bitrate) {
        self.take_proof(rate, now);
    }

    fn on_marked(&mut self, now: Instant, in_flight: u64) {
        self.starting = false;
        if let Some(rival) = self.competition.rival() {
            return rival.on_marked(now, in_flight);
        }
        let window =
            (self.velocity_window.window * self.constants().beta_marked).max(self.least_window());
        self.velocity_window.jump(window);
    }

    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    fn on_mtu(&mut self, bytes: u64) {
        if (bytes as f64) < self.mtu {
            // Packets were lost because they were too large, not too fast: what was
            // concluded from it does not hold.
            self.policer = None;
            self.delivery = Delivery::new(self.config.constants.delivery);
        }
        self.mtu = bytes as f64;
        if let Some(rival) = self.competition.rival() {
            rival.on_mtu(bytes);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^52"
    )]
    fn window(&self) -> u64 {
        self.window_bytes() as u64
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        let smoothed = self.queue.smoothed().as_secs_f64();
        let rate = self.delivery.best().filter(|_| smoothed > 0.0)?;
        let mut pace = if self.starting {
            self.constants().pacing_unproven * self.velocity_window.window / smoothed
        } else if self.delivery.is_proven() {
            self.constants().pacing_proven * rate
        } else {
            self.constants().pacing_unproven * rate
        };
        if let Some(rival) = self.competition.rival_window().and_then(Cubic::pacing_rate) {
            return Some(rival);
        }
        if let Some(limit) = self.policer.as_ref().and_then(|it| it.pacing(self.mtu)) {
            pace = pace.min(limit);
        }
        Some(bitrate(pace))
    }

    fn deliverable_rate(&self) -> Option<Bitrate> {
        // A bucket's rate is known also where the application leaves some of it unused. Of
        // other paths, the flow's own measurement knows better what was left.
        let model = self.policer.as_ref().and_then(Policer::rate);
        model.or_else(|| self.delivery.saturated()).map(bitrate)
    }

    fn is_starting(&self) -> bool {
        self.starting
    }

    fn is_holding_back(&self) -> bool {
        // A trial is slower than what was sent, on purpose: an encoder that took that rate
        // for the path's would make it last.
        let on_trial = self.policer.as_ref().is_some_and(Policer::is_on_trial);
        on_trial || self.competition.held_back().is_some() || self.is_pacing_only()
    }

    fn path_model(&self) -> PathModel {
        PathModel {
            policed: self.policer.as_ref().is_some_and(Policer::is_policed),
            competing: self.competition.is_active(),
            loss_floor: self.policer.as_ref().map_or(0.0, Policer::floor),
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
