//! The delays of one viewer's frames over the last seconds.
//!
//! A frame is kept by the buckets of its delays, and the frames of each bucket are counted as frames
//! come and go. Whoever wants figures copies the counts, and computes without a lock: that takes the
//! same time however many frames there are, and sorts nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Stage;

use super::distribution::{Bucket, Distribution};
use super::timestamps::Timestamps;
use super::view::{Accounted, FrameLine, StageDelays, StageRow, ViewerLatency, Whole};

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

/// The delays of a frame by their buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameDelays {
    timestamp: u32,
    /// Delay of each stage, by [`Stage::index`].
    pub(super) stages: [Bucket; Stage::ALL.len()],
    /// Sum of the stages.
    pub(super) sum: Bucket,
    pub(super) glass: Bucket,
    pub(super) error_ms: f32,
    /// Whether the sum and the glass-to-glass delay agree within the error; `None` without the
    /// latter.
    is_explained: Option<bool>,
}

impl FrameDelays {
    fn of(frame: &FrameSample) -> Self {
        let bucket = |ms: Option<f64>| ms.map_or(Bucket::ABSENT, Bucket::of_ms);
        let sum_ms = frame.sum_ms();
        let explains = |glass: f64| (sum_ms - glass).abs() <= frame.error_ms + RESOLUTION_MS;
        Self {
            timestamp: frame.timestamp,
            stages: Stage::ALL.map(|stage| bucket(frame.delay_ms(stage))),
            sum: Bucket::of_ms(sum_ms),
            glass: bucket(frame.glass_ms),
            error_ms: frame.error_ms as f32,
            is_explained: frame.glass_ms.map(explains),
        }
    }
}

/// The delays of frames by stage, without the frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    stages: [Distribution; Stage::ALL.len()],
    sums: Distribution,
    glass: Distribution,
    accounted: Accounted,
}

impl Delays {
    fn add(&mut self, frame: &FrameDelays) {
        for (delays, delay) in self.stages.iter_mut().zip(frame.stages) {
            delays.add(delay);
        }
        self.sums.add(frame.sum);
        self.glass.add(frame.glass);
        self.accounted.of += u64::from(frame.is_explained.is_some());
        self.accounted.within += u64::from(frame.is_explained == Some(true));
    }

    /// Forgets a frame that was added.
    fn remove(&mut self, frame: &FrameDelays) {
        for (delays, delay) in self.stages.iter_mut().zip(frame.stages) {
            delays.remove(delay);
        }
        self.sums.remove(frame.sum);
        self.glass.remove(frame.glass);
        self.accounted.of -= u64::from(frame.is_explained.is_some());
        self.accounted.within -= u64::from(frame.is_explained == Some(true));
    }

    fn merge(&mut self, other: &Self) {
        for (delays, more) in self.stages.iter_mut().zip(&other.stages) {
            delays.merge(more);
        }
        self.sums.merge(&other.sums);
        self.glass.merge(&other.glass);
        self.accounted.of += other.accounted.of;
        self.accounted.within += other.accounted.within;
    }

    /// Gives back memory that removed frames needed.
    fn trim(&mut self) {
        self.stages.iter_mut().for_each(Distribution::trim);
        self.sums.trim();
        self.glass.trim();
    }
}

/// One report of a page.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    /// Number of its frames that are kept.
    frames: usize,
    unmatched: u64,
    lost: u64,
}

/// The recent frames of one viewer.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Frames within the window, in the order of their reports.
    frames: VecDeque<FrameDelays>,
    /// The delays of `frames`: a report costs by its own frames, and not by those of the window.
    delays: Delays,
    /// Timestamps of `frames`: a frame counts once, however often it is reported.
    timestamps: Timestamps,
    reports: VecDeque<Entry>,
    /// The latest frames, which are listed one by one.
    latest: VecDeque<FrameSample>,
}

