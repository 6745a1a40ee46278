//! Families of delays: models of what a path does to packets, drawn from a seed.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::Rng;

/// A kind of path.
///
/// All but [`Self::Clean`] and [`Self::Spikes`] have the delays that a study of a voice
/// call counted on its network (27,111 packets, mean 20 ms, one in 500 above 100 ms). The
/// study says how often each delay occurred, not in which order: the families differ in how
/// long a delay lasts. Under `Ar98`, a model of NetEq waits as long as the study measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Family {
    /// Slow swings: correlation 0.98 from one 20 ms packet to the next.
    Ar98,
    /// Fast swings: correlation 0.90 from one 20 ms packet to the next.
    Ar90,
    /// Four fifths of the variance swing slowly, one fifth is noise.
    Mixed,
    /// Independent delays; packets overtake each other.
    Independent,
    /// 20 ms with a standard deviation of 0.7 ms, within 16 to 24 ms.
    Clean,
    /// Like `Clean`, but every few seconds all that is sent for 40 to 250 ms comes at once,
    /// as from a radio that scans or a sender that sleeps.
    Spikes,
}

impl Family {
    /// All families, as error texts list them.
    pub const ALL: [Self; 6] = [
        Self::Ar98,
        Self::Ar90,
        Self::Mixed,
        Self::Independent,
        Self::Clean,
        Self::Spikes,
    ];

    /// Returns the family's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ar98 => "ar98",
            Self::Ar90 => "ar90",
            Self::Mixed => "mixed",
            Self::Independent => "iid",
            Self::Clean => "clean",
            Self::Spikes => "spikes",
        }
    }
}

/// The name of a family is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown delay family '{0}'; choose one of ar98, ar90, mixed, iid, clean, spikes")]
pub struct UnknownFamily(String);

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        let named = Self::ALL.into_iter().find(|it| it.name() == name);
        named.ok_or_else(|| UnknownFamily(name.to_owned()))
    }
}

/// A bin of a histogram of delays.
#[derive(Clone, Copy, Debug)]
struct Bin {
    /// Upper edge in ms; the lower edge is that of the bin before.
    edge_ms: f64,
    /// Packets in the bin.
    packets: f64,
}

/// Returns a bin that ends at `edge_ms` and has the share `packets`.
const fn bin(edge_ms: f64, packets: f64) -> Bin {
    Bin { edge_ms, packets }
}

/// Histogram of the study's network delays. The last bin is open; hardly anything in the
/// study waited longer than 200 ms.
const STUDY: [Bin; 8] = [
    bin(5.0, 132.0),
    bin(10.0, 5408.0),
    bin(15.0, 7362.0),
    bin(20.0, 4644.0),
    bin(35.0, 6650.0),
    bin(60.0, 2476.0),
    bin(100.0, 382.0),
    bin(200.0, 57.0),
];

/// Interval that the correlations of the families refer to.
const STEP: Duration = Duration::from_millis(20);

/// Returns the delays of `count` packets, sent `interval` apart.
pub(super) fn draw(
    family: Family,
    seed: u64,
    count: usize,
    interval: Duration,
) -> Vec<Option<Duration>> {
    let count = count.clamp(1, super::Delays::PACKETS_MAX);
    let mut rng = Rng::new(seed).fork(family as u64);
    let ms = match family {
        Family::Clean => clean(&mut rng, count),
        Family::Spikes => spikes(&mut rng, count, interval),
        _ => {
            let normal = copula(family, &rng, count, interval);
            normal.map(|z| study_quantile(normal_share(z))).collect()
        }
    };
    let ms = match family {
        Family::Independent => ms,
        _ => in_order(ms, interval),
    };
    let delay = |ms: f64| Some(Duration::from_micros((ms * 1e3).round() as u64));
    ms.into_iter().map(delay).collect()
}

