//! Copa (Arun and Balakrishnan, NSDI 2018): a window that aims at a short queue.
//!
//! There are two variants. [`Config::default`] is what the study of live uploads ran
//! (mvfst's `Copa`, as its source was then): the queue is measured by the latest round
//! trip, only persistent congestion counts as loss, and there is no competitive mode.
//! [`Config::competitive`] follows the paper: the queue is measured by the standing round
//! trip, and 1/delta follows AIMD while others keep the queue full.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::filter::{Largest, Least, Windowed};
use crate::flow::bitrate;
use crate::{Ack, Controller, Loss};

/// Initial window, in datagrams (RFC 9002 §7.2, and mvfst's `kInitCwndInMss`).
const INITIAL_SEGMENTS: f64 = 10.0;
/// Smallest window, in datagrams (mvfst's `kMinCwndInMss`).
const LEAST_SEGMENTS: f64 = 2.0;
/// Window of the standing round trip before the smoothed one is known.
const STANDING_FIRST: Duration = Duration::from_millis(100);
/// Round trips in one direction before the velocity doubles (paper §2.1; mvfst).
const STEADY_ROUNDS: u32 = 3;
/// Share of its swing below which the queue counts as nearly empty (paper §2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// Round trips over which the swing of the queue is measured.
const SWING_ROUNDS: u32 = 4;
/// Round trips without a nearly empty queue after which others are filling it.
const FULL_ROUNDS: u32 = 5;
/// Delta of the paper's default mode, and the least aggressive delta of the competitive
/// mode.
const DELTA_PAPER: f64 = 0.5;

/// Which variant of Copa to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Aggressiveness: a flow aims to keep 1/delta packets queued. 0.02..=2.
    pub delta: f64,
    /// Whether to measure the queue by the standing round trip (the smallest within half a
    /// smoothed one) instead of the latest.
    pub standing: bool,
    /// Whether to compete with flows that fill the queue.
    pub competes: bool,
}

impl Default for Config {
    /// Returns Copa as the study of live uploads ran it.
    fn default() -> Self {
        Self {
            delta: 0.04,
            standing: false,
            competes: false,
        }
    }
}

impl Config {
    /// Returns Copa of the paper, with its competitive mode.
    pub const fn competitive() -> Self {
        Self {
            delta: DELTA_PAPER,
            standing: true,
            competes: true,
        }
    }
}

/// The Copa controller. Windows are in bytes.
#[derive(Clone, Debug)]
pub struct Copa {
    /// Which variant of Copa this is.
    config: Config,
    /// Size of datagrams, in bytes.
    mtu: f64,
    /// Congestion window, in bytes.
    window: f64,
    /// Whether the flow is in slow start.
    starting: bool,
    /// When slow start doubled the window last.
    doubled: Option<Instant>,
    /// How fast the window moves.
    velocity: Velocity,
    /// Standing round-trip time: the smallest one of the last half round trip.
    standing: Windowed<Duration, Least>,
    /// State of the competitive mode.
    competition: Competition,
    /// Smoothed round-trip time; `None` before the first sample.
    smoothed: Option<Duration>,
}

/// Velocity and direction of the window (paper §2.1, step 3).
#[derive(Clone, Copy, Debug)]
struct Velocity {
    /// Factor of each step.
    value: f64,
    /// Whether the window grows.
    rising: bool,
    /// Round trips in the same direction.
    steady_rounds: u32,
    /// The round trip that is being watched.
    round: Option<Round>,
}

/// A round trip over which the direction of the window is watched.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When the round trip began.
    began: Instant,
    /// Window when the round trip began, in bytes.
    window: f64,
}

/// Detects that others keep the queue full, and sets delta of the competitive mode (paper
/// §2.2).
#[derive(Clone, Debug)]
struct Competition {
    /// Largest round trip of the swing.
    largest: Windowed<Duration, Largest>,
    /// When the queue was nearly empty last.
    emptied: Option<Instant>,
    /// Whether others keep the queue full.
    active: bool,
    /// Delta of the competitive mode.
    delta: f64,
    /// When 1/delta grew last.
    raised: Option<Instant>,
    /// When 1/delta was halved last.
    halved: Option<Instant>,
}

impl Copa {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub fn new(config: Config, mtu: u64) -> Self {
        let mtu = mtu as f64;
        Self {
            config,
            mtu,
            window: INITIAL_SEGMENTS * mtu,
            starting: true,
            doubled: None,
            velocity: Velocity {
                value: 1.0,
                rising: true,
                steady_rounds: 0,
                round: None,
            },
            standing: Windowed::new(STANDING_FIRST),
            competition: Competition {
                largest: Windowed::new(Duration::from_secs(1)),
                emptied: None,
                active: false,
                delta: DELTA_PAPER,
                raised: None,
                halved: None,
            },
            smoothed: None,
        }
    }

