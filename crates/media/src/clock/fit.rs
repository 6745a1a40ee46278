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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    /// A measurement at `at_ms` whose round trip takes `trip_ms`, of a clock that is
    /// `offset_us` ahead.
    fn measured(at_ms: u64, trip_ms: u64, offset_us: u64) -> Measurement {
        let [at, half] = [at_ms * MS, trip_ms * MS / 2];
        let theirs = at + offset_us * 1_000;
        let stamps = [at - half, theirs, theirs, at + half];
        Measurement::new(stamps).expect("they agree")
    }

    #[test]
    fn a_measurement_is_the_middle_of_an_exchange() {
        // 10 ms there, 2 ms held, 4 ms back, and a clock that is 100 ms ahead.
        let [t1, t2, t3, t4] = [1_000, 1_110, 1_112, 1_016].map(|it| it * MS);
        let it = Measurement::new([t1, t2, t3, t4]).expect("they agree");
        assert_eq!(
            (it.at, it.round_trip, it.held),
            (1_008 * MS, 14 * MS, 2 * MS)
        );
        // Half of the difference of both ways is an error that nobody sees.
        assert!(
            (it.offset - 103.0 * MS as f64).abs() < 1e-3,
            "{}",
            it.offset
        );
        // 7 ms, and what clocks drift in 14 and twice 2 ms at 500 ppm.
        let bound = 7e6 + 500e-6 * 18e6 + 10.0;
        assert!((it.bound() - bound).abs() < 1e-3, "{}", it.bound());
        // Held for as long as a quick clock may show, and for longer.
        let held = |ns: u64| Measurement::new([0, 0, ns, SECOND]).is_some();
        assert!(held(SECOND) && held(1_000_500_000) && !held(1_000_600_000));
        assert_eq!(Measurement::new([1, 0, 0, 0]), None);
        assert_eq!(Measurement::new([0, 1, 0, 0]), None);
    }

    #[test]
    fn the_fit_is_that_of_weighted_least_squares() {
        let all = [
            measured(1_000, 10, 5_000),
            measured(3_000, 12, 5_300),
            measured(6_000, 20, 5_500),
            measured(9_000, 10, 6_700),
        ];
        // Weights by half of what is above the quickest, and 20 µs; written out.
        let weights = [10.0, 12.0, 20.0, 10.0].map(|trip: f64| {
            let above = (trip - 10.0) * 1e6 / 2.0 + 20_000.0;
            1.0 / (above * above)
        });
        let points = [(1e9, 5e6), (3e9, 5.3e6), (6e9, 5.5e6), (9e9, 6.7e6)];
        let pairs = || weights.iter().zip(points);
        let total: f64 = weights.iter().sum();
        let x = pairs().map(|(w, p)| w * p.0).sum::<f64>() / total;
        let y = pairs().map(|(w, p)| w * p.1).sum::<f64>() / total;
        let along: f64 = pairs().map(|(w, p)| w * (p.0 - x) * (p.1 - y)).sum();
        let spread: f64 = pairs().map(|(w, p)| w * (p.0 - x) * (p.0 - x)).sum();
        let fit = LinearFit::through(&all.into_iter()).expect("four");
        assert!(
            (fit.at - x).abs() < 1.0 && (fit.offset - y).abs() < 1.0,
            "{fit:?}"
        );
        assert!((fit.skew - along / spread).abs() < 1e-9, "{fit:?}");
        assert!(
            (fit.skew - 212e-6).abs() < 5e-6,
            "mostly by the two quickest"
        );
        for at in [0.0, x, 2e10] {
            let offset = y + fit.skew * (at - x);
            assert!((fit.offset(at) - offset).abs() < 1.0);
            // Ours from theirs, and theirs from ours.
            let local = fit.local((at + offset) as u64);
            assert!((local - at).abs() < 5.0, "{at}: {local}");
        }
        assert!(LinearFit::through(&std::iter::empty()).is_none());
    }

    #[test]
    fn a_skew_takes_five_seconds_to_be_seen_and_500_ppm_at_most() {
        let skew = |last_ms, offset_us| {
            let all = [measured(1_000, 10, 5_000), measured(last_ms, 10, offset_us)];
            let fit = LinearFit::through(&all.into_iter()).expect("two");
            fit.skew * 1e6
        };
        assert_eq!(skew(5_999, 6_000), 0.0);
        assert!((skew(6_000, 6_000) - 200.0).abs() < 1e-6, "1 ms in 5 s");
        assert!((skew(6_000, 4_000) + 200.0).abs() < 1e-6);
        assert!((skew(6_000, 9_000) - 500.0).abs() < 1e-6, "4 ms");
        assert!((skew(6_000, 1_000) + 500.0).abs() < 1e-6);
    }

    #[test]
    fn the_error_is_bounded_by_the_best_of_each_half() {
        // The line goes through all of them; the quick ones count.
        let all = [
            measured(1_000, 30, 5_000),
            measured(2_000, 10, 5_000),
            measured(9_000, 10, 5_000),
            measured(11_000, 60, 5_000),
        ];
        let fit = LinearFit::through(&all.into_iter()).expect("four");
        assert!(fit.skew.abs() < 1e-12);
        // Half of 10 ms, the drift in 10 ms, and the rounding.
        let bound = 5e6 + 500e-6 * 10e6 + 10.0;
        let [early, late] = fit.bounds;
        assert_eq!((early.at, late.at), (2e9, 9e9));
        for found in [early.error, late.error] {
            assert!((found - bound).abs() < 1.0, "{found}");
        }
        for at in [2e9, 5e9, 9e9] {
            assert!((fit.error(at) - bound).abs() < 1.0, "{at}");
        }
        // Beyond, by what the clocks may drift apart, which is less than the bounds allow.
        for (at, beyond) in [(1e9, 1e9), (0.0, 2e9), (10e9, 1e9), (29e9, 20e9)] {
            let wanted = bound + 500e-6 * beyond;
            assert!(
                (fit.error(at) - wanted).abs() < 1.0,
                "{at}: {}",
                fit.error(at)
            );
        }
        // Or by the bounds, if those are close to the line.
        let near = [measured(1_000, 2, 5_000), measured(11_000, 2, 5_000)];
        let fit = LinearFit::through(&near.into_iter()).expect("two");
        let bound = 1e6 + 500e-6 * 2e6 + 10.0;
        let rate = 2.0 * bound / 10e9;
        assert!(rate < 500e-6);
        let wanted = bound + rate * 1e9;
        assert!(
            (fit.error(12e9) - wanted).abs() < 1.0,
            "{}",
            fit.error(12e9)
        );
        // What lies beside the line counts, too: one alone of two at the same time.
        let one = [measured(1_000, 10, 5_000)];
        let fit = LinearFit::through(&one.into_iter()).expect("one");
        let [early, late] = fit.bounds;
        assert_eq!(early, late);
        let beside = [measured(1_000, 10, 5_000), measured(1_000, 10, 7_000)];
        let fit = LinearFit::through(&beside.into_iter()).expect("two");
        let bound = 5e6 + 500e-6 * 10e6 + 10.0 + 1e6;
        assert!((fit.bounds[0].error - bound).abs() < 1.0, "{fit:?}");
    }
}
