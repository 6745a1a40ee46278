//! Draws the parameters of one session from a population's distributions.

use std::sync::Arc;
use std::time::Duration;

use glassline_media::Bitrate;

use super::distribution::Distribution;
use super::file::{CompetitorTable, DirectionTable, FadingTable, File, MarkovTable, OutageTable};
use super::spread::Spread;
use super::{Application, Competitor, Population, PopulationError, Sample, Scenario, Traces};
use crate::link::bytes_in;
use crate::{Capacity, Conditions, Fading, Loss, Policer, Rng, Schedule, State};

/// Smallest queue, in bytes: interfaces hold some datagrams whatever their rate.
const QUEUE_BYTES_LEAST: usize = 8_000;

/// Smallest token bucket, in bytes: two full datagrams.
const BURST_BYTES_LEAST: usize = 3_000;

/// Quantiles at which a stratum's capacity is sampled to find shares.
const GRID: u32 = 1000;

/// Draws the session of a stratum with this rank.
pub(super) fn scenario(
    population: &Population,
    sample: Sample,
    stratum_index: usize,
    rank: u64,
) -> Scenario {
    let file = &population.file;
    let stratum = &file.strata[stratum_index];
    let (spread, seed) = population.chance(sample, stratum_index, rank);
    let round_trip = ms(stratum.rtt_ms.quantile(spread.along("rtt_ms")));
    let duration = population.duration();
    let direction = |name, table, capacity_scale, queue_scale| Direction {
        name,
        table,
        traces: &population.traces,
        spread,
        capacity_scale,
        queue_scale,
        delay: round_trip / 2,
        duration,
    };
    let scale = if stratum.scaled {
        population.capacity_scale
    } else {
        1.0
    };
    let rng = Rng::new(seed);
    let uplink = direction("uplink", &stratum.uplink, scale, file.network.queue_scale);
    let downlink = direction("downlink", &stratum.downlink, 1.0, 1.0);
    Scenario {
        stratum: stratum_index,
        rank,
        seed,
        duration,
        capacity: uplink.rate(),
        uplink: uplink.conditions(&mut rng.fork(1)),
        downlink: downlink.conditions(&mut rng.fork(2)),
        round_trip,
        competitors: competitors(stratum.competitor.as_ref(), spread, duration),
        application: application(file, spread),
    }
}

/// Draws the application of a session.
fn application(file: &File, spread: Spread) -> Application {
    let app = &file.application;
    let processing = app.processing_ms.quantile(spread.along("processing_ms"));
    Application {
        bitrate_min: kbps(app.bitrate_min_kbps),
        bitrate_max: kbps(app.bitrate_max_kbps),
        bitrate_start: kbps(app.bitrate_start_kbps),
        abr_knee: Duration::from_secs_f64(app.abr_knee_s),
        processing: ms(processing),
        frames_per_second: app.frames_per_second,
        keyframe_interval: Duration::from_secs_f64(app.keyframe_every_s),
        keyframe_weight: app.keyframe_weight,
    }
}

/// Draws the competitors of a session.
fn competitors(
    competitor: Option<&CompetitorTable>,
    spread: Spread,
    session: Duration,
) -> Vec<Competitor> {
    let Some(competitor) = competitor else {
        return Vec::new();
    };
    if spread.along("competitor") >= competitor.probability {
        return Vec::new();
    }
    let seconds = |distribution: &Distribution, dimension| {
        Duration::from_secs_f64(distribution.quantile(spread.along(dimension)))
    };
    let start = seconds(&competitor.start_s, "competitor.start_s");
    let duration = competitor.duration_s.as_ref();
    let end = duration.map_or(session, |duration| {
        (start + seconds(duration, "competitor.duration_s")).min(session)
    });
    if start >= end {
        return Vec::new();
    }
    vec![Competitor { start, end }]
}

/// One direction of a session's network, to be drawn.
struct Direction<'a> {
    /// `uplink` or `downlink`: the prefix of dimensions.
    name: &'static str,
    /// Distributions of the direction.
    table: &'a DirectionTable,
    /// Recorded traces of the population.
    traces: &'a Traces,
    /// Point from which parameters are drawn.
    spread: Spread,
    /// Factor of the rate.
    capacity_scale: f64,
    /// Factor of the queue.
    queue_scale: f64,
    /// Propagation delay of this direction.
    delay: Duration,
    /// Length of the session.
    duration: Duration,
}

