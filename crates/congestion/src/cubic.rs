//! CUBIC (RFC 9438), with HyStart++ (RFC 9406) and proportional rate reduction (RFC 6937):
//! what a bulk transfer of today's Linux, Windows and QUIC stacks uses.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::flow::bitrate;
use crate::hystart::{Advice, HyStart};
use crate::{Ack, Controller, Loss};

/// Multiplicative decrease (RFC 9438 §4.6).
pub(crate) const BETA: f64 = 0.7;
/// Multiplicative decrease for a mark instead of a loss (RFC 8511 §3.1, as Linux has it for
/// CUBIC).
const BETA_MARKED: f64 = 0.85;
/// Constant C: aggressiveness of growth, in segments per cubic second (§5.1).
const C: f64 = 0.4;
/// Additive increase that is fair to Reno until the window before the decrease is reached
/// (§4.3).
pub(crate) const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Initial window, in datagrams (RFC 6928; RFC 9002 §7.2).
const INITIAL_SEGMENTS: f64 = 10.0;
/// Smallest window, in datagrams (RFC 9002 §7.2).
const LEAST_SEGMENTS: f64 = 2.0;
/// Pacing gain in slow start, where the window doubles within a round trip (Linux
/// `tcp_pacing_ss_ratio`).
const PACING_STARTING: f64 = 2.0;
/// Pacing gain in congestion avoidance: room for the window to grow within a round trip
/// (Linux `tcp_pacing_ca_ratio`).
const PACING_AVOIDING: f64 = 1.2;

/// The CUBIC controller. Windows are in bytes.
#[derive(Clone, Debug)]
pub struct Cubic {
    /// Size of datagrams, in bytes.
    mtu: f64,
    /// Congestion window, in bytes.
    window: f64,
    /// Slow start threshold (`ssthresh`), in bytes.
    threshold: f64,
    /// Decides when slow start ends.
    hystart: HyStart,
    /// Congestion avoidance since the latest decrease.
    epoch: Option<Epoch>,
    /// Window at the latest decrease (§4.1.2, `W_max`) after fast convergence, in bytes.
    window_max: f64,
    /// Loss recovery, while it lasts.
    recovery: Option<Recovery>,
    /// State to return to if the latest loss was spurious (§4.9).
    before: Option<Box<Self>>,
    /// Smoothed round-trip time; `None` before the first sample.
    smoothed: Option<Duration>,
}

/// A congestion avoidance stage (§4.1.2, `epoch_start`).
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When the stage began.
    began: Instant,
    /// Curve of the window; at its plateau Reno has caught up (`cwnd_prior`).
    curve: Curve,
    /// Window that Reno would have (§4.3, `W_est`), in bytes.
    reno: f64,
}

/// The window that CUBIC aims at over the time since a decrease (RFC 9438 §4.2): its growth
/// slows towards the plateau where the loss was, and accelerates beyond it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    /// Window at which the curve is flat (`W_max`), in bytes.
    pub(crate) plateau: f64,
    /// Time from the decrease to the plateau (`K`), in seconds.
    seconds: f64,
}

impl Curve {
    /// Returns the curve that starts `drop` bytes below `plateau`. `mtu`: size of
    /// datagrams, in bytes.
    pub(crate) fn new(plateau: f64, drop: f64, mtu: f64) -> Self {
        Self {
            plateau,
            seconds: (drop / mtu / C).cbrt(),
        }
    }

    /// Returns the window in bytes, `seconds` after the decrease.
    pub(crate) fn at(&self, seconds: f64, mtu: f64) -> f64 {
        C * (seconds - self.seconds).powi(3) * mtu + self.plateau
    }
}

/// Loss recovery: lasts until a packet that was sent after the loss is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// When the loss was detected.
    began: Instant,
    /// Bytes in flight when recovery began (RFC 6937 §3, `RecoverFS`).
    flight: f64,
    /// Bytes delivered during recovery (`prr_delivered`).
    delivered: f64,
    /// Bytes sent during recovery (`prr_out`).
    sent: f64,
}

impl Cubic {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub fn new(mtu: u64) -> Self {
        let mtu = mtu as f64;
        Self {
            mtu,
            window: INITIAL_SEGMENTS * mtu,
            threshold: f64::INFINITY,
            hystart: HyStart::default(),
            epoch: None,
            window_max: 0.0,
            recovery: None,
            before: None,
            smoothed: None,
        }
    }

    /// Returns a controller in congestion avoidance at `window`, which grows back to
    /// `window_max`: what another controller continues with beside CUBIC flows. Sizes are
    /// in bytes.
    pub(crate) fn resume(mtu: f64, window: f64, window_max: f64) -> Self {
        Self {
            mtu,
            window,
            threshold: window,
            hystart: HyStart::default(),
            epoch: None,
            window_max: window_max.max(window),
            recovery: None,
            before: None,
            smoothed: None,
        }
    }

    /// Makes the window grow towards `window_max` bytes, as if the latest decrease had been
    /// there.
    pub(crate) fn aim(&mut self, window_max: f64) {
        if self.recovery.is_none() {
            self.window_max = window_max.max(self.window);
            self.epoch = None;
        }
    }

    /// Raises the window to `window` bytes, unless a loss is being repaired.
    pub(crate) fn lift(&mut self, window: f64) {
        if self.recovery.is_none() && window > self.window {
            self.window = window;
            self.threshold = window;
            self.window_max = self.window_max.max(window);
            self.epoch = None;
        }
    }

    /// Makes the window grow back to `window` bytes or more after the latest decrease.
    pub(crate) fn return_to(&mut self, window: f64) {
        self.window_max = self.window_max.max(window);
        self.epoch = None;
    }

    /// Returns the smallest window, in bytes.
    fn least_window(&self) -> f64 {
        LEAST_SEGMENTS * self.mtu
    }