impl Account {
    /// Adds a report and removes what is older than the window. Returns the frames that are new.
    pub(super) fn add<'a>(
        &'a mut self,
        joined: &Joined,
        now: Instant,
    ) -> impl Iterator<Item = &'a FrameDelays> + use<'a> {
        let mut new = 0;
        for frame in &joined.frames {
            if self.timestamps.insert(frame.timestamp) {
                let delays = FrameDelays::of(frame);
                self.delays.add(&delays);
                self.frames.push_back(delays);
                if self.latest.len() == LINES {
                    self.latest.pop_front();
                }
                self.latest.push_back(frame.clone());
                new += 1;
            }
        }
        if new > 0 || joined.unmatched > 0 || joined.lost > 0 {
            self.reports.push_back(Entry {
                at: now,
                frames: new,
                unmatched: joined.unmatched,
                lost: joined.lost,
            });
        }
        self.expire(now);
        let before = self.frames.len().saturating_sub(new);
        self.frames.range(before..)
    }

    /// Removes what is older than the window.
    fn expire(&mut self, now: Instant) {
        let old = |at: Instant| now.saturating_duration_since(at) > STAGE_WINDOW;
        let kept = self.frames.len();
        while let Some(report) = self.reports.front().copied().filter(|it| old(it.at)) {
            self.reports.pop_front();
            self.forget_oldest(report.frames);
        }
        let mut surplus = self.frames.len().saturating_sub(FRAMES_MAX);
        self.forget_oldest(surplus);
        for report in &mut self.reports {
            let fewer = surplus.min(report.frames);
            report.frames -= fewer;
            surplus -= fewer;
        }
        if self.frames.len() < kept {
            self.delays.trim();
        }
        let listed = LINES.min(self.frames.len());
        let surplus = self.latest.len().saturating_sub(listed);
        self.latest.drain(..surplus);
    }

    fn forget_oldest(&mut self, count: usize) {
        for frame in self.frames.drain(..count) {
            self.timestamps.remove(frame.timestamp);
            self.delays.remove(&frame);
        }
    }

    /// Returns what figures of the window that ends at `now` are made of.
    pub(super) fn window(&mut self, now: Instant) -> Window {
        self.expire(now);
        // A page may report any number.
        let sum = |sum: u64, count: u64| sum.saturating_add(count);
        let errors = self.frames.iter().map(|frame| frame.error_ms);
        Window {
            delays: self.delays.clone(),
            error_ms: errors.fold(0.0, f32::max),
            latest: self.latest.iter().rev().cloned().collect(),
            unmatched: self.reports.iter().map(|it| it.unmatched).fold(0, sum),
            lost: self.reports.iter().map(|it| it.lost).fold(0, sum),
        }
    }
}

/// A copy of what an account holds, or several accounts.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    delays: Delays,
    error_ms: f32,
    /// The latest frames, the newest first.
    latest: Vec<FrameSample>,
    unmatched: u64,
    lost: u64,
}

impl Window {
    /// Returns whether there are frames.
    pub(super) fn has_frames(&self) -> bool {
        !self.latest.is_empty()
    }

