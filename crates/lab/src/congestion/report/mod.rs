//! Report of an experiment for tools ([`Report`] as JSON, [`csv()`]) and for people ([`table`],
//! [`svg`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::{Metric, Outcome};
use super::statistics::{self, Comparison, Ranked, Sample};
use crate::machine;

pub mod svg;
pub mod table;

/// The arm that all others are compared with.
pub const BASE: &str = "cubic";

/// Values by name, in alphabetical order.
pub type Named<T> = BTreeMap<String, T>;

/// Values by percentile, with keys like `P50`.
pub type Percentiles<T> = BTreeMap<String, T>;

/// Report of a run of `glassline bench congestion`, as `--json` writes it.
///
/// Percentiles are over sessions, with one value per session, as in the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the population.
    pub population: String,
    /// Version of the population.
    pub population_version: u32,
    /// Seed that decides which sessions were drawn.
    pub seed: u64,
    /// Whether sessions were drawn from the seeds that nothing is tuned on.
    pub held_out: bool,
    /// Number of sessions; each ran under every arm.
    pub sessions: usize,
    /// Virtual duration of each session, in seconds.
    pub duration_s: f64,
    /// Virtual seconds simulated per second of processor time; 0 where every session was known
    /// from a log.
    pub virtual_s_per_cpu_s: f64,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Machine that the run was made on.
    pub machine: machine::Description,
    /// Values by arm, metric and percentile.
    pub arms: Named<Named<Percentiles<f64>>>,
    /// Changes against [`BASE`] by arm, metric and percentile.
    pub versus_cubic: Named<Named<Percentiles<Change>>>,
    /// Figures of each stratum (kind of network).
    pub strata: Named<Stratum>,
    /// Figures of each arm that are no metrics.
    pub health: Named<Health>,
}

/// A percentile under one arm, compared with the same percentile under [`BASE`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The arm's value divided by the base's; absent if the base's is zero.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, by paired stratified bootstrap.
    pub ci95: Option<(f64, f64)>,
    /// The arm's value less the base's.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub difference_ci95: (f64, f64),
    /// For headlines: p-value, corrected for all headlines of all arms (Holm).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub p_holm: Option<f64>,
}

/// Figures of one stratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// Number of sessions in the stratum.
    pub sessions: usize,
    /// Share of the stratum in the population, 0–1.
    pub share: f64,
    /// Figures of each arm in the stratum.
    pub arms: Named<Means>,
}

/// Figures of one arm in one stratum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Means {
    /// Mean goodput, in Mbit/s.
    pub goodput_mbps: f64,
    /// Median round-trip time of the application's pings.
    pub app_rtt_ms: f64,
    /// Median round-trip time of the transport.
    pub transport_rtt_ms: f64,
    /// Median of the sessions' 95th percentiles of the queueing delay.
    pub queue_p95_ms: f64,
    /// Mean of the sessions' retransmission overhead, as a ratio to the bytes sent.
    pub rtx_overhead: f64,
    /// Goodput divided by [`BASE`]'s, with its 95 % interval; absent for the base itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub goodput_ratio: Option<(f64, f64, f64)>,
    /// Mean overhead less [`BASE`]'s, with its 95 % interval; absent for the base itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub rtx_difference: Option<(f64, f64, f64)>,
}

/// Counts and shares of one arm that are no percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Number of connections that were lost.
    pub died: usize,
    /// Number of sessions with pings that were never answered.
    pub censored: usize,
    /// Number of sessions whose policer dropped datagrams.
    pub policed: usize,
    /// Share of those sessions in which the controller detected the policer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub policed_found_ratio: Option<f64>,
    /// Share of those sessions in which the controller detected the policer within three seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub policed_found_3s_ratio: Option<f64>,
    /// Share of the sessions without a policer in which the controller detected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub policed_false_ratio: Option<f64>,
}

/// Description of a run, without its outcomes.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Name of the population from which sessions were drawn.
    pub population: String,
    /// Version of the population from which sessions were drawn.
    pub population_version: u32,
    /// Seed that decides which sessions were drawn.
    pub seed: u64,
    /// Whether sessions were drawn from the seeds that nothing is tuned on.
    pub held_out: bool,
    /// Virtual duration of each session, in seconds.
    pub duration_s: f64,
    /// Virtual seconds simulated per second of processor time; 0 where every session was known
    /// from a log.
    pub virtual_s_per_cpu_s: f64,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Share of each stratum in the population, 0–1. Strata of which more or fewer sessions ran
    /// are weighted by it.
    pub shares: Named<f64>,
}

