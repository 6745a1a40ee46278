//! The delays of one viewer's frames over the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Stage;

use super::view::{Accounted, FrameLine, StageRow, ViewerLatency, Whole};

/// Time span of the stage tables.
pub(super) const STAGE_WINDOW: Duration = Duration::from_secs(10);

/// Time span of every figure here, in seconds.
pub const WINDOW_S: u64 = STAGE_WINDOW.as_secs();

/// Most frames kept for one viewer: the window at 240 frames a second.
const FRAMES_MAX: usize = 2400;

/// Number of frames that are listed one by one: with a report a second, that shows every frame at
/// 30 frames/s.
const LINES: usize = 32;

/// Difference that two measures of one delay on the same clock may still have, in ms: a page's
/// clock has a resolution of 0.1 ms if the page is not isolated.
const RESOLUTION_MS: f64 = 0.1;

/// One frame with the delays of all its stages.
#[derive(Clone, Debug)]
pub(super) struct FrameSample {
    pub(super) timestamp: u32,
    /// Whether the stages begin at the capture of the frame, and not at its arrival.
    pub(super) is_captured: bool,
    /// Whether the frame came from another server, and its time under way is known.
    pub(super) is_relayed: bool,
    /// Delay of each stage in ms, by [`Stage::index`]. Delays may be negative, since a clock offset
    /// is only known to within an error.
    pub(super) stages_ms: [f64; Stage::ALL.len()],
    pub(super) glass_ms: Option<f64>,
    pub(super) error_ms: f64,
}

impl FrameSample {
    pub(super) fn sum_ms(&self) -> f64 {
        self.stages_ms.iter().sum()
    }

    /// Returns the delay of a stage; `None` for a stage before the arrival if the capture time is not
    /// known, and for the way between servers if there is none.
    pub(super) fn delay_ms(&self, stage: Stage) -> Option<f64> {
        let is_known = match stage {
            Stage::Capture | Stage::Encode | Stage::Uplink => self.is_captured,
            Stage::Relay => self.is_relayed,
            _ => true,
        };
        is_known.then_some(self.stages_ms[stage.index()])
    }
}

/// A page's report, joined with the server's stamps of the same frames.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    pub(super) frames: Vec<FrameSample>,
    pub(super) unmatched: u64,
    pub(super) lost: u64,
}

/// The recent frames of one viewer.
#[derive(Clone, Debug, Default)]
pub struct Account {
    frames: VecDeque<(Instant, FrameSample)>,
    /// Time of each report, with its numbers of unmatched and of lost frames.
    misses: VecDeque<(Instant, u64, u64)>,
}

impl Account {
    /// Adds a report and removes what is older than the window.
    pub(super) fn add(&mut self, joined: Joined, now: Instant) {
        self.misses.push_back((now, joined.unmatched, joined.lost));
        self.frames
            .extend(joined.frames.into_iter().map(|frame| (now, frame)));
        self.expire(now);
    }

    /// Adds everything that `other` holds.
    pub(super) fn merge(&mut self, other: &Self) {
        self.misses.extend(&other.misses);
        self.frames.extend(other.frames.iter().cloned());
    }

    fn expire(&mut self, now: Instant) {
        let old = |at: Instant| now.saturating_duration_since(at) > STAGE_WINDOW;
        self.frames.retain(|(at, _)| !old(*at));
        self.misses.retain(|(at, ..)| !old(*at));
        let surplus = self.frames.len().saturating_sub(FRAMES_MAX);
        self.frames.drain(..surplus);
    }

    /// Returns the figures of the window that ends at `now`.
    pub(super) fn latency(&mut self, now: Instant) -> ViewerLatency {
        // A merged account may hold many viewers' frames: only their age is bounded.
        let old = |at: Instant| now.saturating_duration_since(at) > STAGE_WINDOW;
        self.frames.retain(|(at, _)| !old(*at));
        // A page may report any number.
        let sum = |sum: u64, count: &u64| sum.saturating_add(*count);
        let unmatched = self.misses.iter().map(|(_, it, _)| it).fold(0, sum);
        let lost = self.misses.iter().map(|(.., it)| it).fold(0, sum);
        let frames = || self.frames.iter().map(|(_, frame)| frame);
        let stages = Stage::ALL
            .into_iter()
            .map(|stage| {
                let delays = frames().filter_map(|frame| frame.delay_ms(stage));
                row(stage, delays.collect(), unmatched, lost)
            })
            .filter(|row| row.count > 0)
            .collect();
        let error_ms = frames().map(|frame| frame.error_ms).fold(0.0, f64::max);
        let both =
            frames().filter_map(|frame| Some((frame.sum_ms(), frame.glass_ms?, frame.error_ms)));
        let (mut within, mut of) = (0, 0);
        for (sum, glass, error) in both {
            of += 1;
            within += u64::from((sum - glass).abs() <= error + RESOLUTION_MS);
        }
        ViewerLatency {
            window_s: WINDOW_S,
            stages,
            end_to_end: whole(frames().map(FrameSample::sum_ms).collect(), error_ms),
            glass_to_glass: whole(
                frames().filter_map(|frame| frame.glass_ms).collect(),
                error_ms,
            ),
            accounted: Accounted { within, of },
            frames: frames().rev().take(LINES).map(line).collect(),
        }
    }
}

