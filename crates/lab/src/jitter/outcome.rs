use serde::{Deserialize, Serialize};

use super::Stream;
use crate::statistics::quantile;

/// Outcome of one buffer on a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Packets that were played, in order.
    pub moments: Vec<Moment>,
    /// Share of the time that was concealed, 0–1.
    pub concealed_ratio: f64,
    /// Share of the time that stretching left out or played twice, 0–1.
    pub stretched_ratio: f64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Packets that never arrived.
    pub lost: u64,
}

/// Playout of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Time since the first packet was sent, in seconds.
    pub at_s: f64,
    /// Time since the packet's arrival, in ms.
    pub wait_ms: f64,
}

/// Distribution of the packets' waits, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Mean of all played packets.
    pub mean: f64,
    /// Median wait, in ms.
    pub p50: f64,
    /// 95th percentile of the waits, in ms.
    pub p95: f64,
    /// 99th percentile of the waits, in ms.
    pub p99: f64,
    /// Longest wait, in ms.
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

    /// Distribution of the packets' waits.
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