    /// Adds what another window has, but for its latest frames.
    pub(super) fn merge(&mut self, other: &Self) {
        self.delays.merge(&other.delays);
        self.error_ms = self.error_ms.max(other.error_ms);
        self.unmatched = self.unmatched.saturating_add(other.unmatched);
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// Returns the figures of a viewer, or of several ones.
    pub(super) fn latency(&self) -> ViewerLatency {
        let delays = &self.delays;
        let rows = Stage::ALL.into_iter().zip(&delays.stages);
        let rows = rows.map(|(stage, delays)| {
            StageRow::of_figures(stage, &delays.figures(), self.unmatched, self.lost)
        });
        let error_ms = self.error_ms.into();
        ViewerLatency {
            window_s: WINDOW_S,
            stages: rows.filter(|row| row.count > 0).collect(),
            end_to_end: Whole::of_figures(&delays.sums.figures(), error_ms),
            glass_to_glass: Whole::of_figures(&delays.glass.figures(), error_ms),
            accounted: delays.accounted,
            frames: self.latest.iter().map(line).collect(),
        }
    }
}

fn line(frame: &FrameSample) -> FrameLine {
    FrameLine {
        rtp_timestamp: frame.timestamp,
        stages: StageDelays(Stage::ALL.map(|stage| frame.delay_ms(stage))),
        sum_ms: frame.sum_ms(),
        glass_to_glass_ms: frame.glass_ms,
        error_ms: frame.error_ms,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame of a viewer that spent `total` ms in the network.
    pub(crate) fn sample(total: f64, glass: Option<f64>) -> FrameSample {
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

    fn latency(account: &mut Account, now: Instant) -> ViewerLatency {
        account.window(now).latency()
    }

    fn close(is: f64, should: f64) -> bool {
        (is - should).abs() <= should / 100.0
    }

    /// Gives each frame a timestamp of its own, from `first` on.
    fn reported(first: u32, mut frames: Vec<FrameSample>) -> Joined {
        for (timestamp, frame) in (first..).zip(&mut frames) {
            frame.timestamp = timestamp;
        }
        Joined {
            frames,
            ..Joined::default()
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
        let joined = Joined {
            unmatched: 2,
            lost: 1,
            ..reported(1, frames)
        };
        assert_eq!(account.add(&joined, start).count(), 3);
        let first = latency(&mut account, start + Duration::from_secs(9));
        assert_eq!(first.accounted, Accounted { within: 1, of: 2 });
        let mut rows = first.stages.iter();
        let is_it = |row: &&StageRow| row.stage == Stage::Network.as_str();
        let network = rows.find(is_it).expect("it is accounted for");
        assert_eq!((network.count, network.unmatched, network.lost), (3, 2, 1));
        assert!(close(network.p50_ms, 20.0) && close(network.max_ms, 30.0));
        assert!(first.end_to_end.is_some_and(|it| close(it.p95_ms, 30.0)));
        assert_eq!(first.glass_to_glass.map(|whole| whole.count), Some(2));
        let rows = first.stages.iter().map(|row| row.stage);
        assert!(!rows.clone().any(|stage| stage == "uplink"), "not captured");
        let mut captured = sample(10.0, None);
        captured.is_captured = true;
        captured.stages_ms[Stage::Encode.index()] = 7.0;
        let joined = reported(9, vec![captured]);
        assert_eq!(
            account.add(&joined, start + Duration::from_secs(1)).count(),
            1
        );
        let both = latency(&mut account, start + Duration::from_secs(9));
        let counts = both.stages.iter().map(|row| (row.stage, row.count));
        let counts: Vec<_> = counts.take(4).collect();
        let expected = [("capture", 1), ("encode", 1), ("uplink", 1), ("ingest", 4)];
        assert_eq!(counts, expected);
        assert_eq!(both.frames[0].sum_ms, 17.0);
        let later = latency(&mut account, start + Duration::from_secs(12));
        assert!(
            later.stages.is_empty() && later.end_to_end.is_none() && later.frames.is_empty(),
            "absent, not zero"
        );
    }

    #[test]
    fn a_frame_counts_once_however_often_it_is_reported() {
        let start = Instant::now();
        let mut account = Account::default();
        let frames = |first| reported(first, vec![sample(10.0, None); 1_000]);
        for report in 0..5 {
            let new = account.add(&frames(0), start + Duration::from_secs(report));
            assert_eq!(new.count(), if report == 0 { 1_000 } else { 0 });
        }
        let count = |account: &mut Account, at| {
            let whole = latency(account, start + Duration::from_secs(at)).end_to_end;
            whole.map_or(0, |it| it.count)
        };
        assert_eq!(count(&mut account, 5), 1_000);
        // Beyond the most that are kept, the oldest make room, and may then come again.
        assert_eq!(
            account
                .add(&frames(1_000), start + Duration::from_secs(6))
                .count(),
            1_000
        );
        assert_eq!(
            account
                .add(&frames(2_000), start + Duration::from_secs(7))
                .count(),
            1_000
        );
        assert_eq!(count(&mut account, 7), FRAMES_MAX as u64);
        assert_eq!(account.timestamps.len(), FRAMES_MAX);
        assert_eq!(count(&mut account, 40), 0);
        assert_eq!(account.timestamps.len(), 0);
    }

    #[test]
    fn delays_below_zero_stay_below_zero() {
        let now = Instant::now();
        let mut account = Account::default();
        let new = account.add(&reported(1, vec![sample(-0.25, None)]), now);
        assert_eq!(new.count(), 1);
        let network = latency(&mut account, now).stages;
        let network = network.iter().find(|it| it.stage == "network");
        assert!(
            network.is_some_and(|it| close(-it.p50_ms, 0.25)),
            "{network:?}"
        );
    }
}
