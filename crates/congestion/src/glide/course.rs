//! Copa's window: towards a target queue, by steps that grow while it keeps its
//! course (Arun and Balakrishnan, NSDI 2018, §2.1).

use std::time::{Duration, Instant};

/// Round trips on one course before the step doubles (§2.1; mvfst).
const STEADY_ROUNDS: u32 = 3;
/// The paper has no bound, and steps of 1/delta = 2 packets. Ours are a whole target
/// queue: two doublings more, and a window moves by half of itself.
const VELOCITY_MAX: f64 = 4.0;
/// A step is at most this share of what was acknowledged: 1.5 times a round trip.
const STEP_MAX: f64 = 0.5;

/// The window of the default mode, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) window: f64,
    velocity: f64,
    rising: bool,
    steady_rounds: u32,
    round: Option<Round>,
}

/// A round trip over which the course is watched.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    /// The window then, in bytes.
    window: f64,
}

/// What a step goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) now: Instant,
    /// Bytes acknowledged.
    pub(super) acked: f64,
    /// The target rate is above the present one.
    pub(super) rise: bool,
    /// The window is what limits.
    pub(super) used: bool,
    /// 1/delta, in bytes: what the flow aims to keep queued.
    pub(super) queue_target: f64,
    pub(super) smoothed: Duration,
}

impl Course {
    pub(super) const fn new(window: f64) -> Self {
        Self {
            window,
            velocity: 1.0,
            rising: true,
            steady_rounds: 0,
            round: None,
        }
    }

    /// §2.1 step 3: v/(delta · window) packets for each acknowledged one.
    pub(super) fn step(&mut self, step: &Step) {
        if step.rise != self.rising {
            self.straighten(step.rise);
        }
        let bytes = step.acked * self.velocity * step.queue_target / self.window;
        let bytes = bytes.min(step.acked * STEP_MAX);
        if !step.rise {
            self.window -= bytes;
        } else if step.used {
            self.window += bytes;
        }
        self.round(step.now, step.smoothed);
    }

    /// From here on, gently.
    pub(super) const fn jump(&mut self, window: f64) {
        self.window = window;
        self.velocity = 1.0;
        self.steady_rounds = 0;
        self.round = None;
    }

    const fn straighten(&mut self, rise: bool) {
        self.rising = rise;
        self.velocity = 1.0;
        self.steady_rounds = 0;
    }

    fn round(&mut self, now: Instant, smoothed: Duration) {
        let next = Round {
            began: now,
            window: self.window,
        };
        let Some(before) = self.round else {
            self.round = Some(next);
            return;
        };
        if now.saturating_duration_since(before.began) < smoothed {
            return;
        }
        self.round = Some(next);
        let moved = if self.rising {
            self.window > before.window
        } else {
            self.window < before.window
        };
        if !moved {
            return self.straighten(self.rising);
        }
        self.steady_rounds += 1;
        if self.steady_rounds >= STEADY_ROUNDS {
            self.velocity = (self.velocity * 2.0).min(VELOCITY_MAX);
        }
    }
}