/// The sessions that every arm has finished, by arm.
struct Table<'a> {
    arms: Vec<(&'a str, Vec<&'a Outcome>)>,
    strata: Vec<&'a str>,
    sample: Sample,
}

impl<'a> Table<'a> {
    /// Leaves out sessions that some arm has not finished, so that all arms are compared on the
    /// same sessions.
    fn new(outcomes: &'a [Outcome], shares: &Named<f64>) -> Self {
        let mut by_arm: BTreeMap<&str, BTreeMap<_, &Outcome>> = BTreeMap::new();
        for outcome in outcomes {
            let arm = by_arm.entry(&outcome.arm).or_default();
            arm.insert(outcome.session(), outcome);
        }
        let everywhere = |it: &&Outcome| {
            let session = it.session();
            by_arm.values().all(|arm| arm.contains_key(&session))
        };
        let first = by_arm.values().next();
        let sessions = first.into_iter().flat_map(|arm| arm.values().copied());
        let kept: Vec<&Outcome> = sessions.filter(everywhere).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in &kept {
            *counts.entry(&outcome.stratum).or_default() += 1;
        }
        let weights = weights(&counts, shares);
        let strata: Vec<&str> = counts.keys().copied().collect();
        let stratum_of = |it: &&Outcome| {
            let place = strata.binary_search(&it.stratum.as_str());
            let place = place.expect("all are listed");
            (place, weights[place])
        };
        let sample = Sample::new(kept.iter().map(stratum_of));
        let arms = by_arm.iter().map(|(name, arm)| {
            let outcomes = kept.iter().map(|it| arm[&it.session()]).collect();
            (*name, outcomes)
        });
        Self {
            arms: arms.collect(),
            strata,
            sample,
        }
    }

    /// Share of the stratum in the weight of all sessions that are kept.
    fn share(&self, stratum: &str) -> f64 {
        let first = self.arms.first().map(|(_, outcomes)| outcomes.as_slice());
        let weighed = first.unwrap_or_default().iter().zip(self.sample.weights());
        let of_it = weighed.filter(|(it, _)| it.stratum == stratum);
        let part: f64 = of_it.map(|(_, weight)| weight).sum();
        part / self.sample.weights().iter().sum::<f64>()
    }

    fn ranked(outcomes: &[&Outcome], metric: Metric) -> Ranked {
        Ranked::new(outcomes.iter().map(|it| metric.of(it)).collect())
    }

    fn base(&self) -> Option<&[&'a Outcome]> {
        let found = self.arms.iter().find(|(name, _)| *name == BASE);
        found.map(|(_, outcomes)| outcomes.as_slice())
    }
}

/// Weight of each session by stratum, so that strata have their shares; 1 where they have them
/// already, or where shares are unknown.
fn weights(counts: &BTreeMap<&str, usize>, shares: &Named<f64>) -> Vec<f64> {
    let total: usize = counts.values().sum();
    let known = counts.keys().filter_map(|name| shares.get(*name));
    let whole: f64 = known.sum();
    let weight = |(name, count): (&&str, &usize)| match shares.get(*name) {
        Some(share) if whole > 0.0 => share / whole * total as f64 / *count as f64,
        _ => 1.0,
    };
    counts.iter().map(weight).collect()
}

impl Report {
    /// Builds the report of all `outcomes`. Only sessions that every arm has finished count.
    pub fn new(about: About, outcomes: &[Outcome]) -> Self {
        let table = Table::new(outcomes, &about.shares);
        Self {
            population: about.population,
            population_version: about.population_version,
            seed: about.seed,
            held_out: about.held_out,
            sessions: table.sample.len(),
            duration_s: about.duration_s,
            virtual_s_per_cpu_s: about.virtual_s_per_cpu_s,
            started: about.started,
            version: about.version,
            machine: machine::describe(),
            arms: arms(&table),
            versus_cubic: versus_base(&table, about.seed),
            strata: strata(&table, about.seed),
            health: health(&table),
        }
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }
}

