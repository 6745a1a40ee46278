use serde::{Deserialize, Serialize};

use super::Stream;
use crate::statistics::quantile;

/// What one contender made of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Each packet that was played, in order.
    pub moments: Vec<Moment>,
    /// Of the time, what was made up.
    pub concealed_ratio: f64,
    /// Of the time, what was left out of speech or played twice.
    pub stretched_ratio: f64,
    /// Packets that came, but too late to be played.
    pub late: u64,
    /// Packets that never came.
    pub lost: u64,
}

/// A packet is played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Since the first was sent.
    pub at_s: f64,
    /// Since it came.
    pub wait_ms: f64,
}

/// Milliseconds that packets waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Of all that were played.
    pub mean: f64,
    /// Half waited no longer.
    pub p50: f64,
    /// 95 of 100 waited no longer.
    pub p95: f64,
    /// 99 of 100 waited no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Outcome {
    pub(super) fn new(stream: &Stream<'_>) -> Self {
        let lost = stream.delays.packets().iter().filter(|it| it.is_none());
        Self {
            lost: lost.count() as u64,
            ..Self::default()
        }
    }

    /// How long packets waited.
    pub fn wait(&self) -> Wait {
        let waits: Vec<f64> = self.moments.iter().map(|it| it.wait_ms).collect();
        let at = |share| quantile(&waits, share).unwrap_or(0.0);
        Wait {
            mean: waits.iter().sum::<f64>() / waits.len().max(1) as f64,
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
