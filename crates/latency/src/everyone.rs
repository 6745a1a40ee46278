//! The delays of all viewers of a stream that report, counted as their reports come in.
//!
//! A dashboard asks each second. Thousands of viewers send some hundred thousand frames in the
//! window; distributions of them cost the same however many viewers report.

use std::time::Instant;

use glassline_media::Stage;

use super::account::{FrameDelays, STAGE_WINDOW};
use super::distribution::{Bucket, Distribution, Figures};
use super::view::{StageRow, Whole};

/// The stages that only viewers know, in order.
const STAGES: [Stage; 4] = [
    Stage::Network,
    Stage::JitterBuffer,
    Stage::Decode,
    Stage::Render,
];

/// The delays of the reporting viewers' recent frames.
///
/// They are counted in two halves of the window, of which the older one is forgotten when the newer
/// one is full: figures cover between half a window and a whole one.
#[derive(Clone, Debug)]
pub(super) struct Everyone {
    present: Half,
    before: Half,
    /// Time at which the half `present` began.
    turned: Instant,
}

/// The delays of half a window.
#[derive(Clone, Debug)]
struct Half {
    stages: [Distribution; STAGES.len()],
    end_to_end: Distribution,
    glass_to_glass: Distribution,
    error_ms: f32,
}

impl Half {
    fn new() -> Self {
        Self {
            stages: std::array::from_fn(|_| Distribution::default()),
            end_to_end: Distribution::default(),
            glass_to_glass: Distribution::default(),
            error_ms: 0.0,
        }
    }

    fn clear(&mut self) {
        self.stages.iter_mut().for_each(Distribution::clear);
        self.end_to_end.clear();
        self.glass_to_glass.clear();
        self.error_ms = 0.0;
    }

    fn add(&mut self, frame: &FrameDelays) {
        // Delays below zero are zero among those of many clocks.
        let known = |delay: Bucket| match delay {
            Bucket::ABSENT => delay,
            delay => delay.not_negative(),
        };
        for (stage, delays) in STAGES.iter().zip(&mut self.stages) {
            delays.add(known(frame.stages[stage.index()]));
        }
        self.end_to_end.add(known(frame.sum));
        self.glass_to_glass.add(known(frame.glass));
        self.error_ms = self.error_ms.max(frame.error_ms);
    }
}

impl Everyone {
    /// Creates empty distributions, which begin at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            present: Half::new(),
            before: Half::new(),
            turned: now,
        }
    }

    /// Adds the frames of a report that came at `now`.
    pub(super) fn add<'a>(&mut self, frames: impl Iterator<Item = &'a FrameDelays>, now: Instant) {
        self.turn(now);
        frames.for_each(|frame| self.present.add(frame));
    }

    /// Forgets the older half of the window once the newer one is full.
    pub(super) fn turn(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.turned);
        if age < STAGE_WINDOW / 2 {
            return;
        }
        std::mem::swap(&mut self.present, &mut self.before);
        self.present.clear();
        if age >= STAGE_WINDOW {
            self.before.clear();
        }
        self.turned = now;
    }

    /// Returns the stages that only viewers know, in order.
    pub(super) fn stages(&self) -> Vec<StageRow> {
        let halves = self.before.stages.iter().zip(&self.present.stages);
        let rows = STAGES
            .into_iter()
            .zip(halves)
            .map(|(stage, halves)| StageRow::of_figures(stage, &figures(halves.0, halves.1), 0, 0));
        rows.filter(|row| row.count > 0).collect()
    }

    /// Returns the delay from a frame's origin until it is presented.
    pub(super) fn end_to_end(&self) -> Option<Whole> {
        let delays = figures(&self.before.end_to_end, &self.present.end_to_end);
        Whole::of_figures(&delays, self.error_ms())
    }

    /// Returns the delay that was measured with the code drawn into frames.
    pub(super) fn glass_to_glass(&self) -> Option<Whole> {
        let delays = figures(&self.before.glass_to_glass, &self.present.glass_to_glass);
        Whole::of_figures(&delays, self.error_ms())
    }

    fn error_ms(&self) -> f64 {
        self.before.error_ms.max(self.present.error_ms).into()
    }
}

fn figures(before: &Distribution, present: &Distribution) -> Figures {
    let mut both = before.clone();
    both.merge(present);
    both.figures()
}

/// Returns whether the viewer measures `stage`: what comes before is the server's, who has all
/// frames, and not only those of viewers that report.
pub(super) fn is_viewers(stage: Stage) -> bool {
    STAGES.contains(&stage)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::account::tests::sample;
    use crate::account::{Account, FrameSample, Joined};

    fn close(is: f64, should: f64) -> bool {
        (is - should).abs() <= should / 100.0
    }

    fn add(everyone: &mut Everyone, frame: FrameSample, now: Instant) {
        let joined = Joined {
            frames: vec![frame],
            ..Joined::default()
        };
        everyone.add(Account::default().add(&joined, now), now);
    }

    #[test]
    fn figures_are_those_of_the_frames_within_one_percent() {
        let start = Instant::now();
        let mut everyone = Everyone::new(start);
        for viewer in 1..=100 {
            let delay = f64::from(viewer);
            let glass = (viewer == 100).then_some(delay + 1.0);
            add(&mut everyone, sample(delay, glass), start);
        }
        let now = start + Duration::from_secs(1);
        everyone.turn(now);
        let rows = everyone.stages();
        let names: Vec<&str> = rows.iter().map(|row| row.stage).collect();
        assert_eq!(names, ["network", "jitter_buffer", "decode", "render"]);
        assert_eq!(rows[0].count, 100);
        assert!(close(rows[0].p50_ms, 50.0) && close(rows[0].p95_ms, 95.0));
        let whole = everyone.end_to_end().expect("frames came");
        assert!(close(whole.p50_ms, 50.0) && close(whole.max_ms, 100.0));
        assert!(close(whole.error_ms, 0.3), "{whole:?}");
        let glass = everyone.glass_to_glass().expect("a frame has it");
        assert!(glass.count == 1 && close(glass.max_ms, 101.0));
        everyone.turn(start + STAGE_WINDOW * 3 / 5);
        assert_eq!(everyone.stages()[0].count, 100, "half a window is kept");
        everyone.turn(now + STAGE_WINDOW * 2);
        assert!(everyone.stages().is_empty() && everyone.end_to_end().is_none());
    }

    #[test]
    fn absurd_delays_are_counted_and_bounded() {
        let now = Instant::now();
        let mut everyone = Everyone::new(now);
        for delay in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 1e300] {
            add(&mut everyone, sample(delay, Some(delay)), now);
        }
        let whole = everyone.end_to_end().expect("frames came");
        assert!(whole.count == 5 && whole.max_ms <= 61_000.0, "{whole:?}");
    }
}
