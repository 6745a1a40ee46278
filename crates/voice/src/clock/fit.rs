//! A line through what was measured, and a bound on its error.

use super::SKEW_MAX_PPM;

const SKEW_MAX: f64 = SKEW_MAX_PPM / 1e6;

/// Below this two round trips are alike: the granularity of sockets and threads.
const ALIKE_NS: f64 = 20_000.0;

/// Stamps are whole numbers, and so many of them take part.
const ROUNDED_NS: f64 = 10.0;

/// Less time between measurements says nothing of the skew.
const BASE_NS: f64 = 5e9;

/// One answer: when, the other clock less ours, and how long it took. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// On our clock, amid the exchange.
    pub(super) at: u64,
    offset: f64,
    pub(super) round_trip: u64,
    /// How long they held it, by their clock.
    held: u64,
}

impl Measured {
    /// `None` if the times cannot be.
    pub(super) fn new([t1, t2, t3, t4]: [u64; 4]) -> Option<Self> {
        let (ours, theirs) = (t4.checked_sub(t1)?, t3.checked_sub(t2)?);
        // Their clock may run a little faster than ours.
        let held = theirs as f64 * (1.0 - SKEW_MAX);
        if held > ours as f64 {
            return None;
        }
        let there = t2 as f64 - t1 as f64;
        let back = t3 as f64 - t4 as f64;
        Some(Self {
            at: t1 + ours / 2,
            offset: f64::midpoint(there, back),
            round_trip: ours.saturating_sub(theirs),
            held: theirs,
        })
    }

    /// The offset is wrong by no more than this: half of the round trip, and what the
    /// clocks drift apart meanwhile.
    fn bound(&self) -> f64 {
        let half = self.round_trip as f64 / 2.0;
        let drift = SKEW_MAX * (self.round_trip + 2 * self.held) as f64;
        half + drift + ROUNDED_NS
    }
}

/// `offset + skew × (t − at)`, on our clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    at: f64,
    offset: f64,
    pub(super) skew: f64,
    /// Where the line is bounded, the earlier place first.
    bounds: [Bound; 2],
}

/// A place where the truth is near a line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    /// On our clock, in nanoseconds.
    at: f64,
    /// How far from the line the truth may be there, in nanoseconds.
    error: f64,
}

impl Line {
    /// The line of least squares, where a measurement with half the delay above the
    /// quickest counts four times; flat while there is little time to see a skew in.
    pub(super) fn through(measured: &(impl Iterator<Item = Measured> + Clone)) -> Option<Self> {
        let quickest = measured.clone().map(|it| it.round_trip).min()?;
        let weight = |it: &Measured| {
            let more = (it.round_trip - quickest) as f64 / 2.0 + ALIKE_NS;
            more.powi(-2)
        };
        let sum = |of: &dyn Fn(&Measured) -> f64| -> f64 {
            measured.clone().map(|it| weight(&it) * of(&it)).sum()
        };
        let all = sum(&|_| 1.0);
        let at = sum(&|it| it.at as f64) / all;
        let offset = sum(&|it| it.offset) / all;
        let spread = sum(&|it| (it.at as f64 - at).powi(2));
        let along = sum(&|it| (it.at as f64 - at) * (it.offset - offset));
        let ends = || measured.clone().map(|it| it.at as f64);
        let first = ends().fold(f64::INFINITY, f64::min);
        let last = ends().fold(f64::NEG_INFINITY, f64::max);
        let skew = if last - first < BASE_NS {
            0.0
        } else {
            (along / spread).clamp(-SKEW_MAX, SKEW_MAX)
        };
        let mut line = Self {
            at,
            offset,
            skew,
            bounds: [Bound { at, error: 0.0 }; 2],
        };
        line.bounds = line.bounded(measured, [first, last])?;
        Some(line)
    }

    /// Where the truth is near a measurement, and this line is, too: one of the earlier
    /// half and one of the later, each the best for the end of its half.
    fn bounded(
        &self,
        measured: &(impl Iterator<Item = Measured> + Clone),
        ends: [f64; 2],
    ) -> Option<[Bound; 2]> {
        let middle = f64::midpoint(ends[0], ends[1]);
        let bound = |it: Measured| {
            let at = it.at as f64;
            let error = it.bound() + (it.offset - self.offset(at)).abs();
            Bound { at, error }
        };
        let best = |is_late: bool| {
            let end = ends[usize::from(is_late)];
            let there = |it: &Bound| it.error + SKEW_MAX * (end - it.at).abs();
            let half = measured.clone().map(bound);
            let half = half.filter(|it| (it.at > middle) == is_late);
            half.min_by(|a, b| there(a).total_cmp(&there(b)))
        };
        let early = best(false)?;
        Some([early, best(true).unwrap_or(early)])
    }

    pub(super) fn offset(&self, at: f64) -> f64 {
        self.offset + self.skew * (at - self.at)
    }

    /// What our clock said when theirs said `remote`.
    pub(super) fn local(&self, remote: u64) -> f64 {
        // remote = local + offset(local), solved for local.
        let beyond = remote as f64 - self.offset - self.at;
        self.at + beyond / (1.0 + self.skew)
    }

    /// Truth and line are both straight: between two places they are no further apart
    /// than at the worse of them; beyond, they part as fast as these allow, or the
    /// skews.
    pub(super) fn error(&self, at: f64) -> f64 {
        let [early, late] = self.bounds;
        let apart = (early.error + late.error) / (late.at - early.at).max(1.0);
        let rate = apart.min(self.skew.abs() + SKEW_MAX);
        let near = if at < early.at { early } else { late };
        match at {
            at if (early.at..=late.at).contains(&at) => early.error.max(late.error),
            at => near.error + rate * (at - near.at).abs(),
        }
    }
}
