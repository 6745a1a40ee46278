//! BBR, its first version: a model of the path, from the fastest delivery and the
//! least round trip seen lately, that says how fast to send.
//!
//! By draft-cardwell-iccrg-bbr-congestion-control-00 (sections given as §) and, where
//! that is silent, by what Linux does (`net/ipv4/tcp_bbr.c`, functions named), with
//! its model of policers ([`Config::long_term`], `bbr-lt`) or without (`bbr`). The
//! study of live uploads ran mvfst's of November 2019 ([`Config::study`],
//! `bbr-study`): the same draft, no model of policers, and a bandwidth that is the
//! faster of sending and being acknowledged where the draft takes the slower.
//!
//! ```text
//! Startup ─ no faster for three rounds ─► Drain ─ queue gone ─► ProbeBw ◄─┐
//!    ▲                                                            │ 10 s without a
//!    └────── the pipe was never full ────── ProbeRtt ◄────────────┘ lower round trip
//! ```

mod aggregation;
mod config;
mod cycle;
mod long_term;
mod model;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use self::aggregation::Aggregation;
pub use self::config::Config;
use self::cycle::Cycle;
use self::long_term::LongTerm;
use self::model::{LeastRtt, Pipe, RoundMax, Rounds};
use crate::flow::bitrate;
use crate::{Ack, Controller, Loss};

/// 2/ln 2, with which the rate doubles every round (§4.3.2.1; `bbr_high_gain`).
const HIGH_GAIN: f64 = 2.885;
/// Drains in one round what Startup queued (§4.3.3).
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
/// Room for late and stretched acknowledgements (§4.2.3.2; `bbr_cwnd_gain`).
const WINDOW_GAIN: f64 = 2.0;
/// Paces so much below the bandwidth, so that queues shrink rather than grow
/// (`bbr_pacing_margin_percent`).
const MARGIN: f64 = 0.99;
/// Stays at the least window for so long to see the path without a queue (§4.3.5).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// RFC 9002 §7.2.
const INITIAL_SEGMENTS: f64 = 10.0;
/// Enough for acknowledgements of every other packet (§4.2.3.3).
const LEAST_SEGMENTS: f64 = 4.0;
/// Bursts that may be on their way within the end systems (§4.2.3.2).
const QUANTA: f64 = 3.0;

/// BBR. Windows in bytes, rates in bytes a second.
#[derive(Clone, Debug)]
pub struct Bbr {
    config: Config,
    mtu: f64,
    mode: Mode,
    window: f64,
    /// `None` before the first round trip.
    pacing: Option<f64>,
    rounds: Rounds,
    /// The bottleneck's, the fastest of ten rounds (§4.1.1).
    bandwidth: RoundMax,
    /// The path's own round trip, the least of ten seconds (§4.1.2).
    least_rtt: Option<LeastRtt>,
    pipe: Pipe,
    cycle: Cycle,
    aggregation: Aggregation,
    long_term: LongTerm,
    recovery: Option<Recovery>,
    /// The window before recovery or `ProbeRtt` cut it.
    prior_window: f64,
    /// Nothing was in flight before what is in flight now.
    restarting: bool,
    /// Bytes lost since the last acknowledgement.
    lost: f64,
    last_ack: Option<LastAck>,
}

/// The latest acknowledgement.
#[derive(Clone, Copy, Debug)]
struct LastAck {
    at: Instant,
    bytes: f64,
}

/// What the model is used for (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate until the pipe is full.
    Startup,
    /// Lets the queue of Startup drain.
    Drain,
    /// Sends at the bandwidth, asking for more once in a while.
    ProbeBw,
    /// Sends next to nothing, to see the least round trip.
    ProbeRtt {
        /// When it may be over; `None` until little enough is in flight.
        until: Option<Instant>,
        /// A round has passed since then.
        round_done: bool,
    },
}

/// From a loss until what left after it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    began: Instant,
    /// In its first round no more leaves than arrives.
    conserving: bool,
}

