//! Runs a population under every arm, on several threads.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use glassline_sim::{Population, Sample, Scenario as Drawn};

use super::outcome::Outcome;
use super::session::{Arm, Measured, Scenario, Sessions};

/// Sessions to run, and the arms to run them under.
#[derive(Debug)]
pub struct Plan {
    /// Population that sessions are drawn from.
    pub population: Population,
    /// Sample of the population to draw.
    pub sample: Sample,
    /// Arms that each session runs under; their names differ.
    pub arms: Vec<Arm>,
    /// Number of sessions, divided by the population's shares.
    pub sessions: u64,
    /// Least number of sessions, by index of the stratum.
    pub at_least: BTreeMap<usize, u64>,
}

/// Progress of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs of a session under an arm that are finished, including those known from a log.
    pub done: usize,
    /// Finished runs that were not known from a log.
    pub ran: usize,
    /// Number of runs of the experiment.
    pub of: usize,
    /// Time since the experiment began.
    pub elapsed: Duration,
    /// Processor time of all threads so far.
    pub cpu: Duration,
    /// Virtual time that was simulated so far.
    pub simulated: Duration,
}

impl Progress {
    /// Virtual seconds simulated per second of processor time; 0 before the first run.
    pub fn speed(&self) -> f64 {
        let cpu = self.cpu.as_secs_f64();
        if cpu > 0.0 {
            self.simulated.as_secs_f64() / cpu
        } else {
            0.0
        }
    }
}

impl Plan {
    /// Sessions to run, as stratum and rank. Those that keep the population's shares come first.
    pub fn draws(&self) -> Vec<(usize, u64)> {
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        let mut draws = Vec::new();
        for index in 0..self.sessions {
            let drawn = self.population.session(self.sample, index);
            draws.push((drawn.stratum, drawn.rank));
            let count = counts.entry(drawn.stratum).or_default();
            *count = (*count).max(drawn.rank + 1);
        }
        for (stratum, least) in &self.at_least {
            let had = counts.get(stratum).copied().unwrap_or(0);
            draws.extend((had..*least).map(|rank| (*stratum, rank)));
        }
        draws
    }

    /// Share of each stratum, by name.
    pub fn shares(&self) -> BTreeMap<String, f64> {
        let strata = self.population.strata();
        strata.map(|it| (it.name.to_owned(), it.share)).collect()
    }

    /// Runs every session that is not `known`, on `jobs` threads, and passes each outcome to
    /// `each`, until `stop`. The arms of a session run one after the other, so that an experiment
    /// that is stopped has few incomplete sessions.
    pub fn run(
        &self,
        known: &[Outcome],
        jobs: usize,
        stop: &AtomicBool,
        mut each: impl FnMut(Outcome, Progress),
    ) -> Progress {
        let names: Vec<&str> = self.population.strata().map(|it| it.name).collect();
        let known: HashSet<_> = known
            .iter()
            .map(|it| (it.session(), it.arm.as_str()))
            .collect();
        let is_known = |stratum: usize, rank: u64, arm: &Arm| {
            known.contains(&((names[stratum], rank), arm.name.as_str()))
        };
        let draws = self.draws();
        let all = draws.len() * self.arms.len();
        let kept = draws
            .iter()
            .flat_map(|it| self.arms.iter().map(move |arm| (it, arm)));
        let mut progress = Progress {
            done: kept.filter(|(it, arm)| is_known(it.0, it.1, arm)).count(),
            of: all,
            ..Progress::default()
        };
        // Unsealed packets: no figure depends on their bytes, and a third more sessions run per
        // second.
        let began = Instant::now();
        let sessions = Sessions::new().unsealed();
        let next = AtomicUsize::new(0);
        let (found, outcomes) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                let (found, draws) = (found.clone(), &draws);
                let (sessions, next) = (&sessions, &next);
                scope.spawn(move || {
                    while let Some((stratum, rank)) =
                        draws.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let drawn = self.population.session_of(self.sample, *stratum, *rank);
                        let drawn = drawn.expect("the stratum is the population's");
                        for arm in &self.arms {
                            if is_known(*stratum, *rank, arm) {
                                continue;
                            }
                            if stop.load(Ordering::Relaxed) {
                                return;
                            }
                            let before = glassline_net::thread_cpu();
                            let outcome = self.outcome(sessions, &drawn, arm);
                            let cpu = glassline_net::thread_cpu().saturating_sub(before);
                            if found.send((outcome, cpu)).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
            drop(found);
            for (outcome, cpu) in outcomes {
                progress.done += 1;
                progress.ran += 1;
                progress.cpu += cpu;
                progress.elapsed = began.elapsed();
                progress.simulated += self.population.duration();
                each(outcome, progress);
            }
        });
        progress
    }

    fn outcome(&self, sessions: &Sessions, drawn: &Drawn, arm: &Arm) -> Outcome {
        let scenario = Scenario::from(drawn);
        let measured = sessions.run(&scenario, arm, drawn.seed, drawn.duration);
        let mut strata = self.population.strata();
        let stratum = strata.nth(drawn.stratum).expect("a stratum of it");
        Outcome {
            stratum: stratum.name.to_owned(),
            rank: drawn.rank,
            arm: arm.name.clone(),
            has_policer: stratum.policed,
            ..Outcome::from(&measured)
        }
    }
}

impl From<&Measured> for Outcome {
    /// Leaves the names empty, which the session does not know.
    fn from(measured: &Measured) -> Self {
        let competitors = &measured.competitors_mbps;
        Self {
            stratum: String::new(),
            rank: 0,
            arm: String::new(),
            goodput_mbps: measured.goodput_mbps,
            sent_mbps: measured.sent_mbps,
            bitrate_mbps: measured.bitrate_mbps,
            app_rtt_ms: measured.app_rtt_ms,
            unanswered_pings: measured.pings_unanswered,
            transport_rtt_ms: measured.transport_rtt_ms.mean,
            transport_rtt_p95_ms: measured.transport_rtt_ms.p95,
            queue_p50_ms: measured.queue_ms.p50,
            queue_p95_ms: measured.queue_ms.p95,
            rtx_overhead: measured.rtx_overhead,
            spurious_ratio: measured.spurious_overhead,
            dropped_bytes: measured.dropped_bytes,
            competitor_mbps: (!competitors.is_empty()).then(|| competitors.iter().sum()),
            has_policer: false,
            policer_drops: measured.policed_datagrams,
            policed_after_s: measured.policed_after_s,
            died: measured.broken.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;
