//! Populations: the networks of many users, as distributions in a file, from which the same
//! sessions are drawn every time.
//!
//! ```text
//! study2019.toml ─► Population ─► session(sample, 0), (…, 1), (…, 2) … ─► Scenario
//!                    strata            │
//!                                      ├ stratum: shares hold at any number of sessions
//!                                      ├ parameters: spread evenly within the stratum
//!                                      └ seed: of name, version, sample, stratum, rank
//! ```
//!
//! A session does not depend on what was drawn before, so an interrupted run can be
//! continued, and every arm of an experiment meets the same sessions.
//! `docs/benchmarks/populations.md` describes the file.

mod distribution;
mod draw;
mod error_context;
mod file;
mod spread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use glassline_media::Bitrate;
use thiserror::Error;

use crate::{Conditions, Schedule, Trace};
use file::File;
use glassline_random::mix;
use spread::{Spread, hash};

/// Sessions after which every stratum has had its exact share, to a thousandth.
const ROUND: usize = 1000;

/// A population of sessions.
#[derive(Clone, Debug)]
pub struct Population {
    /// The file, as parsed.
    file: File,
    /// Recorded traces by name.
    traces: Traces,
    /// Digest of the file's text and of its traces.
    text_digest: u64,
    /// Factor of the capacities of `scaled` strata.
    capacity_scale: f64,
    /// Sessions of a round that each stratum has.
    quotas: Vec<u64>,
    /// Strata of a round, session by session.
    round: Vec<RoundEntry>,
}

/// The stratum of a session in a round.
#[derive(Clone, Copy, Debug)]
struct RoundEntry {
    /// Index of the stratum.
    stratum: usize,
    /// Sessions of that stratum that come before it in the round.
    before: u64,
}

/// Recorded traces of a file, by name.
type Traces = BTreeMap<String, Arc<Schedule>>;

/// Which sessions are drawn. Parameters are tuned on one kind of sample and evaluated on
/// the other: no seed of one kind draws what a seed of the other draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sample {
    /// Sessions for development and tuning, by seed.
    Tuning(u64),
    /// Sessions for final results only, by seed.
    HoldOut(u64),
}

/// The four parameters that calibration changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// Share of sessions whose uplink carries more than the encoder's cap, 0..=1;
    /// `None` leaves capacities as they are written.
    pub capacity_above_cap: Option<f64>,
    /// Factor of the length of every uplink's queue.
    pub queue_scale: f64,
    /// Backlog at which the study's bitrate rule holds the bitrate back.
    pub abr_knee: Duration,
    /// Smallest bitrate of the encoder.
    pub bitrate_min: Bitrate,
}

/// One session: its network both ways and its application.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Index of the session's stratum in [`Population::strata`].
    pub stratum: usize,
    /// Rank of the session within its stratum, from 0.
    pub rank: u64,
    /// Seed of all random decisions of the session: links, identifiers, start times.
    pub seed: u64,
    /// Length of the session.
    pub duration: Duration,
    /// Conditions from the publisher to the server.
    pub uplink: Conditions,
    /// Conditions from the server to the publisher.
    pub downlink: Conditions,
    /// Rate that the uplink is expected to carry without competitors: the policer's rate if
    /// there is one. A trace's own mean is [`Capacity::mean`](crate::Capacity::mean).
    pub capacity: Bitrate,
    /// Round-trip propagation delay, without any queue.
    pub round_trip: Duration,
    /// Bulk uploads that share the links with the session.
    pub competitors: Vec<Competitor>,
    /// The live stream of the session.
    pub application: Application,
}

/// A bulk upload that shares a session's links. It is a loss-based flow (CUBIC), as
/// most of the traffic that a live upload meets at home is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// When the upload starts, from the session's start.
    pub start: Duration,
    /// When the upload stops, from the session's start.
    pub end: Duration,
}

/// The live stream and the rule for its bitrate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// Smallest bitrate of the encoder.
    pub bitrate_min: Bitrate,
    /// Largest bitrate of the encoder.
    pub bitrate_max: Bitrate,
    /// Bitrate of the encoder at the start.
    pub bitrate_start: Bitrate,
    /// Backlog, in time at the present bitrate, at which the study's rule holds the
    /// bitrate back.
    pub abr_knee: Duration,
    /// Time that every application round trip takes beyond the network.
    pub processing: Duration,
    /// Frame rate, in frames per second.
    pub frames_per_second: f64,
    /// Time from one keyframe to the next.
    pub keyframe_interval: Duration,
    /// Size of a keyframe, in mean frames.
    pub keyframe_weight: f64,
}