impl Direction<'_> {
    /// Draws a parameter by its key in the file.
    fn draw(&self, key: &str, distribution: &Distribution) -> f64 {
        let dimension = format!("{}.{key}", self.name);
        distribution.quantile(self.spread.along(&dimension))
    }

    /// Returns the rate that can be used on average.
    fn rate(&self) -> Bitrate {
        match self.recorded() {
            Some(schedule) => schedule.mean(),
            None => {
                let at = self.spread.along(&format!("{}.rate_mbps", self.name));
                mbps(rate_mbps(self.table, self.traces, at) * self.capacity_scale)
            }
        }
    }

    /// Returns the recorded trace of this session, if the direction has traces.
    fn recorded(&self) -> Option<&Arc<Schedule>> {
        let at = self.spread.along(&format!("{}.traces", self.name));
        recorded(self.table, self.traces, at)
    }

    /// Draws the conditions of the link.
    fn conditions(&self, rng: &mut Rng) -> Conditions {
        let table = self.table;
        let usable = self.rate();
        let policer = table.policer.as_ref().map(|policer| {
            let burst = ms(self.draw("policer.burst_ms", &policer.burst_ms));
            Policer {
                rate: usable,
                burst_bytes: bytes_in(usable, burst).max(BURST_BYTES_LEAST) as u64,
            }
        });
        let access = table.policer.as_ref().map_or(1.0, |policer| {
            self.draw("policer.access_ratio", &policer.access_ratio)
        });
        let rate = mbps(usable.mbps() * access);
        let queue = ms(self.draw("queue_ms", &table.queue_ms) * self.queue_scale);
        let mark_above = table.mark_above_ms.as_ref();
        let mark_above = mark_above.map(|mark| ms(self.draw("mark_above_ms", mark)));
        Conditions {
            capacity: self.capacity(rate, rng),
            queue_bytes: bytes_in(rate, queue).max(QUEUE_BYTES_LEAST),
            mark_above_bytes: mark_above.map(|mark| bytes_in(rate, mark)),
            outages: table
                .outages
                .as_ref()
                .map_or_else(Vec::new, |outages| self.outages(outages, &mut rng.fork(1))),
            loss: self.loss(),
            policer,
            delay: self.delay,
            jitter: ms(self.draw("jitter_ms", &table.jitter_ms)),
            batch: ms(self.draw("batch_ms", &table.batch_ms)),
            reorder: self.draw("reorder_percent", &table.reorder_percent) / 100.0,
            reorder_delay: ms(self.draw("reorder_ms", &table.reorder_ms)),
        }
    }

    /// Draws the capacity around a mean `rate`.
    fn capacity(&self, rate: Bitrate, rng: &mut Rng) -> Capacity {
        if let Some(schedule) = self.recorded() {
            return Capacity::Trace {
                schedule: Arc::clone(schedule),
                offset: schedule.period().mul_f64(rng.unit()),
            };
        }
        let fading = self.table.fading.as_ref();
        let fading = fading.filter(|fading| {
            let dimension = format!("{}.fading", self.name);
            self.spread.along(&dimension) < fading.probability
        });
        let schedule = match (fading, &self.table.markov) {
            (Some(fading), _) => {
                let fading = self.fading(fading, rate);
                Schedule::fading(&fading, self.duration, rng)
            }
            (None, Some(chain)) => Schedule::markov(&states(chain, rate), self.duration, rng),
            (None, None) => return Capacity::Rate(rate),
        };
        Capacity::Trace {
            schedule: Arc::new(schedule),
            offset: Duration::ZERO,
        }
    }

    /// Draws the parameters of fading.
    fn fading(&self, fading: &FadingTable, mean: Bitrate) -> Fading {
        let step = ms(self.draw("fading.step_ms", &fading.step_ms)).max(ms(1.0));
        let steps = |time: f64| (ms(time).as_secs_f64() / step.as_secs_f64()).round() as u32;
        Fading {
            mean,
            sigma: self.draw("fading.sigma", &fading.sigma),
            correlation: self.draw("fading.correlation", &fading.correlation),
            step,
            outage: self.draw("fading.outage_percent", &fading.outage_percent) / 100.0,
            outage_steps: steps(fading.outage_ms[0])..=steps(fading.outage_ms[1]),
            outage_share: fading.outage_rate_percent / 100.0,
        }
    }

    /// Draws the times of outages.
    fn outages(&self, outages: &OutageTable, rng: &mut Rng) -> Vec<std::ops::Range<Duration>> {
        let every = self.draw("outages.every_s", &outages.every_s);
        let [least, most] = outages.for_ms;
        let mut found = Vec::new();
        let mut at = Duration::ZERO;
        loop {
            at += Duration::from_secs_f64(-every * (1.0 - rng.unit()).ln());
            if at >= self.duration {
                return found;
            }
            let end = at + ms(least + (most - least) * rng.unit());
            found.push(at..end);
            at = end;
        }
    }

    /// Draws the loss model.
    fn loss(&self) -> Loss {
        let mean = self.draw("loss_percent", &self.table.loss_percent) / 100.0;
        let burst_ms = self.draw("loss_burst_ms", &self.table.loss_burst_ms);
        if mean <= 0.0 {
            Loss::None
        } else if burst_ms > 1.0 {
            Loss::bursts(mean, burst_ms)
        } else {
            Loss::Random(mean)
        }
    }
}

