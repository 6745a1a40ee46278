//! What good viewers got in a span of time, from their samples.

use std::collections::BTreeMap;

use super::attack::{Concerns, Interruption};
use super::group::Origin;
use super::watch::{Freeze, Sample};

/// Samples of one group, with what is needed to judge them.
#[derive(Clone, Debug)]
pub(super) struct GroupSamples {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) frame_rate: f64,
    pub(super) viewers: usize,
    pub(super) samples: Vec<Sample>,
}

/// A span of time in ms since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

impl Span {
    /// Whether a span from `from_ms` to `to_ms` has a part in this one.
    pub(super) const fn overlaps(self, from_ms: u64, to_ms: u64) -> bool {
        to_ms > self.from_ms && from_ms < self.to_ms
    }
}

/// Frames and packets of a group in a span.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    seconds: f64,
    frame_rate: f64,
    frames: Vec<u64>,
    expected: u64,
    received: u64,
    gaps: BTreeMap<u64, u64>,
    /// Interruptions of at least [`super::watch::FREEZE_MIN`].
    pub(super) freezes: Vec<Freeze>,
    /// Joins that were tried because of silence.
    pub(super) rejoins: u64,
    /// Longest time that the machine kept the viewers' process from running, in ms.
    pub(super) starved_ms: u64,
}

/// [`super::watch::FREEZE_MIN`] in ms: a freeze that begins later has another cause.
const FREEZE_MIN_MS: u64 = super::watch::FREEZE_MIN.as_millis() as u64;

/// Frames that may be missing at the edges of a span in any case: a sample ends between two frames.
const EDGE_FRAMES: f64 = 1.0;

impl GroupSamples {
    /// Adds up the samples in `span` that have no part in any of `excluded`.
    pub(super) fn account(&self, span: Span, excluded: &[Span]) -> Account {
        let mut account = Account {
            frame_rate: self.frame_rate,
            frames: vec![0; self.viewers],
            ..Account::default()
        };
        let samples = self.samples.iter();
        for sample in samples.filter(|it| span.overlaps(it.from_ms, it.to_ms)) {
            let is_in = |it: &Span| it.overlaps(sample.from_ms, sample.to_ms);
            if !excluded.iter().any(is_in) {
                account.add(sample);
            }
        }
        account
    }

    /// Whether an interruption takes the video of this group by design.
    pub(super) fn is_concerned(&self, interruption: &Interruption) -> bool {
        match &interruption.concerns {
            Concerns::Everybody => true,
            Concerns::Origin(origin) => *origin == self.origin,
            Concerns::Group(name) => *name == self.name,
        }
    }

    /// Time from the end of an interruption's cause until the last viewer of the group had video
    /// again, in ms; `None` if one has not. Looks at `until_ms` at the latest.
    pub(super) fn back_after(&self, interruption: &Interruption, until_ms: u64) -> Option<u64> {
        let samples = || {
            let samples = self.samples.iter();
            samples.filter(|it| it.to_ms > interruption.until_ms && it.from_ms < until_ms)
        };
        let has_frames = |viewer: usize| {
            let later = |it: &&Sample| it.from_ms >= interruption.until_ms;
            let mut frames = samples().filter(later).map(|it| it.frames.get(viewer));
            frames.any(|count| count.is_some_and(|count| *count > 0))
        };
        if !(0..self.viewers).all(has_frames) {
            return None;
        }
        // A viewer that joins again gets the latest keyframe although its source is away: a frame
        // before another freeze is no return.
        let mut back_ms = vec![interruption.until_ms; self.viewers];
        for freeze in samples().flat_map(|sample| &sample.freezes) {
            if let Some(back_ms) = back_ms.get_mut(freeze.viewer)
                && freeze.from_ms <= *back_ms + FREEZE_MIN_MS
            {
                *back_ms = freeze.to_ms.max(*back_ms);
            }
        }
        let last_ms = back_ms.into_iter().max()?;
        Some(last_ms - interruption.until_ms)
    }
}

impl Account {
    fn add(&mut self, sample: &Sample) {
        self.seconds += sample.to_ms.saturating_sub(sample.from_ms) as f64 / 1e3;
        for (sum, frames) in self.frames.iter_mut().zip(&sample.frames) {
            *sum += frames;
        }
        self.expected += sample.expected;
        self.received += sample.received;
        for (limit, count) in &sample.gaps {
            *self.gaps.entry(*limit).or_default() += count;
        }
        self.freezes.extend(&sample.freezes);
        self.rejoins += sample.rejoins;
        self.starved_ms = self.starved_ms.max(sample.starved_ms);
    }

    /// Time that was watched, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Share of the frames and packets that arrived, whichever is less, 0–1; `None` without
    /// samples. Frames due in `edge_ms` may arrive after the span: at least the time between frames
    /// that is usual for this stream.
    pub(super) fn delivered_ratio(&self, edge_ms: Option<f64>) -> Option<f64> {
        let due = self.seconds * self.frame_rate;
        if due <= 0.0 || self.frames.is_empty() {
            return None;
        }
        let edge = edge_ms.map_or(0.0, |edge| edge / 1e3 * self.frame_rate);
        let edge = edge.max(EDGE_FRAMES);
        let missing = |frames: &u64| (due - *frames as f64 - edge).max(0.0);
        let missing: f64 = self.frames.iter().map(missing).sum();
        let frames = 1.0 - missing / (due * self.frames.len() as f64);
        let lost = self.expected.saturating_sub(self.received) as f64;
        let packets = 1.0 - lost / self.expected.max(1) as f64;
        Some(frames.min(packets).max(0.0))
    }