    /// Grows the window in slow start (RFC 9406 §4.2). Appropriate byte counting has no
    /// limit, because packets are paced.
    fn start_on(&mut self, ack: &Ack<'_>, bytes: f64) {
        let Some((rtt, newest)) = ack.rtt.zip(ack.packets.last()) else {
            return;
        };
        match self.hystart.on_ack(ack.now, newest.sent, rtt) {
            #[expect(clippy::cast_precision_loss, reason = "4 at the most")]
            Advice::Grow { divisor } => self.window += bytes / divisor as f64,
            Advice::Leave => self.threshold = self.window,
        }
    }

    /// Grows the window in congestion avoidance (RFC 9438 §4.2 to §4.5).
    fn avoid(&mut self, ack: &Ack<'_>, bytes: f64) {
        let round_trip = ack.round_trips.smoothed().unwrap_or_default();
        let (window, window_max, mtu) = (self.window, self.window_max, self.mtu);
        let epoch = self.epoch.get_or_insert_with(|| {
            // After slow start without a loss there is no earlier window to return to.
            let top = window_max.max(window);
            Epoch {
                began: ack.now,
                curve: Curve::new(top, top - window, mtu),
                reno: window,
            }
        });
        let since = ack.now.saturating_duration_since(epoch.began);
        let target = epoch.curve.at((since + round_trip).as_secs_f64(), mtu);
        let target = target.clamp(window, 1.5 * window);
        // §4.3: as fast as Reno once the window before the decrease is reached.
        let alpha = if epoch.reno < epoch.curve.plateau {
            ALPHA
        } else {
            1.0
        };
        epoch.reno += alpha * mtu * bytes / window;
        self.window = if epoch.curve.at(since.as_secs_f64(), mtu) < epoch.reno {
            epoch.reno.max(window)
        } else {
            window + (target - window) * (bytes / window).min(1.0)
        };
    }

    /// Reduces the window to `beta` of its size, with fast convergence (§4.6, §4.7).
    fn decrease(&mut self, beta: f64) {
        self.window_max = if self.window < self.window_max {
            self.window * (1.0 + beta) / 2.0
        } else {
            self.window
        };
        self.threshold = (self.window * beta).max(self.least_window());
        self.epoch = None;
    }

    /// Proportional rate reduction (RFC 6937 §3): sends as many bytes as arrive, times the
    /// decrease, so that a loss neither stops the flow nor lets it burst.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn reduce(&mut self, ack: &Ack<'_>, bytes: f64) {
        let mtu = self.mtu;
        let Some(recovery) = &mut self.recovery else {
            return;
        };
        recovery.delivered += bytes;
        let in_flight = ack.in_flight as f64;
        let room = if in_flight > self.threshold {
            (recovery.delivered * self.threshold / recovery.flight) - recovery.sent
        } else {
            let behind = (recovery.delivered - recovery.sent).max(bytes) + mtu;
            behind.min(self.threshold - in_flight)
        };
        self.window = in_flight + room.max(0.0);
    }
}

impl Controller for Cubic {
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    fn on_sent(&mut self, _: Instant, bytes: u64, _: u64) {
        if let Some(recovery) = &mut self.recovery {
            recovery.sent += bytes as f64;
        }
    }

    fn heeds_sending(&self) -> bool {
        self.recovery.is_some()
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.smoothed = ack.round_trips.smoothed();
        let bytes = ack.bytes as f64;
        if let Some(recovery) = self.recovery {
            let newer = ack.packets.last();
            if newer.is_none_or(|newest| newest.sent <= recovery.began) {
                return self.reduce(ack, bytes);
            }
            self.recovery = None;
            self.window = self.threshold;
        }
        // A window that is not used says nothing about the path (§5.8).
        if (ack.in_flight_before as f64) < self.window / 2.0 {
            if let Some(epoch) = &mut self.epoch {
                let idle = ack.round_trips.latest().unwrap_or_default();
                epoch.began = (epoch.began + idle).min(ack.now);
            }
            return;
        }
        if self.is_starting() {
            self.start_on(ack, bytes);
        } else {
            self.avoid(ack, bytes);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_loss(&mut self, loss: &Loss) {
        if loss.persistent {
            self.decrease(BETA);
            self.window = self.least_window();
            self.recovery = None;
            self.before = None;
            return;
        }
        let known = |recovery: &Recovery| loss.newest_sent <= recovery.began;
        if self.recovery.as_ref().is_some_and(known) {
            return;
        }
        let before = Self {
            before: None,
            ..self.clone()
        };
        self.before = Some(Box::new(before));
        self.decrease(BETA);
        self.recovery = Some(Recovery {
            began: loss.now,
            flight: (loss.in_flight + loss.bytes) as f64,
            delivered: 0.0,
            sent: 0.0,
        });
        self.window = self.window.min((loss.in_flight as f64).max(self.threshold));
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        // §4.9: growth since then is kept.
        if let Some(before) = self.before.take() {
            self.window = self.window.max(before.window);
            self.threshold = self.threshold.max(before.threshold);
            self.window_max = self.window_max.max(before.window_max);
            self.epoch = before.epoch;
            self.recovery = None;
        }
    }

    fn on_marked(&mut self, _: Instant, _: u64) {
        if self.recovery.is_none() {
            self.decrease(BETA_MARKED);
            self.window = self.threshold;
        }
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
        self.window.max(self.least_window()) as u64
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        let gain = if self.is_starting() {
            PACING_STARTING
        } else {
            PACING_AVOIDING
        };
        let seconds = self.smoothed?.as_secs_f64().max(1e-6);
        Some(bitrate(gain * self.window / seconds))
    }

    fn is_starting(&self) -> bool {
        self.window < self.threshold
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