impl Bbr {
    /// At its start, for datagrams of `mtu` bytes.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub fn new(config: Config, mtu: u64) -> Self {
        let mtu = mtu as f64;
        Self {
            config,
            mtu,
            mode: Mode::Startup,
            window: INITIAL_SEGMENTS * mtu,
            pacing: None,
            rounds: Rounds::default(),
            bandwidth: RoundMax::default(),
            least_rtt: None,
            pipe: Pipe::default(),
            cycle: Cycle::new(config.seed),
            aggregation: Aggregation::default(),
            long_term: LongTerm::default(),
            recovery: None,
            prior_window: 0.0,
            restarting: false,
            lost: 0.0,
            last_ack: None,
        }
    }

    /// What to send at: the policer's rate if there is one, else the bottleneck's.
    fn rate(&self) -> f64 {
        self.long_term
            .rate()
            .unwrap_or_else(|| self.bandwidth.get())
    }

    const fn margin(&self) -> f64 {
        if self.config.overrates { 1.0 } else { MARGIN }
    }

    /// §4.3, `bbr_update_gains`.
    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw if self.long_term.rate().is_some() => 1.0,
            Mode::ProbeBw => self.cycle.gain(),
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => WINDOW_GAIN,
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// What should be in flight for `gain` times the path's bandwidth-delay product
    /// at `rate` (§4.2.3.2).
    fn in_flight_at(&self, rate: f64, gain: f64) -> f64 {
        let Some(least) = &self.least_rtt else {
            return INITIAL_SEGMENTS * self.mtu;
        };
        gain * rate * least.rtt.as_secs_f64() + QUANTA * self.quantum()
    }

    /// How much may leave at once (§4.2.2).
    fn quantum(&self) -> f64 {
        const SLOW: f64 = 1.2e6 / 8.0;
        const FAST: f64 = 24e6 / 8.0;
        match self.pacing.unwrap_or(0.0) {
            rate if rate < SLOW => self.mtu,
            rate if rate < FAST => 2.0 * self.mtu,
            rate => (rate * 1e-3).min(65_536.0),
        }
    }

    fn least_window(&self) -> f64 {
        LEAST_SEGMENTS * self.mtu
    }

    /// §4.1.1 and the model of policers, which see each delivery first.
    fn observe_bandwidth(&mut self, ack: &Ack<'_>) {
        let least = ack.round_trips.least().unwrap_or_default();
        let sample = if self.config.overrates {
            ack.rate.fastest_bytes_per_second()
        } else {
            ack.rate.bytes_per_second(least)
        };
        self.rounds.observe(&ack.rate, sample.is_some());
        let Some(sample) = sample else {
            return;
        };
        if let Some(recovery) = &mut self.recovery {
            recovery.conserving &= !self.rounds.started;
        }
        if self.config.long_term {
            let probing = self.mode == Mode::ProbeBw;
            let lost = self.lost > 0.0;
            let over = self
                .long_term
                .observe(ack, lost, self.rounds.started, probing);
            if over {
                self.enter_probe_bw(ack.now);
            }
        }
        // §4.1.1.4: an application that sends little says nothing of the path, unless
        // it found more than was known. So the best known rate stays, however long.
        if !ack.rate.app_limited || sample >= self.bandwidth.get() {
            self.bandwidth.record(sample, self.rounds.count);
        }
    }

    /// §4.3.4.3, `bbr_is_next_cycle_phase`.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn advance_cycle(&mut self, ack: &Ack<'_>) {
        let (Mode::ProbeBw, Some(least)) = (self.mode, self.least_rtt) else {
            return;
        };
        let began = *self.cycle.began.get_or_insert(ack.now);
        let full_length = ack.now.saturating_duration_since(began) > least.rtt;
        let in_flight = ack.in_flight_before as f64;
        let bandwidth = self.bandwidth.get();
        let gain = self.pacing_gain();
        let over = if gain > 1.0 {
            // It must show in what is in flight, unless the path holds no more.
            full_length && (self.lost > 0.0 || in_flight >= self.in_flight_at(bandwidth, gain))
        } else if gain < 1.0 {
            full_length || in_flight <= self.in_flight_at(bandwidth, 1.0)
        } else {
            full_length
        };
        if over {
            self.cycle.advance(ack.now);
        }
    }

    /// §4.3.4.2: anywhere in the cycle but where it drains.
    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        self.cycle.begin(now);
    }

    /// §4.3.2.2 and §4.3.3.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn leave_startup(&mut self, ack: &Ack<'_>) {
        if self.rounds.started && !ack.rate.app_limited {
            self.pipe.observe(self.bandwidth.get());
        }
        if self.mode == Mode::Startup && self.pipe.is_full() {
            self.mode = Mode::Drain;
        }
        let drained = self.in_flight_at(self.bandwidth.get(), 1.0);
        if self.mode == Mode::Drain && ack.in_flight as f64 <= drained {
            self.enter_probe_bw(ack.now);
        }
    }

    /// §4.1.2 and §4.3.5, `bbr_update_min_rtt`.
    fn observe_round_trip(&mut self, ack: &Ack<'_>) {
        let expired = self.least_rtt.is_some_and(|least| least.is_old(ack.now));
        if let Some(rtt) = ack.rtt
            && (expired || self.least_rtt.is_none_or(|least| rtt <= least.rtt))
        {
            self.least_rtt = Some(LeastRtt { rtt, at: ack.now });
        }
        let probing = matches!(self.mode, Mode::ProbeRtt { .. });
        if expired && !self.restarting && !probing {
            self.save_window();
            self.mode = Mode::ProbeRtt {
                until: None,
                round_done: false,
            };
        }
        self.probe_round_trip(ack);
        self.restarting = false;
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn probe_round_trip(&mut self, ack: &Ack<'_>) {
        let least_window = self.least_window();
        let Mode::ProbeRtt { until, round_done } = &mut self.mode else {
            return;
        };
        if until.is_none() {
            if ack.in_flight as f64 <= least_window {
                *until = Some(ack.now + PROBE_RTT_TIME);
                *round_done = false;
                self.rounds.begin(ack.rate.delivered_total);
            }
            return;
        }
        *round_done |= self.rounds.started;
        if *round_done {
            self.leave_probe_rtt(ack.now);
        }
    }

    /// `bbr_check_probe_rtt_done`.
    fn leave_probe_rtt(&mut self, now: Instant) {
        let Mode::ProbeRtt { until, .. } = self.mode else {
            return;
        };
        if until.is_none_or(|until| now < until) {
            return;
        }
        if let Some(least) = &mut self.least_rtt {
            least.at = now;
        }
        self.window = self.window.max(self.prior_window);
        if self.pipe.is_full() {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_save_cwnd`: what to come back to.
    fn save_window(&mut self) {
        let cut = self.recovery.is_some() || matches!(self.mode, Mode::ProbeRtt { .. });
        self.prior_window = if cut {
            self.prior_window.max(self.window)
        } else {
            self.window
        };
    }

    /// §4.2.1, `bbr_set_pacing_rate`.
    fn set_pacing(&mut self, ack: &Ack<'_>) {
        let Some(smoothed) = ack.round_trips.smoothed() else {
            return;
        };
        let first = || HIGH_GAIN * self.window / smoothed.as_secs_f64().max(1e-6) * self.margin();
        let before = self.pacing.unwrap_or_else(first);
        let rate = self.pacing_gain() * self.rate() * self.margin();
        // Startup never slows down: its first samples are of a window of ten packets.
        let rate = if self.pipe.is_full() {
            rate
        } else {
            rate.max(before)
        };
        self.pacing = Some(rate);
    }

    /// §4.2.3.4 and §4.2.3.6, `bbr_set_cwnd`.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn set_window(&mut self, ack: &Ack<'_>) {
        let (acked, in_flight) = (ack.bytes as f64, ack.in_flight as f64);
        if let Some(recovery) = self.recovery {
            let newest = ack.packets.last();
            if newest.is_some_and(|newest| newest.sent > recovery.began) {
                self.window = self.window.max(self.prior_window);
                self.recovery = None;
            } else if recovery.conserving {
                self.window = self.window.max(in_flight + acked);
                return;
            }
        }
        let extra = if self.config.aggregation && self.pipe.is_full() {
            self.aggregation.extra(self.rate())
        } else {
            0.0
        };
        let target = self.in_flight_at(self.rate(), self.window_gain()) + extra;
        let delivered = ack.rate.delivered_total as f64;
        if self.pipe.is_full() {
            self.window = (self.window + acked).min(target);
        } else if self.window < target || delivered < INITIAL_SEGMENTS * self.mtu {
            self.window += acked;
        }
        self.window = self.window.max(self.least_window());
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if in_flight > bytes {
            return;
        }
        // §4.3.4.4: after silence it goes on at the bandwidth, whatever the phase, and
        // the silence itself has shown the least round trip.
        self.restarting = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw => self.pacing = Some(self.rate() * self.margin()),
            Mode::ProbeRtt { .. } => self.leave_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let acked = ack.bytes as f64;
        self.observe_bandwidth(ack);
        if self.config.aggregation {
            let (rate, rounds) = (self.rate(), &self.rounds);
            self.aggregation
                .observe(ack.now, acked, rate, self.window, rounds.count);
        }
        self.advance_cycle(ack);
        self.leave_startup(ack);
        self.observe_round_trip(ack);
        self.set_pacing(ack);
        self.set_window(ack);
        self.lost = 0.0;
        self.last_ack = Some(LastAck {
            at: ack.now,
            bytes: acked,
        });
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_loss(&mut self, loss: &Loss) {
        self.lost += loss.bytes as f64;
        let known = |recovery: Recovery| loss.newest_sent <= recovery.began;
        if loss.persistent {
            // §4.2.3.4, on a retransmission timeout: from next to nothing.
            self.save_window();
            self.window = loss.in_flight as f64 + self.mtu;
            self.recovery = Some(Recovery {
                began: loss.now,
                conserving: false,
            });
            self.pipe.doubt();
        } else if self.recovery.is_some_and(known) {
            self.window = (self.window - loss.bytes as f64).max(self.mtu);
        } else {
            // On entering fast recovery: as much leaves as arrived.
            let arrived = self.last_ack.filter(|last| last.at == loss.now);
            let arrived = arrived.map_or(self.mtu, |last| last.bytes.max(self.mtu));
            self.save_window();
            self.window = loss.in_flight as f64 + arrived;
            self.rounds.begin(loss.delivered_total);
            self.recovery = Some(Recovery {
                began: loss.now,
                conserving: true,
            });
        }
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        // `bbr_undo_cwnd`: what was learnt from the loss is forgotten.
        self.pipe.doubt();
        self.long_term.reset();
        if self.recovery.take().is_some() {
            self.window = self.window.max(self.prior_window);
        }
    }

    fn on_marked(&mut self, _: Instant, _: u64) {
        // The first version does not answer marks, nor does Linux's.
    }

    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes as f64;
        self.window = self.window.max(self.least_window());
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^52"
    )]
    fn window(&self) -> u64 {
        // §4.2.3.5.
        match self.mode {
            Mode::ProbeRtt { .. } => self.window.min(self.least_window()) as u64,
            _ => self.window as u64,
        }
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        self.pacing.map(bitrate)
    }

    fn deliverable_rate(&self) -> Option<Bitrate> {
        // The bandwidth of ten rounds is too old for an encoder where rounds are long;
        // the policer's rate is meant to last.
        self.long_term.rate().map(bitrate)
    }

    fn is_starting(&self) -> bool {
        self.mode == Mode::Startup
    }

    fn is_holding_back(&self) -> bool {
        matches!(self.mode, Mode::ProbeRtt { .. })
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