    /// Whether the competitive mode is active, because others seem to fill the queue.
    pub const fn is_competing(&self) -> bool {
        self.competition.active
    }

    /// Returns the present delta.
    fn delta(&self) -> f64 {
        if self.competition.active {
            self.competition.delta
        } else {
            self.config.delta
        }
    }

    /// Returns the smallest window, in bytes.
    fn least_window(&self) -> f64 {
        LEAST_SEGMENTS * self.mtu
    }

    /// Doubles the window once per round trip, in slow start (§2.1).
    fn double(&mut self, now: Instant, smoothed: Duration, used: bool) {
        let due = |at: Instant| now.saturating_duration_since(at) >= smoothed;
        if self.doubled.is_some_and(due) && used {
            self.window *= 2.0;
        }
        if self.doubled.is_none_or(due) {
            self.doubled = Some(now);
        }
    }
}

impl Controller for Copa {
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let trips = ack.round_trips;
        let (Some(latest), Some(smoothed), Some(least)) =
            (ack.rtt, trips.smoothed(), trips.least())
        else {
            return;
        };
        self.smoothed = Some(smoothed);
        self.standing.set_window(smoothed / 2);
        self.standing.record(latest, ack.now);
        let standing = self.standing.get().unwrap_or(latest);
        let queue = if self.config.standing {
            standing
        } else {
            latest
        }
        .saturating_sub(least);
        if self.config.competes {
            self.competition.observe(ack.now, latest, smoothed, least);
        }
        // Step 1 and 2 of §2: the target rate is 1/(delta · queueing delay).
        let delta = self.delta();
        let rate = self.window / standing.as_secs_f64().max(1e-6);
        let target = self.mtu / (delta * queue.as_secs_f64());
        let rise = queue.is_zero() || target >= rate;
        // A window that is not used must not grow: on a live stream it would grow without
        // bound.
        let used = ack.in_flight_before as f64 >= self.window / 2.0;
        if self.starting {
            self.starting = rise;
            if rise {
                return self.double(ack.now, smoothed, used);
            }
        }
        self.velocity.turn(rise);
        // Step 3: v/(delta · window) packets for each acknowledged one, so that the
        // window moves by v/delta packets in a round trip.
        let acked = ack.bytes as f64 / self.mtu;
        let step = acked * self.mtu * self.mtu * self.velocity.value / (delta * self.window);
        if rise && used {
            self.window += step.min(ack.bytes as f64);
        } else if !rise {
            self.window = (self.window - step).max(self.least_window());
        }
        self.velocity.round(ack.now, smoothed, self.window);
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.persistent {
            self.window = self.least_window();
            self.starting = false;
        }
        if self.config.competes {
            let round_trip = self.smoothed.unwrap_or(STANDING_FIRST);
            self.competition.on_loss(loss.now, round_trip);
        }
    }

    fn on_marked(&mut self, now: Instant, _: u64) {
        // The paper does not mention marks; they count as losses.
        if self.config.competes {
            let round_trip = self.smoothed.unwrap_or(STANDING_FIRST);
            self.competition.on_loss(now, round_trip);
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
        self.window as u64
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        // Twice the rate, so that pacing spreads packets but never limits (§2.1).
        let seconds = self.smoothed?.as_secs_f64().max(1e-6);
        Some(bitrate(2.0 * self.window / seconds))
    }

    fn is_starting(&self) -> bool {
        self.starting
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Velocity {
    /// Resets the velocity if the direction changed.
    fn turn(&mut self, rise: bool) {
        if rise != self.rising {
            self.rising = rise;
            self.value = 1.0;
            self.steady_rounds = 0;
        }
    }

    /// Doubles the velocity once per round trip while the window keeps its direction.
    fn round(&mut self, now: Instant, smoothed: Duration, window: f64) {
        let next = Round { began: now, window };
        let Some(before) = self.round else {
            self.round = Some(next);
            return;
        };
        if now.saturating_duration_since(before.began) < smoothed {
            return;
        }
        self.round = Some(next);
        let moved = if self.rising {
            window > before.window
        } else {
            window < before.window
        };
        if !moved {
            self.value = 1.0;
            self.steady_rounds = 0;
            return;
        }
        self.steady_rounds += 1;
        if self.steady_rounds >= STEADY_ROUNDS {
            // A step is never more than what was acknowledged, so this bound is never
            // reached in effect; it keeps the value finite.
            self.value = (self.value * 2.0).min(f64::from(1 << 16));
        }
    }
}

impl Competition {
    /// Records a round trip, and enters or leaves the competitive mode.
    fn observe(&mut self, now: Instant, rtt: Duration, smoothed: Duration, least: Duration) {
        self.largest.set_window(smoothed * SWING_ROUNDS);
        self.largest.record(rtt, now);
        let swing = self.largest.get().unwrap_or(rtt).saturating_sub(least);
        let queue = rtt.saturating_sub(least);
        let emptied = *self.emptied.get_or_insert(now);
        if queue <= swing.mul_f64(NEARLY_EMPTY) {
            self.emptied = Some(now);
            self.active = false;
            self.delta = DELTA_PAPER;
        } else if now.saturating_duration_since(emptied) > smoothed * FULL_ROUNDS {
            self.active = true;
            let due = |at: Instant| now.saturating_duration_since(at) >= smoothed;
            if self.raised.is_none_or(due) {
                // 1/delta grows by one packet a round trip, as Reno's window does.
                self.delta /= 1.0 + self.delta;
                self.raised = Some(now);
            }
        }
    }

    /// Halves 1/delta after a loss, at most once per round trip.
    fn on_loss(&mut self, now: Instant, round_trip: Duration) {
        let soon = |at: Instant| now.saturating_duration_since(at) < round_trip;
        if self.active && !self.halved.is_some_and(soon) {
            self.delta = (self.delta * 2.0).min(DELTA_PAPER);
            self.halved = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn copa() -> (Velocity, Competition) {
        let copa = Copa::new(Config::competitive(), 1_200);
        (copa.velocity, copa.competition)
    }

    #[test]
    fn the_velocity_doubles_from_the_third_round_trip_in_one_direction_on() {
        let (mut velocity, _) = copa();
        let start = Instant::now();
        let mut value = |ms, window| {
            let now = start + Duration::from_millis(ms);
            velocity.round(now, ROUND_TRIP, window);
            velocity.value
        };
        let grown = [
            (0, 10.0),
            (100, 11.0),
            (200, 12.0),
            (299, 13.0),
            (300, 13.0),
        ];
        let values = grown.map(|(ms, window)| value(ms, window));
        assert_eq!(values, [1.0, 1.0, 1.0, 1.0, 2.0]);
        assert_eq!(value(400, 14.0), 4.0);
        assert_eq!(value(500, 14.0), 1.0, "it did not move");
        assert_eq!(
            [600, 700, 800].map(|ms| value(ms, ms as f64)),
            [1.0, 1.0, 2.0]
        );
        velocity.turn(true);
        assert_eq!(velocity.value, 2.0, "the same direction");
        velocity.turn(false);
        assert_eq!(velocity.value, 1.0);
        let mut value = |ms, window| {
            let now = start + Duration::from_millis(ms);
            velocity.round(now, ROUND_TRIP, window);
            velocity.value
        };
        assert_eq!(
            [900, 1000, 1100].map(|ms| value(ms, -(ms as f64))),
            [1.0, 1.0, 2.0]
        );
    }

    #[test]
    fn others_compete_if_the_queue_is_not_emptied_for_five_round_trips() {
        let (_, mut competition) = copa();
        let start = Instant::now();
        let least = Duration::from_millis(20);
        let mut observe = |ms: u64, rtt_ms: u64| {
            let now = start + Duration::from_millis(ms);
            let rtt = Duration::from_millis(rtt_ms);
            competition.observe(now, rtt, ROUND_TRIP, least);
            (competition.active, competition.delta)
        };
        // The swing is 40 ms, so that a queue of 4 ms is nearly empty.
        assert_eq!(observe(0, 60), (false, 0.5));
        assert_eq!(observe(100, 24), (false, 0.5));
        assert_eq!(observe(350, 25), (false, 0.5));
        assert_eq!(observe(600, 60), (false, 0.5));
        let (active, delta) = observe(601, 60);
        assert!(active && (delta - 1.0 / 3.0).abs() < 1e-9, "{delta}");
        assert_eq!(observe(700, 60), (true, delta), "once a round trip");
        let (_, next) = observe(701, 60);
        assert!((next - 0.25).abs() < 1e-9, "{next}");
        let mut lose = |ms| {
            competition.on_loss(start + Duration::from_millis(ms), ROUND_TRIP);
            competition.delta
        };
        assert_eq!(lose(710), 0.5);
        competition.delta = 0.1;
        let mut lose = |ms| {
            competition.on_loss(start + Duration::from_millis(ms), ROUND_TRIP);
            competition.delta
        };
        assert_eq!([809, 810].map(&mut lose), [0.1, 0.2], "once a round trip");
        assert_eq!([910, 1010, 1110].map(&mut lose), [0.4, 0.5, 0.5]);
        let mut observe = |ms: u64, rtt_ms: u64| {
            let now = start + Duration::from_millis(ms);
            let rtt = Duration::from_millis(rtt_ms);
            competition.observe(now, rtt, ROUND_TRIP, least);
            competition.active
        };
        assert!(!observe(1120, 20), "nobody else fills it");
        competition.delta = 0.1;
        competition.on_loss(start + Duration::from_millis(2000), ROUND_TRIP);
        assert_eq!(competition.delta, 0.1);
    }
}
