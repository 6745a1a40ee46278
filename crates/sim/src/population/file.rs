//! The file of a population: TOML, with unknown keys rejected and every parameter within
//! what a network can have.

use serde::Deserialize;

use super::PopulationError;
use super::distribution::Distribution;
use super::error_context::ErrorContext;

/// The version of this format.
const FORMAT: u32 = 1;

/// Most strata of a population.
const STRATA_MAX: usize = 100;

/// Most recorded traces of one direction of a stratum.
const TRACES_MAX: usize = 100;

/// A population's file, as parsed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Version of the format; see [`FORMAT`].
    pub(super) format: u32,
    /// Name of the population.
    pub(super) name: String,
    /// Version of the population.
    pub(super) version: u32,
    /// Length of a session, in s.
    pub(super) duration_s: f64,
    /// The network that all strata share.
    #[serde(default)]
    pub(super) network: NetworkTable,
    /// Table of the live stream that sessions upload.
    pub(super) application: ApplicationTable,
    /// Strata of the population.
    #[serde(rename = "stratum")]
    pub(super) strata: Vec<StratumTable>,
}

/// Parameters that all strata share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkTable {
    /// Share of all sessions whose uplink carries more than the application's cap.
    pub(super) capacity_above_cap: Option<f64>,
    /// Factor of every uplink's `queue_ms`.
    #[serde(default = "one")]
    pub(super) queue_scale: f64,
}

impl Default for NetworkTable {
    fn default() -> Self {
        Self {
            capacity_above_cap: None,
            queue_scale: 1.0,
        }
    }
}

/// The live stream and the rule for its bitrate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplicationTable {
    /// Smallest bitrate, in kbit/s.
    pub(super) bitrate_min_kbps: f64,
    /// Largest bitrate, in kbit/s.
    pub(super) bitrate_max_kbps: f64,
    /// Bitrate at the start, in kbit/s.
    pub(super) bitrate_start_kbps: f64,
    /// Backlog at which the study's rule holds the bitrate back, in s.
    pub(super) abr_knee_s: f64,
    /// Time that each application round trip takes beyond the network, in ms.
    #[serde(default = "zero")]
    pub(super) processing_ms: Distribution,
    /// Frame rate of the video, in frames per second.
    #[serde(default = "thirty")]
    pub(super) frames_per_second: f64,
    /// Time from one keyframe to the next, in s.
    #[serde(default = "two")]
    pub(super) keyframe_every_s: f64,
    /// Size of a keyframe, in mean frames.
    #[serde(default = "five")]
    pub(super) keyframe_weight: f64,
}

/// A stratum: a part of the population with distributions of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StratumTable {
    /// Name of the stratum.
    pub(super) name: String,
    /// Share of the sessions, 0..=1.
    pub(super) share: f64,
    /// Whether `capacity_above_cap` changes its uplink's rate.
    #[serde(default)]
    pub(super) scaled: bool,
    /// Round trip without any queue, in ms.
    pub(super) rtt_ms: Distribution,
    /// From the publisher to the server.
    pub(super) uplink: DirectionTable,
    /// From the server to the publisher.
    pub(super) downlink: DirectionTable,
    /// Bulk upload that shares the links.
    pub(super) competitor: Option<CompetitorTable>,
}

