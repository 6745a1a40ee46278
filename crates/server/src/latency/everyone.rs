//! The delays of all viewers of a stream that report, counted as their reports come in.
//!
//! A dashboard asks each second. Thousands of viewers send some hundred thousand frames in the
//! window; distributions of them cost the same however many viewers report.

use std::time::{Duration, Instant};

use glassline_media::{Stage, StageTable, Summary, WindowedHistogram};

use super::account::{FrameSample, STAGE_WINDOW};
use super::view::{StageRow, Whole};

/// The delays of the reporting viewers' recent frames, as distributions with an error below 1 %.
#[derive(Debug)]
pub(super) struct Everyone {
    stages: StageTable,
    end_to_end: WindowedHistogram,
    glass_to_glass: WindowedHistogram,
    error: WindowedHistogram,
}

impl Everyone {
    /// Creates empty distributions, which begin at `now`.
    pub(super) fn new(now: Instant) -> Self {
        let empty = || WindowedHistogram::new(STAGE_WINDOW, now);
        Self {
            stages: StageTable::new(STAGE_WINDOW),
            end_to_end: empty(),
            glass_to_glass: empty(),
            error: empty(),
        }
    }

    /// Adds the frames of a report that came at `now`.
    pub(super) fn add(&mut self, frames: &[FrameSample], now: Instant) {
        for frame in frames {
            for stage in Stage::ALL {
                if let Some(ms) = frame.delay_ms(stage) {
                    self.stages.record(stage, of_ms(ms), now);
                }
            }
            self.end_to_end.record(of_ms(frame.sum_ms()), now);
            if let Some(ms) = frame.glass_ms {
                self.glass_to_glass.record(of_ms(ms), now);
            }
            self.error.record(of_ms(frame.error_ms), now);
        }
    }

    /// Returns the stages that only viewers know, in order.
    pub(super) fn stages(&mut self, now: Instant) -> Vec<StageRow> {
        let all = self.stages.summaries(now);
        all.iter()
            .filter(|(stage, _)| is_viewers(*stage))
            .map(|(stage, summary)| StageRow::of_summary(*stage, summary))
            .collect()
    }

    /// Returns the delay from a frame's origin until it is presented.
    pub(super) fn end_to_end(&mut self, now: Instant) -> Option<Whole> {
        let error = self.error.summary(now);
        Whole::of_summary(&self.end_to_end.summary(now), &error)
    }

    /// Returns the delay that was measured with the code drawn into frames.
    pub(super) fn glass_to_glass(&mut self, now: Instant) -> Option<Whole> {
        let error = self.error.summary(now);
        Whole::of_summary(&self.glass_to_glass.summary(now), &error)
    }
}

/// Returns whether the viewer measures `stage`: what comes before is the server's, who has all
/// frames, and not only those of viewers that report.
pub(super) fn is_viewers(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::Network | Stage::JitterBuffer | Stage::Decode | Stage::Render
    )
}

/// Delays below zero are zero: the offset of two clocks is known to within an error only.
fn of_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms.max(0.0) / 1e3).unwrap_or(Duration::MAX)
}

impl Whole {
    fn of_summary(delay: &Summary, error: &Summary) -> Option<Self> {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        (delay.count > 0).then(|| Self {
            count: delay.count,
            p50_ms: ms(delay.p50),
            p95_ms: ms(delay.p95),
            max_ms: ms(delay.max),
            error_ms: ms(error.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::account::tests::sample;

    fn close(is: f64, should: f64) -> bool {
        (is - should).abs() <= should / 100.0
    }

    #[test]
    fn figures_are_those_of_the_frames_within_one_percent() {
        let start = Instant::now();
        let mut everyone = Everyone::new(start);
        for viewer in 1..=100 {
            let delay = f64::from(viewer);
            let glass = (viewer == 100).then_some(delay + 1.0);
            everyone.add(&[sample(delay, glass)], start);
        }
        let now = start + Duration::from_secs(1);
        let rows = everyone.stages(now);
        let names: Vec<&str> = rows.iter().map(|row| row.stage).collect();
        assert_eq!(names, ["network", "jitter_buffer", "decode", "render"]);
        assert_eq!(rows[0].count, 100);
        assert!(close(rows[0].p50_ms, 50.0) && close(rows[0].p95_ms, 95.0));
        let whole = everyone.end_to_end(now).expect("frames came");
        assert!(close(whole.p50_ms, 50.0) && close(whole.max_ms, 100.0));
        assert!(close(whole.error_ms, 0.3), "{whole:?}");
        let glass = everyone.glass_to_glass(now).expect("a frame has it");
        assert!(glass.count == 1 && close(glass.max_ms, 101.0));
        let later = now + STAGE_WINDOW * 2;
        assert!(everyone.stages(later).is_empty() && everyone.end_to_end(later).is_none());
    }

    #[test]
    fn absurd_delays_are_counted_and_bounded() {
        let now = Instant::now();
        let mut everyone = Everyone::new(now);
        for delay in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 1e300] {
            everyone.add(&[sample(delay, Some(delay))], now);
        }
        let whole = everyone.end_to_end(now).expect("frames came");
        assert!(whole.count == 5 && whole.max_ms <= 61_000.0, "{whole:?}");
    }
}
