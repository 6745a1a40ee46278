//! BBR, first version: paces by a model of the path, which consists of the fastest delivery
//! and the smallest round trip seen lately.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 (sections given as §). Where the
//! draft is silent, this follows Linux (`net/ipv4/tcp_bbr.c`, functions named), with its
//! model of policers ([`Config::long_term`], `bbr-lt`) or without it (`bbr`). The study of
//! live uploads ran mvfst's of November 2019 ([`Config::study`], `bbr-study`): the same
//! draft, no model of policers, and a bandwidth that is the faster of the send rate and the
//! acknowledgement rate where the draft takes the slower.
//!
//! ```text
//! Startup ─ no faster for three rounds ─► Drain ─ queue gone ─► ProbeBw ◄─┐
//!    ▲                                                            │ 10 s without a
//!    └────── the full_pipe was never full ────── ProbeRtt ◄────────────┘ lower round trip
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
use self::model::{FullPipe, MinRtt, RoundMax, Rounds};
use crate::flow::bitrate;
use crate::{Ack, Controller, Loss};

/// Gain of Startup, 2/ln 2, with which the rate doubles every round (§4.3.2.1;
/// `bbr_high_gain`).
const HIGH_GAIN: f64 = 2.885;
/// Pacing gain of Drain, which drains in one round what Startup queued (§4.3.3).
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
/// Window gain of ProbeBW: room for late and stretched acknowledgements (§4.2.3.2;
/// `bbr_cwnd_gain`).
const WINDOW_GAIN: f64 = 2.0;
/// Factor by which pacing stays below the bandwidth, so that queues shrink rather than grow
/// (`bbr_pacing_margin_percent`).
const MARGIN: f64 = 0.99;
/// Time for which ProbeRTT keeps the smallest window to see the path without a queue
/// (§4.3.5).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Smallest window, in datagrams: enough for acknowledgements of every other packet
/// (§4.2.3.3).
const LEAST_SEGMENTS: f64 = 4.0;
/// Bursts that may be in flight within the end systems (§4.2.3.2).
const QUANTA: f64 = 3.0;

/// The BBR controller, first version. Windows are in bytes, rates in bytes/s.
#[derive(Clone, Debug)]
pub struct Bbr {
    /// Which variant of BBR this is.
    config: Config,
    /// Size of datagrams, in bytes.
    mtu: f64,
    /// State of the state machine.
    mode: Mode,
    /// Congestion window, in bytes.
    window: f64,
    /// Pacing rate in bytes/s; `None` before the first round trip.
    pacing: Option<f64>,
    /// Counter of round trips.
    rounds: Rounds,
    /// Bottleneck bandwidth in bytes/s: the fastest delivery of ten rounds (§4.1.1).
    bandwidth: RoundMax,
    /// Round-trip propagation delay: the smallest round trip of ten seconds (§4.1.2).
    min_rtt: Option<MinRtt>,
    /// Whether Startup has filled the pipe.
    full_pipe: FullPipe,
    /// Position in the gain cycle of ProbeBW.
    cycle: Cycle,
    /// Estimate of acknowledgement aggregation.
    aggregation: Aggregation,
    /// Long-term model of policers.
    long_term: LongTerm,
    /// Loss recovery, while it lasts.
    recovery: Option<Recovery>,
    /// Window before recovery or ProbeRTT reduced it, in bytes.
    prior_window: f64,
    /// Whether nothing was in flight before what is in flight now.
    restarting: bool,
    /// Bytes lost since the latest acknowledgement.
    lost: f64,
    /// The finding of the latest acknowledgement; `None` before the first.
    last_ack: Option<LastAck>,
}

/// The finding of the latest acknowledgement.
#[derive(Clone, Copy, Debug)]
struct LastAck {
    /// When the acknowledgement came.
    at: Instant,
    /// Bytes that the acknowledgement newly covered.
    bytes: f64,
}

/// State of BBR's state machine (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The rate doubles every round until the pipe is full.
    Startup,
    /// The queue that Startup made drains.
    Drain,
    /// Packets leave at the bandwidth, and probe for more at times.
    ProbeBw,
    /// Very little is sent, to measure the smallest round trip.
    ProbeRtt {
        /// When the state may end; `None` until little enough is in flight.
        until: Option<Instant>,
        /// Whether a round has passed since `until` was set.
        round_done: bool,
    },
}

/// Loss recovery: lasts until a packet that was sent after the loss is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// When the loss was detected.
    began: Instant,
    /// Whether packet conservation applies: in the first round no more is sent than
    /// arrives.
    conserving: bool,
}