fn percentile_name(percentile: u32) -> String {
    format!("P{percentile}")
}

fn shares(percentiles: &[u32]) -> Vec<f64> {
    let share = |percentile: &u32| f64::from(*percentile) / 100.0;
    percentiles.iter().map(share).collect()
}

fn arms(table: &Table<'_>) -> Named<Named<Percentiles<f64>>> {
    let mut values = Vec::new();
    let mut metrics_of = |outcomes: &[&Outcome]| {
        let metric = |metric: Metric| {
            let ranked = Table::ranked(outcomes, metric);
            let percentiles = metric.percentiles();
            ranked.percentiles(table.sample.weights(), &shares(&percentiles), &mut values);
            let named = percentiles.into_iter().map(percentile_name);
            (
                metric.name().to_owned(),
                named.zip(values.clone()).collect(),
            )
        };
        Metric::ALL.into_iter().map(metric).collect()
    };
    let arm = |(name, outcomes): &(&str, Vec<&Outcome>)| ((*name).to_owned(), metrics_of(outcomes));
    table.arms.iter().map(arm).collect()
}

/// Change of every percentile of every metric, for every arm but the base.
fn versus_base(table: &Table<'_>, seed: u64) -> Named<Named<Percentiles<Change>>> {
    let Some(base) = table.base() else {
        return Named::new();
    };
    let mut found: Vec<(&str, Metric, u32, Comparison)> = Vec::new();
    for (arm, outcomes) in table.arms.iter().filter(|(name, _)| *name != BASE) {
        for metric in Metric::ALL {
            let percentiles = metric.percentiles();
            let compared = statistics::compare(
                &table.sample,
                &Table::ranked(outcomes, metric),
                &Table::ranked(base, metric),
                &shares(&percentiles),
                seed,
            );
            let named = percentiles.into_iter().zip(compared);
            found.extend(named.map(|(percentile, it)| (*arm, metric, percentile, it)));
        }
    }
    let is_headline = |metric: Metric, percentile: u32| metric.headlines().contains(&percentile);
    let headlines = found.iter().filter(|it| is_headline(it.1, it.2));
    let p_values: Vec<f64> = headlines.map(|it| it.3.p_value).collect();
    let mut corrected = statistics::holm(&p_values).into_iter();
    let mut versus: Named<Named<Percentiles<Change>>> = Named::new();
    for (arm, metric, percentile, comparison) in found {
        let p_holm = is_headline(metric, percentile)
            .then(|| corrected.next())
            .flatten();
        let metrics = versus.entry(arm.to_owned()).or_default();
        let percentiles = metrics.entry(metric.name().to_owned()).or_default();
        let change = Change::new(&comparison, p_holm);
        percentiles.insert(percentile_name(percentile), change);
    }
    versus
}

impl Change {
    fn new(found: &Comparison, p_holm: Option<f64>) -> Self {
        let is_known = !found.ratio.is_nan() && !found.ci95.0.is_nan();
        Self {
            ratio: is_known.then_some(found.ratio),
            ci95: is_known.then_some(found.ci95),
            difference: found.difference,
            difference_ci95: found.difference_ci95,
            p_holm,
        }
    }
}

fn strata(table: &Table<'_>, seed: u64) -> Named<Stratum> {
    let stratum = |name: &&str| {
        let of_it = |outcomes: &[&Outcome]| -> Vec<Outcome> {
            let of_it = outcomes.iter().filter(|it| it.stratum == **name);
            of_it.map(|it| (*it).clone()).collect()
        };
        let base = table.base().map(of_it);
        let mut sessions = 0;
        let arm = |(arm, outcomes): &(&str, Vec<&Outcome>)| {
            let outcomes = of_it(outcomes);
            sessions = outcomes.len();
            let base = base.as_deref().filter(|_| *arm != BASE);
            ((*arm).to_owned(), Means::new(&outcomes, base, seed))
        };
        let arms = table.arms.iter().map(arm).collect();
        let stratum = Stratum {
            sessions,
            share: table.share(name),
            arms,
        };
        ((*name).to_owned(), stratum)
    };
    table.strata.iter().map(stratum).collect()
}