    /// Time between frames that a share of them does not exceed, in ms.
    pub(super) fn gap_ms(&self, share: f64) -> Option<f64> {
        let all: u64 = self.gaps.values().sum();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let mut gaps = self.gaps.iter();
        let (limit, _) = gaps.find(|(_, count)| {
            sum += *count;
            sum >= wanted
        })?;
        Some(*limit as f64 / 1e3)
    }

    /// Longest interruption in ms; 0 if there was none.
    pub(super) fn longest_freeze_ms(&self) -> u64 {
        let freezes = self.freezes.iter();
        let longest = freezes.map(|freeze| freeze.to_ms.saturating_sub(freeze.from_ms));
        longest.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, frames: [u64; 2]) -> Sample {
        Sample {
            from_ms: second * 1000,
            to_ms: second * 1000 + 1000,
            frames: frames.to_vec(),
            expected: 200,
            received: 200,
            gaps: vec![(33_000, 58), (90_000, 2)],
            ..Sample::default()
        }
    }

    fn group(samples: Vec<Sample>) -> GroupSamples {
        GroupSamples {
            name: "whep".to_owned(),
            origin: Origin::Server,
            frame_rate: 30.0,
            viewers: 2,
            samples,
        }
    }

    const ALL: Span = Span {
        from_ms: 0,
        to_ms: 100_000,
    };

    fn interruption(from_ms: u64, until_ms: u64) -> Interruption {
        Interruption {
            from_ms,
            until_ms,
            concerns: Concerns::Everybody,
        }
    }

    #[test]
    fn frames_and_packets_that_are_missing_lower_the_ratio() {
        let ratio = |samples| group(samples).account(ALL, &[]).delivered_ratio(None);
        let whole: Vec<_> = (0..10).map(|second| sample(second, [30, 30])).collect();
        assert_eq!(ratio(whole.clone()), Some(1.0));
        assert_eq!(ratio(Vec::new()), None);
        // One viewer misses a second but for the frame at the edge: 29 of 600.
        let mut frozen = whole.clone();
        frozen[4] = sample(4, [30, 0]);
        let expected = 1.0 - 29.0 / 600.0;
        assert!((ratio(frozen.clone()).expect("samples") - expected).abs() < 1e-9);
        let mut lossy = whole;
        lossy[3].received = 190;
        assert!((ratio(lossy).expect("samples") - 0.995).abs() < 1e-9);
        let gap = Span {
            from_ms: 4100,
            to_ms: 4200,
        };
        let without = group(frozen).account(ALL, &[gap]);
        assert_eq!(without.delivered_ratio(None), Some(1.0));
    }

    #[test]
    fn frames_of_a_usual_gap_may_arrive_after_the_span() {
        let with = |edge_ms| {
            let late = sample(0, [30, 27]);
            group(vec![late]).account(ALL, &[]).delivered_ratio(edge_ms)
        };
        assert_eq!(with(Some(100.0)), Some(1.0));
        let expected = 1.0 - 1.0 / 60.0;
        assert!((with(Some(66.667)).expect("samples") - expected).abs() < 1e-4);
        assert_eq!(with(None), with(Some(5.0)));
    }

    #[test]
    fn gaps_are_quantiles_over_all_samples() {
        let account = group(vec![sample(0, [30, 30]), sample(1, [30, 30])]).account(ALL, &[]);
        assert_eq!(account.gap_ms(0.5), Some(33.0));
        assert_eq!(account.gap_ms(0.99), Some(90.0));
        assert_eq!(Account::default().gap_ms(0.5), None);
    }

    #[test]
    fn viewers_are_back_when_the_last_of_them_has_video() {
        let mut samples: Vec<_> = (0..10).map(|second| sample(second, [30, 30])).collect();
        for (viewer, to_ms) in [(0, 6200), (1, 6900)] {
            samples[6].freezes.push(Freeze {
                viewer,
                from_ms: 2000,
                to_ms,
            });
        }
        let group = group(samples);
        let stopped = interruption(2000, 6000);
        assert_eq!(group.back_after(&stopped, 9000), Some(900));
        let mut gone = group.clone();
        gone.samples[6..].iter_mut().for_each(|it| it.frames[1] = 0);
        assert_eq!(gone.back_after(&stopped, 100_000), None);
        assert_eq!(group.back_after(&interruption(7100, 7200), 9000), Some(0));
        // One frame, and then nothing again: the viewer was not back.
        let mut keyframe = group.clone();
        keyframe.samples[8].freezes.push(Freeze {
            viewer: 1,
            from_ms: 7000,
            to_ms: 8300,
        });
        assert_eq!(keyframe.back_after(&stopped, 9000), Some(2300));
    }
}
