//! Copa (Arun and Balakrishnan, NSDI 2018): a window that aims at a queue.
//!
//! Two ways of it. [`Config::default`] is what the study of live uploads ran
//! (mvfst's `Copa`, as its source stood then): the queue is measured by the latest
//! round trip, only persistent congestion counts as loss, there is no competitive
//! mode. [`Config::competitive`] follows the paper: the queue by the standing round
//! trip, and AIMD of 1/delta while others keep the queue full.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::filter::{Largest, Least, Windowed};
use crate::flow::bitrate;
use crate::{Ack, Controller, Loss};

/// RFC 9002 §7.2, and mvfst's `kInitCwndInMss`.
const INITIAL_SEGMENTS: f64 = 10.0;
/// mvfst's `kMinCwndInMss`.
const LEAST_SEGMENTS: f64 = 2.0;
/// Before round trips are known, the standing one is the least of so long.
const STANDING_FIRST: Duration = Duration::from_millis(100);
/// Round trips in one direction before the step doubles (paper §2.1; mvfst).
const STEADY_ROUNDS: u32 = 3;
/// The queue is nearly empty below this share of its swing (paper §2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// Round trips of the swing.
const SWING_ROUNDS: u32 = 4;
/// Not nearly empty for so many round trips: others are filling it.
const FULL_ROUNDS: u32 = 5;
/// The default mode's delta of the paper, and the least aggressive competitive one.
const DELTA_PAPER: f64 = 0.5;

/// Which Copa.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Packets that a flow aims to keep queued are 1/delta. 0.02..=2.
    pub delta: f64,
    /// Measure the queue by the standing round trip (the least within half of a
    /// smoothed one) instead of the latest.
    pub standing: bool,
    /// Compete with flows that fill the queue.
    pub competes: bool,
}

impl Default for Config {
    /// The study's.
    fn default() -> Self {
        Self {
            delta: 0.04,
            standing: false,
            competes: false,
        }
    }
}

impl Config {
    /// The paper's, with its competitive mode.
    pub const fn competitive() -> Self {
        Self {
            delta: DELTA_PAPER,
            standing: true,
            competes: true,
        }
    }
}

/// Copa. Windows in bytes.
#[derive(Clone, Debug)]
pub struct Copa {
    config: Config,
    mtu: f64,
    window: f64,
    starting: bool,
    /// When slow start doubled the window last.
    doubled: Option<Instant>,
    velocity: Velocity,
    standing: Windowed<Duration, Least>,
    competition: Competition,
    smoothed: Option<Duration>,
}

/// How fast the window moves, and which way (paper §2.1, step 3).
#[derive(Clone, Copy, Debug)]
struct Velocity {
    value: f64,
    rising: bool,
    steady_rounds: u32,
    round: Option<Round>,
}

/// A round trip over which the window's direction is watched.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    /// The window then, in bytes.
    window: f64,
}

/// Whether others keep the queue full, and how hard to push then (paper §2.2).
#[derive(Clone, Debug)]
struct Competition {
    largest: Windowed<Duration, Largest>,
    emptied: Option<Instant>,
    active: bool,
    delta: f64,
    raised: Option<Instant>,
    halved: Option<Instant>,
}

impl Copa {
    /// At its start, for datagrams of `mtu` bytes.
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

    /// Others are filling the queue, as far as we can tell.
    pub const fn is_competing(&self) -> bool {
        self.competition.active
    }

    fn delta(&self) -> f64 {
        if self.competition.active {
            self.competition.delta
        } else {
            self.config.delta
        }
    }

    fn least_window(&self) -> f64 {
        LEAST_SEGMENTS * self.mtu
    }

    /// Slow start: once a round trip (§2.1).
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
        // A window that is not used must not grow: on a live stream it would never
        // stop.
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
        // The paper has no marks; they mean what a loss does.
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
    /// The target changed sides: be gentle again.
    fn turn(&mut self, rise: bool) {
        if rise != self.rising {
            self.rising = rise;
            self.value = 1.0;
            self.steady_rounds = 0;
        }
    }

    /// Doubles once a round trip while the window keeps its direction.
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
            // A step is never more than what was acknowledged, so this is as good as
            // no bound, and stays finite.
            self.value = (self.value * 2.0).min(f64::from(1 << 16));
        }
    }
}

impl Competition {
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

    fn on_loss(&mut self, now: Instant, round_trip: Duration) {
        let soon = |at: Instant| now.saturating_duration_since(at) < round_trip;
        if self.active && !self.halved.is_some_and(soon) {
            self.delta = (self.delta * 2.0).min(DELTA_PAPER);
            self.halved = Some(now);
        }
    }
}