fn row(stage: Stage, mut delays: Vec<f64>, unmatched: u64, lost: u64) -> StageRow {
    delays.sort_by(f64::total_cmp);
    StageRow {
        stage: stage.as_str(),
        count: delays.len() as u64,
        unmatched,
        lost,
        p50_ms: quantile(&delays, 0.50),
        p95_ms: quantile(&delays, 0.95),
        p99_ms: quantile(&delays, 0.99),
        max_ms: delays.last().copied().unwrap_or_default(),
    }
}

fn whole(mut delays: Vec<f64>, error_ms: f64) -> Option<Whole> {
    delays.sort_by(f64::total_cmp);
    (!delays.is_empty()).then(|| Whole {
        count: delays.len() as u64,
        p50_ms: quantile(&delays, 0.50),
        p95_ms: quantile(&delays, 0.95),
        max_ms: delays.last().copied().unwrap_or_default(),
        error_ms,
    })
}

/// Returns the nearest-rank quantile of sorted values; 0 if there are none.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few thousand values"
)]
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

fn line(frame: &FrameSample) -> FrameLine {
    let delays = Stage::ALL.into_iter();
    let stages = delays
        .filter_map(|stage| Some((stage.as_str().to_owned(), frame.delay_ms(stage)?.into())))
        .collect();
    FrameLine {
        rtp_timestamp: frame.timestamp,
        stages,
        sum_ms: frame.sum_ms(),
        glass_to_glass_ms: frame.glass_ms,
        error_ms: frame.error_ms,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame of a viewer that spent `total` ms in the network.
    pub(in crate::latency) fn sample(total: f64, glass: Option<f64>) -> FrameSample {
        let mut stages_ms = [0.0; Stage::ALL.len()];
        stages_ms[Stage::Network.index()] = total;
        FrameSample {
            timestamp: 1,
            is_captured: false,
            is_relayed: false,
            stages_ms,
            glass_ms: glass,
            error_ms: 0.3,
        }
    }

    #[test]
    fn figures_cover_the_window_and_count_what_is_explained() {
        let start = Instant::now();
        let mut account = Account::default();
        let frames = vec![
            sample(10.0, Some(10.2)),
            sample(20.0, Some(53.3)),
            sample(30.0, None),
        ];
        account.add(
            Joined {
                frames,
                unmatched: 2,
                lost: 1,
            },
            start,
        );
        let latency = account.latency(start + Duration::from_secs(9));
        assert_eq!(latency.accounted, Accounted { within: 1, of: 2 });
        let mut rows = latency.stages.iter();
        let is_it = |row: &&StageRow| row.stage == Stage::Network.as_str();
        let network = rows.find(is_it).expect("it is accounted for");
        assert_eq!((network.count, network.unmatched, network.lost), (3, 2, 1));
        assert_eq!((network.p50_ms, network.max_ms), (20.0, 30.0));
        assert_eq!(latency.end_to_end.map(|whole| whole.p95_ms), Some(30.0));
        assert_eq!(latency.glass_to_glass.map(|whole| whole.count), Some(2));
        let rows = latency.stages.iter().map(|row| row.stage);
        assert!(!rows.clone().any(|stage| stage == "uplink"), "not captured");
        let mut captured = sample(10.0, None);
        captured.is_captured = true;
        captured.stages_ms[Stage::Encode.index()] = 7.0;
        let frames = vec![captured];
        account.add(
            Joined {
                frames,
                ..Joined::default()
            },
            start + Duration::from_secs(1),
        );
        let both = account.latency(start + Duration::from_secs(9));
        let counts = both.stages.iter().map(|row| (row.stage, row.count));
        let counts: Vec<_> = counts.take(4).collect();
        let expected = [("capture", 1), ("encode", 1), ("uplink", 1), ("ingest", 4)];
        assert_eq!(counts, expected);
        assert_eq!(both.frames[0].sum_ms, 17.0);
        let later = account.latency(start + Duration::from_secs(12));
        assert!(
            later.stages.is_empty() && later.end_to_end.is_none(),
            "absent, not zero"
        );
    }
}