/// Returns standard normal numbers with the family's correlation.
fn copula(
    family: Family,
    rng: &Rng,
    count: usize,
    interval: Duration,
) -> impl Iterator<Item = f64> + use<> {
    let (slow_share, per_step): (f64, f64) = match family {
        Family::Ar98 => (1.0, 0.98),
        Family::Ar90 => (1.0, 0.90),
        Family::Mixed => (0.8, 0.98),
        _ => (0.0, 0.0),
    };
    let steps = interval.as_secs_f64() / STEP.as_secs_f64();
    let rho = per_step.powf(steps.max(1e-6));
    let (mut swings, mut noise) = (rng.fork(1), rng.fork(2));
    let mut slow = normal(&mut swings);
    (0..count).map(move |_| {
        slow = rho * slow + (1.0 - rho * rho).sqrt() * normal(&mut swings);
        slow_share.sqrt() * slow + (1.0 - slow_share).sqrt() * normal(&mut noise)
    })
}

/// Returns delays of [`Family::Clean`], in ms.
fn clean(rng: &mut Rng, count: usize) -> Vec<f64> {
    let delay = |_| (20.0 + 0.7 * normal(rng)).clamp(16.0, 24.0);
    (0..count).map(delay).collect()
}

/// Returns delays of [`Family::Spikes`], in ms.
fn spikes(rng: &mut Rng, count: usize, interval: Duration) -> Vec<f64> {
    let base = clean(rng, count);
    let mut rng = rng.fork(3);
    let interval = interval.as_secs_f64() * 1e3;
    let mut next = 0.0;
    let mut until = 0.0;
    let held = base.into_iter().enumerate().map(|(index, delay)| {
        let sent = index as f64 * interval;
        if sent >= next {
            until = sent + 40.0 + 210.0 * rng.unit();
            // Exponentially distributed, with a mean of 4 s.
            next = until - 4000.0 * (1.0 - rng.unit()).ln();
        }
        delay.max(until - sent)
    });
    held.collect()
}

/// Delays packets that would overtake others, as on a path that keeps the order.
fn in_order(ms: Vec<f64>, interval: Duration) -> Vec<f64> {
    let interval = interval.as_secs_f64() * 1e3;
    let mut last = f64::NEG_INFINITY;
    let delays = ms.into_iter().enumerate().map(|(index, delay)| {
        let sent = index as f64 * interval;
        last = last.max(sent + delay);
        last - sent
    });
    delays.collect()
}

/// Returns a standard normal number, made of two uniform ones (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

/// Returns the normal distribution function at `z` (Abramowitz and Stegun, 7.1.26: to
/// 1e-7).
fn normal_share(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = series.into_iter().fold(0.0, |sum, term| (sum + term) * t);
    let upper = 0.5 * sum * (-x * x).exp();
    if z > 0.0 { 1.0 - upper } else { upper }
}

