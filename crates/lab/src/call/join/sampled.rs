//! A bounded sample of a call's frames, for charts.

use std::time::{Duration, Instant};

use crate::call::frame::{Delay, Frame, between};
use crate::call::stage::Stage;

/// Most frames in the sample.
pub(super) const SAMPLED_MAX: usize = 512;

/// Frames that charts show, spread evenly over the call: first every frame, then every second,
/// fourth, and so on.
#[derive(Clone, Debug)]
pub(super) struct SampledFrames {
    pub(super) frames: Vec<Frame>,
    begun: Option<Instant>,
    every: u64,
    offered: u64,
}

impl Default for SampledFrames {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            begun: None,
            every: 1,
            offered: 0,
        }
    }
}

impl SampledFrames {
    pub(super) fn offer(
        &mut self,
        timestamp: u32,
        captured: Instant,
        delay: Delay,
        error: Option<Duration>,
    ) {
        let begun = *self.begun.get_or_insert(captured);
        let place = self.offered;
        self.offered += 1;
        if !place.is_multiple_of(self.every) {
            return;
        }
        if self.frames.len() == SAMPLED_MAX {
            self.every *= 2;
            let mut is_even = false;
            self.frames.retain(|_| {
                is_even = !is_even;
                is_even
            });
        }
        self.frames.push(Frame {
            timestamp,
            at_s: between(begun, captured) as f64 / 1e9,
            mouth_to_ear_ms: delay.get(Stage::MouthToEar).unwrap_or(0) as f64 / 1e6,
            error_ms: error.map(|it| it.as_secs_f64() * 1e3),
            stages_ms: delay,
        });
    }

    /// Whether any frame of the sample passed `stage`.
    pub(super) fn has(&self, stage: Stage) -> bool {
        self.frames
            .iter()
            .any(|it| it.stages_ms.get(stage).is_some())
    }

    /// The delay in `stage`, in ms, that `share` (0–1) of the sample do not exceed.
    pub(super) fn quantile_ms(&self, stage: Stage, share: f64) -> f64 {
        let values = self.frames.iter().filter_map(|it| it.stages_ms.get(stage));
        let mut values: Vec<i64> = values.collect();
        values.sort_unstable();
        let rank = (values.len() as f64 * share).ceil().max(1.0) as usize;
        values.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1e6)
    }
}