/// Distributions of one direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectionTable {
    /// Rate that the session can use on average, in Mbit/s; behind a policer, the policer's
    /// rate.
    pub(super) rate_mbps: Option<Distribution>,
    /// Names of recorded traces instead of a rate: a session uses one of these, from any
    /// position.
    #[serde(default)]
    pub(super) traces: Vec<String>,
    /// Length of the queue, in ms at the rate.
    pub(super) queue_ms: Distribution,
    /// Share of lost datagrams, in %.
    #[serde(default = "zero")]
    pub(super) loss_percent: Distribution,
    /// Mean length of bursts of loss in ms; 0 for independent losses.
    #[serde(default = "zero")]
    pub(super) loss_burst_ms: Distribution,
    /// Largest jitter, in ms.
    #[serde(default = "zero")]
    pub(super) jitter_ms: Distribution,
    /// Period of batched arrivals, in ms.
    #[serde(default = "zero")]
    pub(super) batch_ms: Distribution,
    /// Share of reordered datagrams, in %.
    #[serde(default = "zero")]
    pub(super) reorder_percent: Distribution,
    /// Time for which a reordered datagram is held back, in ms.
    #[serde(default = "five_ms")]
    pub(super) reorder_ms: Distribution,
    /// Length of the queue above which datagrams are marked, in ms.
    pub(super) mark_above_ms: Option<Distribution>,
    /// Policer behind the queue.
    pub(super) policer: Option<PolicerTable>,
    /// Fading of the rate.
    pub(super) fading: Option<FadingTable>,
    /// Rate that changes between states.
    pub(super) markov: Option<MarkovTable>,
    /// Outages of this direction.
    pub(super) outages: Option<OutageTable>,
}

/// Policer of one direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicerTable {
    /// Ratio of the rate of the link before the policer to the policer's rate.
    pub(super) access_ratio: Distribution,
    /// Capacity of the bucket, in ms at the policer's rate.
    pub(super) burst_ms: Distribution,
}

/// An autoregressive rate; see [`crate::Fading`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FadingTable {
    /// Share of the sessions with fading.
    #[serde(default = "one")]
    pub(super) probability: f64,
    /// Standard deviation of the rate's natural logarithm.
    pub(super) sigma: Distribution,
    /// Correlation of one step with the next, 0..1.
    pub(super) correlation: Distribution,
    /// Length of a step, in ms.
    pub(super) step_ms: Distribution,
    /// Probability that an outage begins in a step, in %.
    #[serde(default = "zero")]
    pub(super) outage_percent: Distribution,
    /// Shortest and longest outage, in ms.
    #[serde(default)]
    pub(super) outage_ms: [f64; 2],
    /// Share of the rate that is left in an outage, in %.
    #[serde(default)]
    pub(super) outage_rate_percent: f64,
}

/// A rate that changes between states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkovTable {
    /// The states of the chain.
    pub(super) states: Vec<MarkovStateTable>,
}

/// A state of the chain.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkovStateTable {
    /// Rate relative to the other states; the mean over time is `rate_mbps`.
    pub(super) weight: f64,
    /// Mean length of the state, in ms.
    pub(super) mean_ms: f64,
}

/// Outages: times in which nothing passes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutageTable {
    /// Mean time from one outage to the next, in s.
    pub(super) every_s: Distribution,
    /// Shortest and longest outage, in ms.
    pub(super) for_ms: [f64; 2],
}

/// A bulk upload that shares a session's links.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompetitorTable {
    /// Share of the sessions with a competitor, 0..=1.
    pub(super) probability: f64,
    /// When the upload starts, in s from the session's start.
    #[serde(default = "zero")]
    pub(super) start_s: Distribution,
    /// Length of the upload, in s; without it, to the session's end.
    pub(super) duration_s: Option<Distribution>,
}

impl File {
    /// Parses and checks a file.
    pub(super) fn parse(text: &str) -> Result<Self, PopulationError> {
        let file: Self = toml::from_str(text).map_err(|error| PopulationError::Text {
            reason: error.to_string(),
        })?;
        file.check()?;
        Ok(file)
    }