impl Means {
    fn new(outcomes: &[Outcome], base: Option<&[Outcome]>, seed: u64) -> Self {
        let sample = Sample::new(outcomes.iter().map(|_| (0, 1.0)));
        let ranked = |of: &dyn Fn(&Outcome) -> f64| Ranked::new(outcomes.iter().map(of).collect());
        let mean = |of: &dyn Fn(&Outcome) -> f64| ranked(of).mean(sample.weights());
        let median = |of: &dyn Fn(&Outcome) -> f64| {
            let mut found = Vec::new();
            ranked(of).percentiles(sample.weights(), &[0.5], &mut found);
            found[0]
        };
        let compared = |metric: Metric| {
            let values = |outcomes: &[Outcome]| -> Vec<f64> {
                outcomes.iter().map(|it| metric.of(it)).collect()
            };
            base.map(|base| statistics::compare_means(&values(outcomes), &values(base), seed))
        };
        let (goodput, rtx) = (compared(Metric::Goodput), compared(Metric::RtxOverhead));
        Self {
            goodput_mbps: mean(&|it| it.goodput_mbps),
            app_rtt_ms: median(&|it| it.app_rtt_ms),
            transport_rtt_ms: median(&|it| it.transport_rtt_ms),
            queue_p95_ms: median(&|it| it.queue_p95_ms),
            rtx_overhead: mean(&|it| it.rtx_overhead),
            goodput_ratio: goodput.map(|it| (it.ratio, it.ci95.0, it.ci95.1)),
            rtx_difference: rtx
                .map(|it| (it.difference, it.difference_ci95.0, it.difference_ci95.1)),
        }
    }
}

fn health(table: &Table<'_>) -> Named<Health> {
    let share = |some: usize, of: usize| (of > 0).then(|| some as f64 / of as f64);
    let arm = |(arm, outcomes): &(&str, Vec<&Outcome>)| {
        let count = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|it| is(it)).count();
        let is_policed = |it: &Outcome| it.has_policer && it.policer_drops > 0;
        let is_found = |it: &Outcome| it.policed_after_s.is_some();
        let is_prompt = |it: &Outcome| it.policed_after_s.is_some_and(|s| s <= 3.0);
        let policed = count(&is_policed);
        let found = count(&|it| is_policed(it) && is_found(it));
        let in_time = count(&|it| is_policed(it) && is_prompt(it));
        let others = count(&|it| !it.has_policer);
        let wrongly = count(&|it| !it.has_policer && is_found(it));
        let judges = found + wrongly > 0;
        let health = Health {
            died: count(&|it| it.died),
            censored: count(&|it| it.unanswered_pings > 0),
            policed,
            policed_found_ratio: share(found, policed).filter(|_| judges),
            policed_found_3s_ratio: share(in_time, policed).filter(|_| judges),
            policed_false_ratio: share(wrongly, others).filter(|_| judges),
        };
        ((*arm).to_owned(), health)
    };
    table.arms.iter().map(arm).collect()
}

/// The outcomes as CSV: a line for each, below a head.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut out = String::from(
        "stratum,rank,arm,goodput_mbps,sent_mbps,bitrate_mbps,app_rtt_ms,unanswered_pings,\
         transport_rtt_ms,transport_rtt_p95_ms,queue_p50_ms,queue_p95_ms,rtx_overhead,\
         spurious_ratio,dropped_bytes,competitor_mbps,has_policer,policer_drops,policed_after_s,died\n",
    );
    let maybe = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
    for it in outcomes {
        out += &format!(
            "{},{},{},{:.5},{:.5},{:.5},{:.3},{},{:.3},{:.3},{:.3},{:.3},{:.6},{:.6},{},{},{},{},{},{}\n",
            it.stratum,
            it.rank,
            it.arm,
            it.goodput_mbps,
            it.sent_mbps,
            it.bitrate_mbps,
            it.app_rtt_ms,
            it.unanswered_pings,
            it.transport_rtt_ms,
            it.transport_rtt_p95_ms,
            it.queue_p50_ms,
            it.queue_p95_ms,
            it.rtx_overhead,
            it.spurious_ratio,
            it.dropped_bytes,
            maybe(it.competitor_mbps),
            u8::from(it.has_policer),
            it.policer_drops,
            maybe(it.policed_after_s),
            u8::from(it.died),
        );
    }
    out
}

#[cfg(test)]
mod tests;