impl Bbr {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub fn new(config: Config, mtu: u64) -> Self {
        let mtu = mtu as f64;
        Self {
            config,
            mtu,
            mode: Mode::Startup,
            window: f64::from(config.initial_segments) * mtu,
            pacing: None,
            rounds: Rounds::default(),
            bandwidth: RoundMax::default(),
            min_rtt: None,
            full_pipe: FullPipe::default(),
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

    /// Returns the rate to send at in bytes/s: the policer's if one is known, otherwise the
    /// bottleneck's.
    fn rate(&self) -> f64 {
        self.long_term
            .rate()
            .unwrap_or_else(|| self.bandwidth.get())
    }

    /// Returns the factor between bandwidth and pacing rate.
    const fn margin(&self) -> f64 {
        if self.config.overrates { 1.0 } else { MARGIN }
    }

    /// Returns the pacing gain of the present state (§4.3, `bbr_update_gains`).
    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw if self.long_term.rate().is_some() => 1.0,
            Mode::ProbeBw => self.cycle.gain(),
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Returns the window gain of the present state (§4.3).
    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => WINDOW_GAIN,
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Returns the bytes that should be in flight for `gain` times the bandwidth-delay
    /// product at `rate` bytes/s (§4.2.3.2).
    fn in_flight_at(&self, rate: f64, gain: f64) -> f64 {
        let Some(least) = &self.min_rtt else {
            return self.initial_window();
        };
        gain * rate * least.rtt.as_secs_f64() + QUANTA * self.quantum()
    }

    /// Returns the send quantum: bytes that may leave at once (§4.2.2).
    fn quantum(&self) -> f64 {
        const SLOW: f64 = 1.2e6 / 8.0;
        const FAST: f64 = 24e6 / 8.0;
        match self.pacing.unwrap_or(0.0) {
            rate if rate < SLOW => self.mtu,
            rate if rate < FAST => 2.0 * self.mtu,
            rate => (rate * 1e-3).min(65_536.0),
        }
    }

    /// Returns the initial window, in bytes.
    fn initial_window(&self) -> f64 {
        f64::from(self.config.initial_segments) * self.mtu
    }

    /// Ends Startup, because something other than the bandwidth has shown that the pipe is
    /// full.
    pub(crate) const fn end_startup(&mut self) {
        self.full_pipe.fill();
    }

    /// Returns the bandwidth-delay product in bytes; zero before both are known.
    pub(crate) fn bandwidth_delay_product(&self) -> f64 {
        let seconds = self.min_rtt.map_or(0.0, |least| least.rtt.as_secs_f64());
        self.rate() * seconds
    }

    /// Returns the smallest window, in bytes.
    fn least_window(&self) -> f64 {
        LEAST_SEGMENTS * self.mtu
    }

    /// Updates the bandwidth (§4.1.1), and the model of policers, which sees each delivery
    /// first.
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
        // §4.1.1.4: a rate that the application limited says nothing about the path, unless
        // it exceeds what was known. The best known rate therefore stays, however long.
        if !ack.rate.app_limited || sample >= self.bandwidth.get() {
            self.bandwidth.record(sample, self.rounds.count);
        }
    }

