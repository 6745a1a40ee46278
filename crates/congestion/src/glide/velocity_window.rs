//! Copa's window: moves towards a target queue, by steps that grow while the direction
//! stays the same (Arun and Balakrishnan, NSDI 2018, §2.1).

use std::time::{Duration, Instant};

use super::constants;

/// The window of the default mode, with its velocity and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct VelocityWindow {
    /// Constants of window and pacing.
    constants: constants::Window,
    /// Congestion window, in bytes.
    pub(super) window: f64,
    /// Factor of each step.
    velocity: f64,
    /// Whether the window grows.
    rising: bool,
    /// Round trips in the same direction.
    steady_rounds: u32,
    /// The round trip that is being watched.
    round: Option<Round>,
}

/// A round trip over which the direction is watched.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When the round trip began.
    began: Instant,
    /// Window when the round trip began, in bytes.
    window: f64,
}

/// Inputs of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// When the acknowledgement came.
    pub(super) now: Instant,
    /// Bytes acknowledged in this step.
    pub(super) acked: f64,
    /// Whether the target rate is above the present one.
    pub(super) rise: bool,
    /// Whether the window is the limit of what is sent.
    pub(super) used: bool,
    /// Bytes that the flow aims to keep queued: 1/delta.
    pub(super) queue_target: f64,
    /// Smoothed round-trip time of the path (RFC 6298 §2).
    pub(super) smoothed: Duration,
}

impl VelocityWindow {
    /// Returns a window of so many bytes.
    pub(super) const fn new(window: f64, constants: constants::Window) -> Self {
        Self {
            constants,
            window,
            velocity: 1.0,
            rising: true,
            steady_rounds: 0,
            round: None,
        }
    }

    /// Moves the window by v/(delta · window) packets for each acknowledged one (§2.1 step
    /// 3).
    pub(super) fn step(&mut self, step: &Step) {
        if step.rise != self.rising {
            self.set_direction(step.rise);
        }
        let bytes = step.acked * self.velocity * step.queue_target / self.window;
        let bytes = bytes.min(step.acked * self.constants.step_max);
        if !step.rise {
            self.window -= bytes;
        } else if step.used {
            self.window += bytes;
        }
        self.round(step.now, step.smoothed);
    }

    /// Sets the window and resets the velocity.
    pub(super) const fn jump(&mut self, window: f64) {
        self.window = window;
        self.velocity = 1.0;
        self.steady_rounds = 0;
        self.round = None;
    }

    /// Sets the direction and resets the velocity.
    const fn set_direction(&mut self, rise: bool) {
        self.rising = rise;
        self.velocity = 1.0;
        self.steady_rounds = 0;
    }

    /// Doubles the velocity after enough round trips in the same direction.
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
            return self.set_direction(self.rising);
        }
        self.steady_rounds += 1;
        if self.steady_rounds >= self.constants.steady_rounds {
            self.velocity = (self.velocity * 2.0).min(self.constants.velocity_max);
        }
    }
}
