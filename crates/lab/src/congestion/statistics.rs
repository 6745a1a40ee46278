//! Percentiles over a population, with confidence intervals.
//!
//! Every arm runs the same sessions, so arms are compared by resampling sessions. The bootstrap
//! is paired for that reason, and stratified because the population's strata have fixed shares
//! (Efron and Tibshirani 1993, chapters 6 and 14).

use glassline_sim::Rng;

/// Number of bootstrap resamples.
pub const RESAMPLES: usize = 2_000;

/// Share of the resamples that an interval excludes on each side.
const TAIL: f64 = 0.025;

/// The sessions of a population by index: stratum and weight of each.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Indices of the sessions of each stratum.
    strata: Vec<Vec<usize>>,
    weights: Vec<f64>,
}

impl Sample {
    /// Builds a sample from each session's stratum (from 0) and weight (above 0).
    pub fn new(sessions: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut sample = Self::default();
        for (number, (stratum, weight)) in sessions.into_iter().enumerate() {
            if sample.strata.len() <= stratum {
                sample.strata.resize(stratum + 1, Vec::new());
            }
            sample.strata[stratum].push(number);
            sample.weights.push(weight);
        }
        sample
    }

    /// Returns the number of sessions.
    pub const fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is no session.
    pub const fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Weight of each session.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Draws sessions with replacement, as many from each stratum as it has, and writes their
    /// weights.
    fn draw(&self, rng: &mut Rng, weights: &mut Vec<f64>) {
        weights.clear();
        weights.resize(self.len(), 0.0);
        for stratum in &self.strata {
            for _ in stratum {
                let place = rng.unit() * stratum.len() as f64;
                let session = stratum[(place as usize).min(stratum.len() - 1)];
                weights[session] += self.weights[session];
            }
        }
    }
}

/// One figure of every session, sorted for percentiles under any weights.
#[derive(Clone, Debug)]
pub struct Ranked {
    values: Vec<f64>,
    /// Indices of the sessions by ascending value.
    order: Vec<u32>,
}

impl Ranked {
    /// Sorts `values`, which are in order of session; none may be NaN.
    pub fn new(values: Vec<f64>) -> Self {
        let sessions = u32::try_from(values.len()).expect("fewer than 2³² sessions");
        let mut order: Vec<u32> = (0..sessions).collect();
        order.sort_by(|a, b| values[*a as usize].total_cmp(&values[*b as usize]));
        Self { values, order }
    }

    /// The values, in order of session.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// For each of `shares` (0–1, ascending), the least value that this share of the weight does
    /// not exceed; NaN without weight.
    pub fn percentiles(&self, weights: &[f64], shares: &[f64], into: &mut Vec<f64>) {
        into.clear();
        let total: f64 = weights.iter().sum();
        let mut reached = 0.0;
        let mut wanted = shares.iter().map(|share| share * total).peekable();
        for session in &self.order {
            let session = *session as usize;
            reached += weights[session];
            while weights[session] > 0.0 && wanted.next_if(|want| reached >= want - 1e-9).is_some()
            {
                into.push(self.values[session]);
            }
        }
        into.resize(shares.len(), f64::NAN);
    }

    /// The weighted mean; NaN without weight.
    pub fn mean(&self, weights: &[f64]) -> f64 {
        let weighted = self.values.iter().zip(weights).map(|(value, w)| value * w);
        weighted.sum::<f64>() / weights.iter().sum::<f64>()
    }
}

/// One arm's percentile, compared with another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The arm's value divided by the base's; NaN if the base's is zero.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub ci95: (f64, f64),
    /// The arm's value less the base's, for cases in which a ratio says nothing.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub difference_ci95: (f64, f64),
    /// Two-sided p-value: how likely a ratio as far from 1 as this is by the choice of sessions
    /// alone. Not corrected for multiple comparisons.
    pub p_value: f64,
}

