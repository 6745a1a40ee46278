//! Linear fit through clock measurements, with a bound on its error.

use super::SKEW_MAX_PPM;

/// [`SKEW_MAX_PPM`] as a ratio.
const SKEW_MAX: f64 = SKEW_MAX_PPM / 1e6;

/// Difference of round trips, in ns, that sockets and threads cause; smaller ones count as
/// equal.
const ALIKE_NS: f64 = 20_000.0;

/// Error from rounding stamps to whole ns, in ns.
const ROUNDED_NS: f64 = 10.0;

/// Least time between the first and last measurement, in ns, for which a skew is estimated.
const BASE_NS: f64 = 5e9;

/// One measurement: one request and its response. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    /// Middle of the exchange, on our clock.
    pub(super) at: u64,
    /// The other clock minus ours.
    offset: f64,
    pub(super) round_trip: u64,
    /// Time that the other end held the request, on its clock.
    held: u64,
}

impl Measurement {
    /// Makes a measurement of the four stamps; `None` if they contradict each other.
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

    /// Largest error of the offset, in ns: half of the round trip, and the drift of the
    /// clocks meanwhile.
    fn bound(&self) -> f64 {
        let half = self.round_trip as f64 / 2.0;
        let drift = SKEW_MAX * (self.round_trip + 2 * self.held) as f64;
        half + drift + ROUNDED_NS
    }
}

/// Linear model of the other clock's offset: `offset + skew × (t − at)`, in ns on our clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinearFit {
    at: f64,
    offset: f64,
    pub(super) skew: f64,
    /// Two places at which the error is bounded, the earlier first.
    bounds: [Bound; 2],
}

/// A bound on the model's error at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    /// Time on our clock, in ns.
    at: f64,
    /// Largest error of the model there, in ns.
    error: f64,
}

impl LinearFit {
    /// Weighted least squares fit, in which a measurement with half the delay above the
    /// quickest counts four times. Flat while too little time has passed to see a skew.
    pub(super) fn through(measured: &(impl Iterator<Item = Measurement> + Clone)) -> Option<Self> {
        let quickest = measured.clone().map(|it| it.round_trip).min()?;
        let weight = |it: &Measurement| {
            let more = (it.round_trip - quickest) as f64 / 2.0 + ALIKE_NS;
            more.powi(-2)
        };
        let sum = |of: &dyn Fn(&Measurement) -> f64| -> f64 {
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
        let mut fit = Self {
            at,
            offset,
            skew,
            bounds: [Bound { at, error: 0.0 }; 2],
        };
        fit.bounds = fit.bounded(measured, [first, last])?;
        Some(fit)
    }

    /// Finds the best measurement of the earlier half and of the later half, each for the end
    /// of its half, and bounds the model's error there.
    fn bounded(
        &self,
        measured: &(impl Iterator<Item = Measurement> + Clone),
        ends: [f64; 2],
    ) -> Option<[Bound; 2]> {
        let middle = f64::midpoint(ends[0], ends[1]);
        let bound = |it: Measurement| {
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

    /// The other clock minus ours at `at`, in ns.
    pub(super) fn offset(&self, at: f64) -> f64 {
        self.offset + self.skew * (at - self.at)
    }

    /// Our clock's time when the other clock showed `remote`, in ns.
    pub(super) fn local(&self, remote: u64) -> f64 {
        // remote = local + offset(local), solved for local.
        let beyond = remote as f64 - self.offset - self.at;
        self.at + beyond / (1.0 + self.skew)
    }

    /// Largest error of the model at `at`, in ns. Model and truth are both straight lines:
    /// between the two bounds they differ by at most the larger bound; beyond, the difference
    /// grows as fast as the bounds or the skews allow.
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