/// A stratum: a part of the population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stratum<'a> {
    /// Name of the stratum in the file.
    pub name: &'a str,
    /// Share of the sessions, 0..=1.
    pub share: f64,
    /// Whether its uplinks have a policer.
    pub policed: bool,
}

/// The reason why a text could not be read as a population.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PopulationError {
    /// The text is not TOML, or has unknown or missing keys.
    #[error("{reason}")]
    Text {
        /// The parser's reason, with line, column and key.
        reason: String,
    },
    /// The file has another version of the format.
    #[error("the file has format {found}; this version reads format {known} only")]
    Format {
        /// Version in the file.
        found: u32,
        /// Version that this crate reads.
        known: u32,
    },
    /// A value is not allowed.
    #[error("{place}: {key}: {reason}")]
    Value {
        /// Name of the stratum, or `the file`.
        place: String,
        /// Name of the key.
        key: String,
        /// The fault of the value.
        reason: String,
    },
    /// A recorded trace could not be read.
    #[error("trace `{name}`: {reason}")]
    Trace {
        /// Name of the trace in the file.
        name: String,
        /// The reason, with the line if the text is not a trace.
        reason: String,
    },
    /// `capacity_above_cap` asks for more or less than the strata that are `scaled` can give.
    #[error(
        "network.capacity_above_cap: {wanted:.3} cannot be reached; the strata that are not `scaled` allow {least:.3} to {most:.3}"
    )]
    Capacity {
        /// Share that the file asks for.
        wanted: f64,
        /// Share that is reached with capacities near zero.
        least: f64,
        /// Share that is reached with unlimited capacities.
        most: f64,
    },
}

impl Population {
    /// Parses a population's file that names no recorded traces.
    ///
    /// # Errors
    ///
    /// [`PopulationError`] names the line, or the stratum and key, and what is allowed
    /// there.
    pub fn parse(text: &str) -> Result<Self, PopulationError> {
        Self::parse_with(
            text,
            |_| Err("recorded traces are not read here".to_owned()),
        )
    }

    /// Parses a population's file. `read` is called once for the text of each recorded
    /// trace that the file names, in Mahimahi's format; it should refuse excessive lengths.
    ///
    /// # Errors
    ///
    /// Like [`Self::parse`]; errors of traces have their names.
    pub fn parse_with(
        text: &str,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, PopulationError> {
        let file = File::parse(text)?;
        let mut traces = Traces::new();
        let mut digest = hash(text);
        let sides = file
            .strata
            .iter()
            .flat_map(|stratum| [&stratum.uplink, &stratum.downlink]);
        for name in sides.flat_map(|side| &side.traces) {
            if traces.contains_key(name) {
                continue;
            }
            let refused = |reason| PopulationError::Trace {
                name: name.clone(),
                reason,
            };
            let trace = read(name).map_err(refused)?;
            digest = mix(digest ^ hash(&trace));
            let schedule = Schedule::parse(&trace).map_err(|error| refused(error.to_string()))?;
            traces.insert(name.clone(), Arc::new(schedule));
        }
        Self::new(file, traces, digest)
    }

    fn new(file: File, traces: Traces, text_digest: u64) -> Result<Self, PopulationError> {
        let shares: Vec<f64> = file.strata.iter().map(|stratum| stratum.share).collect();
        let quotas = quotas(&shares);
        Ok(Self {
            capacity_scale: draw::capacity_scale(&file, &traces)?,
            round: round(&quotas),
            quotas,
            file,
            traces,
            text_digest,
        })
    }

    /// Returns the name of the population.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the version of the population. Another version is another population, whose
    /// seeds draw other sessions.
    pub fn version(&self) -> u32 {
        self.file.version
    }

    /// Returns a digest of the whole file and the knobs, to distinguish results of a
    /// population from those of an edited one.
    pub fn digest(&self) -> u64 {
        let mut trace = Trace::new();
        let Knobs {
            capacity_above_cap,
            queue_scale,
            abr_knee,
            bitrate_min,
        } = self.knobs();
        trace.record(Duration::ZERO, "text", self.text_digest);
        trace.record(abr_knee, "floor", bitrate_min.bps());
        trace.record(Duration::ZERO, "queue", queue_scale.to_bits());
        let share = capacity_above_cap.unwrap_or(-1.0);
        trace.record(Duration::ZERO, "share", share.to_bits());
        trace.digest()
    }

    /// Returns the length of each session.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.file.duration_s)
    }