/// Compares `arm` with `base` at each of `shares`, paired by session.
pub fn compare(
    sample: &Sample,
    arm: &Ranked,
    base: &Ranked,
    shares: &[f64],
    seed: u64,
) -> Vec<Comparison> {
    let mut rng = Rng::new(seed);
    let mut weights = Vec::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut drawn = vec![Vec::with_capacity(RESAMPLES); shares.len()];
    for _ in 0..RESAMPLES {
        sample.draw(&mut rng, &mut weights);
        arm.percentiles(&weights, shares, &mut ours);
        base.percentiles(&weights, shares, &mut theirs);
        for ((drawn, ours), theirs) in drawn.iter_mut().zip(&ours).zip(&theirs) {
            drawn.push((*ours, *theirs));
        }
    }
    arm.percentiles(sample.weights(), shares, &mut ours);
    base.percentiles(sample.weights(), shares, &mut theirs);
    let values = ours.into_iter().zip(theirs).zip(&drawn);
    values
        .map(|((ours, theirs), drawn)| Comparison::new(ours, theirs, drawn))
        .collect()
}

/// Compares the means of `arm` and `base`, paired by session; all sessions have the same weight.
pub fn compare_means(arm: &[f64], base: &[f64], seed: u64) -> Comparison {
    let sample = Sample::new(arm.iter().map(|_| (0, 1.0)));
    let (arm, base) = (Ranked::new(arm.to_vec()), Ranked::new(base.to_vec()));
    let mut rng = Rng::new(seed);
    let mut weights = Vec::new();
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        sample.draw(&mut rng, &mut weights);
        drawn.push((arm.mean(&weights), base.mean(&weights)));
    }
    let whole = sample.weights();
    Comparison::new(arm.mean(whole), base.mean(whole), &drawn)
}

impl Comparison {
    /// Builds the comparison from the values themselves and those of each resample.
    fn new(ours: f64, theirs: f64, drawn: &[(f64, f64)]) -> Self {
        let ratios: Vec<f64> = drawn.iter().map(|(a, b)| ratio(*a, *b)).collect();
        let differences = drawn.iter().map(|(a, b)| a - b).collect();
        Self {
            ratio: ratio(ours, theirs),
            p_value: two_sided(&ratios),
            ci95: interval(ratios),
            difference: ours - theirs,
            difference_ci95: interval(differences),
        }
    }
}

/// The ratio of the two; 1 if both are zero.
fn ratio(ours: f64, theirs: f64) -> f64 {
    if ours == 0.0 && theirs == 0.0 {
        return 1.0;
    }
    let ratio = ours / theirs;
    if ratio.is_finite() { ratio } else { f64::NAN }
}

fn interval(mut values: Vec<f64>) -> (f64, f64) {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return (f64::NAN, f64::NAN);
    };
    let at = |share: f64| values[(last as f64 * share).round() as usize];
    (at(TAIL), at(1.0 - TAIL))
}

/// Twice the share of resamples on the far side of 1, with one added on each side (Davison and
/// Hinkley 1997, §4.2).
fn two_sided(ratios: &[f64]) -> f64 {
    let known = || ratios.iter().filter(|ratio| !ratio.is_nan());
    let of = known().count() as f64 + 1.0;
    let below = known().filter(|ratio| **ratio <= 1.0).count() as f64 + 1.0;
    let above = known().filter(|ratio| **ratio >= 1.0).count() as f64 + 1.0;
    (2.0 * below.min(above) / of).min(1.0)
}