    /// Enters the next phase of the gain cycle if the present one is over (§4.3.4.3,
    /// `bbr_is_next_cycle_phase`).
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn advance_cycle(&mut self, ack: &Ack<'_>) {
        let (Mode::ProbeBw, Some(least)) = (self.mode, self.min_rtt) else {
            return;
        };
        let began = *self.cycle.began.get_or_insert(ack.now);
        let full_length = ack.now.saturating_duration_since(began) > least.rtt;
        let in_flight = ack.in_flight_before as f64;
        let bandwidth = self.bandwidth.get();
        let gain = self.pacing_gain();
        let over = if gain > 1.0 {
            // The gain must show in the bytes in flight, unless the path holds no more.
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

    /// Enters ProbeBW, in any phase of the cycle except the draining one (§4.3.4.2).
    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        self.cycle.begin(now);
    }

    /// Leaves Startup when the pipe is full, and Drain when the queue is gone (§4.3.2.2,
    /// §4.3.3).
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn leave_startup(&mut self, ack: &Ack<'_>) {
        if self.rounds.started && !ack.rate.app_limited {
            self.full_pipe.observe(self.bandwidth.get());
        }
        if self.mode == Mode::Startup && self.full_pipe.is_full() {
            self.mode = Mode::Drain;
        }
        let drained = self.in_flight_at(self.bandwidth.get(), 1.0);
        if self.mode == Mode::Drain && ack.in_flight as f64 <= drained {
            self.enter_probe_bw(ack.now);
        }
    }

    /// Updates the smallest round trip, and enters ProbeRTT when it is too old (§4.1.2,
    /// §4.3.5, `bbr_update_min_rtt`).
    fn observe_round_trip(&mut self, ack: &Ack<'_>) {
        let expired = self.min_rtt.is_some_and(|least| least.is_old(ack.now));
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt <= least.rtt))
        {
            self.min_rtt = Some(MinRtt { rtt, at: ack.now });
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

    /// Advances ProbeRTT: waits until little is in flight, then for a round and a fixed
    /// time.
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

    /// Leaves ProbeRTT if its time is over (`bbr_check_probe_rtt_done`).
    fn leave_probe_rtt(&mut self, now: Instant) {
        let Mode::ProbeRtt { until, .. } = self.mode else {
            return;
        };
        if until.is_none_or(|until| now < until) {
            return;
        }
        if let Some(least) = &mut self.min_rtt {
            least.at = now;
        }
        self.window = self.window.max(self.prior_window);
        if self.full_pipe.is_full() {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Remembers the window to return to (`bbr_save_cwnd`).
    fn save_window(&mut self) {
        let cut = self.recovery.is_some() || matches!(self.mode, Mode::ProbeRtt { .. });
        self.prior_window = if cut {
            self.prior_window.max(self.window)
        } else {
            self.window
        };
    }

    /// Sets the pacing rate (§4.2.1, `bbr_set_pacing_rate`).
    fn set_pacing(&mut self, ack: &Ack<'_>) {
        let Some(smoothed) = ack.round_trips.smoothed() else {
            return;
        };
        let first = || HIGH_GAIN * self.window / smoothed.as_secs_f64().max(1e-6) * self.margin();
        let before = self.pacing.unwrap_or_else(first);
        let rate = self.pacing_gain() * self.rate() * self.margin();
        // Startup never slows down, because its first samples come from a window of ten
        // packets.
        let rate = if self.full_pipe.is_full() {
            rate
        } else {
            rate.max(before)
        };
        self.pacing = Some(rate);
    }

    /// Sets the congestion window (§4.2.3.4, §4.2.3.6, `bbr_set_cwnd`).
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
        let extra = if self.config.aggregation && self.full_pipe.is_full() {
            self.aggregation.extra(self.rate())
        } else {
            0.0
        };
        let target = self.in_flight_at(self.rate(), self.window_gain()) + extra;
        let delivered = ack.rate.delivered_total as f64;
        if self.full_pipe.is_full() {
            self.window = (self.window + acked).min(target);
        } else if self.window < target || delivered < self.initial_window() {
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
        // §4.3.4.4: after an idle period, sending continues at the bandwidth, whatever the
        // phase; the idle period itself has shown the smallest round trip.
        self.restarting = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw => self.pacing = Some(self.rate() * self.margin()),
            Mode::ProbeRtt { .. } => self.leave_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn heeds_sending(&self) -> bool {
        true
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
            // §4.2.3.4, on a retransmission timeout: the window starts again from almost
            // nothing.
            self.save_window();
            self.window = loss.in_flight as f64 + self.mtu;
            self.recovery = Some(Recovery {
                began: loss.now,
                conserving: false,
            });
            self.full_pipe.restart();
        } else if self.recovery.is_some_and(known) {
            self.window = (self.window - loss.bytes as f64).max(self.mtu);
        } else {
            // On entering fast recovery, as much is sent as arrived.
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
        // `bbr_undo_cwnd`: what was concluded from the loss is forgotten.
        self.full_pipe.restart();
        self.long_term.reset();
        if self.recovery.take().is_some() {
            self.window = self.window.max(self.prior_window);
        }
    }

    fn on_marked(&mut self, _: Instant, _: u64) {
        // The first version does not react to marks, nor does Linux's.
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
        // ProbeRTT bounds the window (§4.2.3.5).
        match self.mode {
            Mode::ProbeRtt { .. } => self.window.min(self.least_window()) as u64,
            _ => self.window as u64,
        }
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        self.pacing.map(bitrate)
    }

    fn deliverable_rate(&self) -> Option<Bitrate> {
        // The bandwidth of ten rounds is too old for an encoder where rounds are long; the
        // policer's rate lasts.
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