    /// Returns the population with sessions of another length, from a second to an hour.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.file.duration_s = duration.as_secs_f64().clamp(1.0, 3600.0);
        self
    }

    /// Returns the present values of what calibration changes.
    pub fn knobs(&self) -> Knobs {
        let application = &self.file.application;
        Knobs {
            capacity_above_cap: self.file.network.capacity_above_cap,
            queue_scale: self.file.network.queue_scale,
            abr_knee: Duration::from_secs_f64(application.abr_knee_s),
            bitrate_min: draw::kbps(application.bitrate_min_kbps),
        }
    }

    /// Returns the population with other knobs.
    ///
    /// # Errors
    ///
    /// Like [`Self::parse`], for values that are not allowed in the file either.
    pub fn with_knobs(mut self, knobs: Knobs) -> Result<Self, PopulationError> {
        self.file.network.capacity_above_cap = knobs.capacity_above_cap;
        self.file.network.queue_scale = knobs.queue_scale;
        self.file.application.abr_knee_s = knobs.abr_knee.as_secs_f64();
        self.file.application.bitrate_min_kbps = draw::in_kbps(knobs.bitrate_min);
        self.file.check()?;
        Self::new(self.file, self.traces, self.text_digest)
    }

    /// Iterates over the strata, in the file's order.
    pub fn strata(&self) -> impl ExactSizeIterator<Item = Stratum<'_>> {
        self.file.strata.iter().map(|stratum| Stratum {
            name: &stratum.name,
            share: stratum.share,
            policed: stratum.uplink.policer.is_some(),
        })
    }

    /// Returns session `index`. In any run of sessions, each stratum has its share to
    /// within two sessions, and in every thousand exactly.
    pub fn session(&self, sample: Sample, index: u64) -> Scenario {
        let RoundEntry { stratum, before } = self.round[(index % ROUND as u64) as usize];
        let rank = index / ROUND as u64 * self.quotas[stratum] + before;
        draw::scenario(self, sample, stratum, rank)
    }

    /// Returns the session of a stratum by its rank there, which is the session that
    /// [`Self::session`] returns when it comes to it. `None` if there is no such stratum.
    pub fn session_of(&self, sample: Sample, stratum: usize, rank: u64) -> Option<Scenario> {
        (stratum < self.quotas.len()).then(|| draw::scenario(self, sample, stratum, rank))
    }

    /// Returns the root of all random decisions in a sample.
    fn key(&self, sample: Sample) -> u64 {
        let (kind, seed) = match sample {
            Sample::Tuning(seed) => ("tuning", seed),
            Sample::HoldOut(seed) => ("hold-out", seed),
        };
        let of_file = mix(hash(&self.file.name) ^ u64::from(self.file.version));
        mix(of_file ^ mix(hash(kind) ^ mix(seed)))
    }

    /// Returns the point from which the parameters of a session are drawn, and the
    /// session's seed.
    fn chance(&self, sample: Sample, stratum: usize, rank: u64) -> (Spread, u64) {
        // By name, so that strata can change their order.
        let key = mix(self.key(sample) ^ hash(&self.file.strata[stratum].name));
        let points = u32::try_from(rank % (1 << 32)).expect("below 2^32");
        (Spread::new(key, points), mix(key ^ mix(rank)))
    }
}

/// Returns the sessions of a round that each stratum has: the largest remainders
/// (Hamilton's method) get what rounding down leaves.
fn quotas(shares: &[f64]) -> Vec<u64> {
    let exact: Vec<f64> = shares.iter().map(|share| share * ROUND as f64).collect();
    // A share of 0.29 is 289.999… in a round of a thousand.
    let whole = |value: f64| (value + 1e-6).floor();
    let mut quotas: Vec<u64> = exact.iter().map(|&value| whole(value) as u64).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let remainder = |index: usize| exact[index] - whole(exact[index]);
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    let missing = ROUND.saturating_sub(quotas.iter().sum::<u64>() as usize);
    for &index in order.iter().cycle().take(missing) {
        quotas[index] += 1;
    }
    quotas
}

/// Returns the order of strata in a round: always the one that is furthest behind its
/// share.
fn round(quotas: &[u64]) -> Vec<RoundEntry> {
    let mut had = vec![0u64; quotas.len()];
    (1..=ROUND as u64)
        .map(|sessions| {
            let behind = |&index: &usize| {
                let due = i128::from(quotas[index]) * i128::from(sessions);
                // Of equals, the first one wins.
                (
                    due - i128::from(had[index]) * ROUND as i128,
                    usize::MAX - index,
                )
            };
            let open = (0..quotas.len()).filter(|&index| had[index] < quotas[index]);
            let stratum = open.max_by_key(behind).expect("quotas fill a round");
            let before = had[stratum];
            had[stratum] += 1;
            RoundEntry { stratum, before }
        })
        .collect()
}

#[cfg(test)]
mod tests;