    /// Checks that all values are allowed.
    pub(super) fn check(&self) -> Result<(), PopulationError> {
        if self.format != FORMAT {
            return Err(PopulationError::Format {
                found: self.format,
                known: FORMAT,
            });
        }
        let at = ErrorContext("the file");
        at.number("duration_s", self.duration_s, 1.0..=3600.0)?;
        at.number(
            "network.queue_scale",
            self.network.queue_scale,
            0.01..=100.0,
        )?;
        if let Some(share) = self.network.capacity_above_cap {
            at.number("network.capacity_above_cap", share, 0.0..=1.0)?;
        }
        self.application.check(&at)?;
        if self.strata.is_empty() || self.strata.len() > STRATA_MAX {
            let found = self.strata.len();
            return Err(at.value(
                "stratum",
                format!("there are {found}; 1 to {STRATA_MAX} are allowed"),
            ));
        }
        for (index, stratum) in self.strata.iter().enumerate() {
            stratum.check()?;
            if self.strata[..index]
                .iter()
                .any(|other| other.name == stratum.name)
            {
                return Err(ErrorContext(&stratum.name)
                    .value("name", "another stratum has the same name".into()));
            }
        }
        let shares: f64 = self.strata.iter().map(|stratum| stratum.share).sum();
        if (shares - 1.0).abs() > 1e-6 {
            let reason = format!("the shares of the strata add up to {shares}, not to 1");
            return Err(at.value("share", reason));
        }
        Ok(())
    }
}

impl ApplicationTable {
    fn check(&self, at: &ErrorContext<'_>) -> Result<(), PopulationError> {
        let (min, max) = (self.bitrate_min_kbps, self.bitrate_max_kbps);
        at.number("application.bitrate_min_kbps", min, 1.0..=1e6)?;
        at.number("application.bitrate_max_kbps", max, min..=1e6)?;
        let start = self.bitrate_start_kbps;
        at.number("application.bitrate_start_kbps", start, min..=max)?;
        at.number("application.abr_knee_s", self.abr_knee_s, 0.01..=60.0)?;
        at.number(
            "application.frames_per_second",
            self.frames_per_second,
            1.0..=240.0,
        )?;
        at.number(
            "application.keyframe_every_s",
            self.keyframe_every_s,
            0.1..=60.0,
        )?;
        at.number(
            "application.keyframe_weight",
            self.keyframe_weight,
            1.0..=100.0,
        )?;
        at.within(
            "application.processing_ms",
            &self.processing_ms,
            0.0..=60_000.0,
        )
    }
}

impl StratumTable {
    fn check(&self) -> Result<(), PopulationError> {
        let at = ErrorContext(&self.name);
        at.number("share", self.share, 0.001..=1.0)?;
        at.within("rtt_ms", &self.rtt_ms, 0.0..=10_000.0)?;
        if self.scaled && self.uplink.rate_mbps.is_none() {
            let reason = "a recorded trace cannot be scaled".to_owned();
            return Err(at.value("scaled", reason));
        }
        self.uplink.check(&at, "uplink")?;
        self.downlink.check(&at, "downlink")?;
        if let Some(competitor) = &self.competitor {
            at.number("competitor.probability", competitor.probability, 0.0..=1.0)?;
            at.within("competitor.start_s", &competitor.start_s, 0.0..=3600.0)?;
            if let Some(duration) = &competitor.duration_s {
                at.within("competitor.duration_s", duration, 0.0..=3600.0)?;
            }
        }
        Ok(())
    }
}

impl DirectionTable {
    fn check(&self, at: &ErrorContext<'_>, side: &str) -> Result<(), PopulationError> {
        let within = |key: &str, distribution: &Distribution, range| {
            at.within(&format!("{side}.{key}"), distribution, range)
        };
        let number = |key: &str, value, range| at.number(&format!("{side}.{key}"), value, range);
        self.check_capacity(at, side)?;
        within("queue_ms", &self.queue_ms, 0.0..=60_000.0)?;
        within("loss_percent", &self.loss_percent, 0.0..=99.0)?;
        within("loss_burst_ms", &self.loss_burst_ms, 0.0..=60_000.0)?;
        within("jitter_ms", &self.jitter_ms, 0.0..=10_000.0)?;
        within("batch_ms", &self.batch_ms, 0.0..=10_000.0)?;
        within("reorder_percent", &self.reorder_percent, 0.0..=100.0)?;
        within("reorder_ms", &self.reorder_ms, 0.0..=10_000.0)?;
        if let Some(mark) = &self.mark_above_ms {
            within("mark_above_ms", mark, 0.0..=60_000.0)?;
        }
        if let Some(policer) = &self.policer {
            within("policer.access_ratio", &policer.access_ratio, 1.0..=1000.0)?;
            within("policer.burst_ms", &policer.burst_ms, 1.0..=60_000.0)?;
        }
        if let Some(outages) = &self.outages {
            within("outages.every_s", &outages.every_s, 0.1..=1e6)?;
            let [least, most] = outages.for_ms;
            number("outages.for_ms", least, 0.0..=most)?;
            number("outages.for_ms", most, least..=600_000.0)?;
        }
        Ok(())
    }