/// Returns the trace at `at` (0..1) of those that a direction lists.
fn recorded<'a>(table: &DirectionTable, traces: &'a Traces, at: f64) -> Option<&'a Arc<Schedule>> {
    let index = (at * table.traces.len() as f64) as usize;
    traces.get(table.traces.get(index)?)
}

/// Returns a direction's mean rate in Mbit/s at `at` (0..1).
fn rate_mbps(table: &DirectionTable, traces: &Traces, at: f64) -> f64 {
    match (&table.rate_mbps, recorded(table, traces, at)) {
        (Some(rate), _) => rate.quantile(at),
        (None, Some(schedule)) => schedule.mean().mbps(),
        (None, None) => unreachable!("checked to have either, and read"),
    }
}

/// Returns the chain's states, at rates whose mean over time is `mean`.
fn states(chain: &MarkovTable, mean: Bitrate) -> Vec<State> {
    let states = &chain.states;
    let time: f64 = states.iter().map(|state| state.mean_ms).sum();
    let weighted = states.iter().map(|state| state.weight * state.mean_ms);
    let scale = time / weighted.sum::<f64>();
    let state = states.iter().map(|state| State {
        rate: mbps(mean.mbps() * state.weight * scale),
        mean: ms(state.mean_ms),
    });
    state.collect()
}

/// Returns the factor for the capacities of scaled strata with which the wanted share of
/// all sessions has more than the application's cap.
pub(super) fn capacity_scale(file: &File, traces: &Traces) -> Result<f64, PopulationError> {
    let Some(wanted) = file.network.capacity_above_cap else {
        return Ok(1.0);
    };
    let cap = file.application.bitrate_max_kbps / 1000.0;
    let above = |scale: f64| -> f64 {
        let strata = file.strata.iter().map(|stratum| {
            let scale = if stratum.scaled { scale } else { 1.0 };
            let at = |index: u32| (f64::from(index) + 0.5) / f64::from(GRID);
            let rates = (0..GRID).map(|index| rate_mbps(&stratum.uplink, traces, at(index)));
            let above = rates.filter(|rate| rate * scale > cap).count();
            stratum.share * above as f64 / f64::from(GRID)
        });
        strata.sum()
    };
    let (mut low, mut high) = (1e-3f64, 1e3f64);
    let (least, most) = (above(low), above(high));
    // Tolerance: half a step of the grid.
    let slack = 0.5 / f64::from(GRID);
    if !(least - slack..=most + slack).contains(&wanted) {
        return Err(PopulationError::Capacity {
            wanted,
            least,
            most,
        });
    }
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if above(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low * high).sqrt())
}

/// Converts milliseconds, which were checked to be between 0 and some thousand seconds.
fn ms(time: f64) -> Duration {
    Duration::from_secs_f64(time.max(0.0) / 1000.0)
}

/// Converts a rate in Mbit/s.
fn mbps(rate: f64) -> Bitrate {
    kbps(rate * 1000.0)
}

/// Converts a rate in kbit/s.
// A cast saturates, and rates are above 0.
pub(super) fn kbps(rate: f64) -> Bitrate {
    Bitrate::from_bps(((rate * 1000.0).round() as u64).max(1))
}

/// Returns a rate in kbit/s.
pub(super) fn in_kbps(rate: Bitrate) -> f64 {
    rate.bps() as f64 / 1000.0
}
