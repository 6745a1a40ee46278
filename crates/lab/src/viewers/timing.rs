//! Times of a step, each as the few quantiles that tools read, in milliseconds.

use serde::{Deserialize, Serialize};

/// How long joining took; `None` where nobody joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// Half took no longer.
    pub p50: Option<f64>,
    /// 95 of 100 took no longer.
    pub p95: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Until all of the step had joined or failed.
    pub all: Option<f64>,
}

/// Times between frames; `None` where none came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// 99 of 100 are no longer.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// From connecting until the whole description was there, by a client that asks ten
/// times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Describe {
    /// Answered with success.
    pub answered: usize,
    /// Refused, or not answered within five seconds.
    pub failed: usize,
    /// Half took no longer; `None` where none was answered.
    pub p50: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// One-way delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Half are no longer.
    pub p50: f64,
    /// 95 of 100 are no longer.
    pub p95: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
}