/// Adjusts p-values for multiple comparisons (Holm 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        let tests_left = (p_values.len() - rank) as f64;
        largest = largest.max((p_values[place] * tests_left).min(1.0));
        corrected[place] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(sessions: usize) -> Sample {
        Sample::new((0..sessions).map(|_| (0, 1.0)))
    }

    fn at(ranked: &Ranked, weights: &[f64], shares: &[f64]) -> Vec<f64> {
        let mut into = Vec::new();
        ranked.percentiles(weights, shares, &mut into);
        into
    }

    #[test]
    fn percentiles_are_of_the_weight_not_of_the_count() {
        let ranked = Ranked::new(vec![30.0, 10.0, 20.0, 40.0]);
        let even = at(&ranked, &[1.0; 4], &[0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(even, [10.0, 10.0, 20.0, 30.0, 40.0]);
        let heavy = at(&ranked, &[1.0, 1.0, 1.0, 7.0], &[0.1, 0.5]);
        assert_eq!(heavy, [10.0, 40.0]);
        let absent = at(&ranked, &[1.0, 0.0, 1.0, 0.0], &[0.1, 1.0]);
        assert_eq!(absent, [20.0, 30.0]);
        assert!(at(&ranked, &[0.0; 4], &[0.5])[0].is_nan());
        assert_eq!(ranked.mean(&[1.0, 1.0, 0.0, 0.0]), 20.0);
    }

    #[test]
    fn a_difference_of_all_sessions_is_certain_and_one_by_luck_is_not() {
        let mut rng = Rng::new(5);
        let base: Vec<f64> = (0..400).map(|_| 50.0 + 100.0 * rng.unit()).collect();
        let better = base.iter().map(|value| value * 0.8).collect();
        let shuffled = (0..400).map(|_| 50.0 + 100.0 * rng.unit()).collect();
        let (base, better) = (Ranked::new(base), Ranked::new(better));
        let shares = [0.5, 0.9];
        for found in compare(&flat(400), &better, &base, &shares, 1) {
            assert!((found.ratio - 0.8).abs() < 1e-9, "{found:?}");
            // Sessions are paired, so nothing is left to chance.
            assert!(found.ci95.1 - found.ci95.0 < 1e-9, "{found:?}");
            assert!(found.p_value < 0.002 && found.difference < 0.0, "{found:?}");
        }
        for found in compare(&flat(400), &Ranked::new(shuffled), &base, &shares, 1) {
            assert!(found.ci95.0 < 1.0 && found.ci95.1 > 1.0, "{found:?}");
            assert!(found.p_value > 0.05, "{found:?}");
        }
    }

    #[test]
    fn intervals_hold_what_they_promise() {
        // The true median of 100 draws from a uniform distribution over 0..2 is 1. 95 % intervals
        // against a constant must contain it about that often.
        let base = Ranked::new(vec![1.0; 100]);
        let mut held = 0;
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let drawn = (0..100).map(|_| 2.0 * rng.unit()).collect();
            let found = compare(&flat(100), &Ranked::new(drawn), &base, &[0.5], seed)[0];
            held += u32::from(found.ci95.0 <= 1.0 && 1.0 <= found.ci95.1);
        }
        assert!((88..=100).contains(&held), "{held}");
    }

    #[test]
    fn strata_keep_their_share_in_every_draw() {
        let sample = Sample::new((0..100).map(|session| (usize::from(session < 10), 1.0)));
        let mut weights = Vec::new();
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            sample.draw(&mut rng, &mut weights);
            assert_eq!(weights[..10].iter().sum::<f64>(), 10.0);
            assert_eq!(weights.iter().sum::<f64>(), 100.0);
        }
    }

    #[test]
    fn nothing_against_nothing_is_the_same_and_something_has_no_ratio() {
        let zero = || Ranked::new(vec![0.0; 10]);
        let found = compare(&flat(10), &zero(), &zero(), &[0.5], 1)[0];
        assert_eq!(
            (found.ratio, found.ci95, found.p_value),
            (1.0, (1.0, 1.0), 1.0)
        );
        let found = compare(&flat(10), &Ranked::new(vec![2.0; 10]), &zero(), &[0.5], 1)[0];
        assert!(found.ratio.is_nan() && found.ci95.0.is_nan());
        assert_eq!((found.difference, found.difference_ci95), (2.0, (2.0, 2.0)));
    }

    #[test]
    fn many_looks_need_stronger_evidence() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (found, expected) in corrected.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