/// Returns the delay in ms that a `share` of the study's packets did not exceed; even
/// within a bin.
fn study_quantile(share: f64) -> f64 {
    let all: f64 = STUDY.iter().map(|bin| bin.packets).sum();
    let mut left = share.clamp(0.0, 1.0) * all;
    let mut low = 0.0;
    for Bin { edge_ms, packets } in STUDY {
        if left <= packets {
            return low + (edge_ms - low) * left / packets;
        }
        left -= packets;
        low = edge_ms;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(20);

    fn ms(family: Family, seed: u64, count: usize) -> Vec<f64> {
        let drawn = draw(family, seed, count, INTERVAL);
        let ms = drawn.iter().flatten().map(|it| it.as_secs_f64() * 1e3);
        ms.collect()
    }

    fn correlation(values: &[f64], lag: usize) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let product = |a: f64, b: f64| (a - mean) * (b - mean);
        let pairs = values.iter().zip(&values[lag..]);
        let together: f64 = pairs.map(|(a, b)| product(*a, *b)).sum();
        together / values.iter().map(|a| product(*a, *a)).sum::<f64>()
    }

    #[test]
    fn delays_are_as_often_as_the_study_counted() {
        let all: f64 = STUDY.iter().map(|bin| bin.packets).sum();
        assert_eq!(all, 27_111.0);
        let drawn = ms(Family::Independent, 5, 200_000);
        let mut low = 0.0;
        for Bin { edge_ms, packets } in STUDY {
            let within = drawn
                .iter()
                .filter(|it| **it > low && **it <= edge_ms)
                .count();
            let (share, wanted) = (within as f64 / drawn.len() as f64, packets / all);
            let error = 5.0 * (wanted / drawn.len() as f64).sqrt();
            assert!(
                (share - wanted).abs() < error,
                "({low}-{edge_ms}]: {share} instead of {wanted}"
            );
            low = edge_ms;
        }
    }

    #[test]
    fn families_swing_as_fast_as_they_say() {
        for (family, wanted) in [
            (Family::Ar98, 0.98),
            (Family::Ar90, 0.90),
            (Family::Mixed, 0.784),
            (Family::Independent, 0.0),
        ] {
            let z: Vec<f64> = copula(family, &Rng::new(9), 100_000, INTERVAL).collect();
            let found = correlation(&z, 1);
            assert!((found - wanted).abs() < 0.02, "{family}: {found}");
            let power = z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64;
            assert!((power - 1.0).abs() < 0.15, "{family}: {power}");
        }
        // The same path, sampled twice as often.
        let half = copula(Family::Ar90, &Rng::new(9), 100_000, INTERVAL / 2);
        let half: Vec<f64> = half.collect();
        assert!((correlation(&half, 2) - 0.90).abs() < 0.02);
    }

    #[test]
    fn only_the_independent_family_reorders() {
        for family in Family::ALL {
            let delays = ms(family, 2, 20_000);
            let arrivals = delays
                .iter()
                .enumerate()
                .map(|(i, it)| i as f64 * 20.0 + it);
            let arrivals: Vec<f64> = arrivals.collect();
            // Rounded to a microsecond.
            let is_ordered = arrivals.is_sorted_by(|a, b| *a <= b + 0.0011);
            assert_eq!(is_ordered, family != Family::Independent, "{family}");
        }
    }

    #[test]
    fn a_clean_path_stays_within_a_few_milliseconds_and_spikes_leave_it() {
        let clean = ms(Family::Clean, 1, 50_000);
        assert!(clean.iter().all(|it| (16.0..=24.0).contains(it)));
        let spiky = ms(Family::Spikes, 1, 50_000);
        let held = spiky.iter().filter(|it| **it > 30.0).count() as f64 / 50_000.0;
        // 145 ms every 4.1 s, less the last 30 ms of each.
        assert!((0.02..0.04).contains(&held), "{held}");
        assert!(spiky.iter().all(|it| *it <= 271.0));
    }

    #[test]
    fn seeds_and_families_differ_and_repeat() {
        assert_eq!(ms(Family::Ar98, 4, 500), ms(Family::Ar98, 4, 500));
        assert_ne!(ms(Family::Ar98, 4, 500), ms(Family::Ar98, 5, 500));
        for family in Family::ALL {
            assert_eq!(family.name().parse(), Ok(family));
        }
        let error = "ar99".parse::<Family>().expect_err("none");
        for family in Family::ALL {
            assert!(error.to_string().contains(family.name()), "{error}");
        }
    }

    #[test]
    fn the_normal_distribution_is_right_in_its_tails() {
        for (z, wanted) in [
            (0.0, 0.5),
            (1.644_854, 0.95),
            (2.866, 0.997_92),
            (-3.09, 0.001),
        ] {
            let found = normal_share(z);
            assert!((found - wanted).abs() < 2e-5, "{z}: {found}");
        }
        assert_eq!(study_quantile(1.0), 200.0);
        assert_eq!(study_quantile(0.0), 0.0);
    }
}