    /// Checks the capacity: a rate, which may vary, or recorded traces.
    fn check_capacity(&self, at: &ErrorContext<'_>, side: &str) -> Result<(), PopulationError> {
        let varies = [self.fading.is_some(), self.markov.is_some()];
        let made = varies.iter().filter(|it| **it).count();
        let value =
            |key: &str, reason: &str| Err(at.value(&format!("{side}.{key}"), reason.into()));
        match &self.rate_mbps {
            Some(_) if !self.traces.is_empty() => {
                return value(
                    "traces",
                    "cannot be combined with rate_mbps: leave out one of the two",
                );
            }
            None if self.traces.is_empty() => {
                return value(
                    "rate_mbps",
                    "is missing: give a rate here or names in traces",
                );
            }
            None if made > 0 || self.policer.is_some() => {
                return value(
                    "traces",
                    "cannot be combined with fading, markov or policer",
                );
            }
            _ if made > 1 => return value("markov", "cannot be combined with fading"),
            _ => {}
        }
        if self.traces.len() > TRACES_MAX {
            return value("traces", "has more than 100 names");
        }
        let within = |key: &str, distribution: &Distribution, range| {
            at.within(&format!("{side}.{key}"), distribution, range)
        };
        let number = |key: &str, value, range| at.number(&format!("{side}.{key}"), value, range);
        if let Some(rate) = &self.rate_mbps {
            within("rate_mbps", rate, 0.01..=10_000.0)?;
        }
        if let Some(fading) = &self.fading {
            number("fading.probability", fading.probability, 0.0..=1.0)?;
            within("fading.sigma", &fading.sigma, 0.0..=3.0)?;
            within("fading.correlation", &fading.correlation, 0.0..=1.0)?;
            within("fading.step_ms", &fading.step_ms, 1.0..=60_000.0)?;
            within("fading.outage_percent", &fading.outage_percent, 0.0..=100.0)?;
            let [least, most] = fading.outage_ms;
            number("fading.outage_ms", least, 0.0..=most)?;
            number("fading.outage_ms", most, least..=600_000.0)?;
            number(
                "fading.outage_rate_percent",
                fading.outage_rate_percent,
                0.0..=100.0,
            )?;
        }
        if let Some(markov) = &self.markov {
            if !(1..=10).contains(&markov.states.len()) {
                let found = markov.states.len();
                let key = format!("{side}.markov.states");
                return Err(at.value(&key, format!("there are {found}; 1 to 10 are allowed")));
            }
            for state in &markov.states {
                number("markov.states.weight", state.weight, 0.0..=1000.0)?;
                number("markov.states.mean_ms", state.mean_ms, 1.0..=3.6e6)?;
            }
            let weights = markov.states.iter().map(|state| state.weight).sum();
            number("markov.states.weight, in sum,", weights, 0.001..=10_000.0)?;
        }
        Ok(())
    }
}

fn zero() -> Distribution {
    Distribution::Constant(0.0)
}

fn five_ms() -> Distribution {
    Distribution::Constant(5.0)
}

fn one() -> f64 {
    1.0
}

fn two() -> f64 {
    2.0
}

fn five() -> f64 {
    5.0
}

fn thirty() -> f64 {
    30.0
}
