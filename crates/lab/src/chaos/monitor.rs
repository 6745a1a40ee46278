//! Measures the server, the harness and the machine once a second, on a thread of its own.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::clock::unix_ms;
use super::probe::{Answer, Probe};
use crate::meter::{Machine, Process, Usage};

/// Time between two observations.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time between two rounds of probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Time of a sleep; how much longer it takes says how long the machine kept the harness waiting.
const SLEEP: Duration = Duration::from_millis(10);

/// Observation of one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// End of the second, in ms since 1970.
    pub at_ms: u64,
    /// Resident memory of the server, in bytes; `None` while it does not run.
    pub server_rss_bytes: Option<u64>,
    /// File descriptors that the server has open.
    pub server_descriptors: Option<usize>,
    /// Processor time of the server, in percent of a core.
    pub server_cpu_percent: Option<f64>,
    /// Processor time of this process, which makes the attacks, in percent of a core.
    pub harness_cpu_percent: f64,
    /// Idle share of all cores, in percent.
    pub idle_percent: f64,
    /// Longest time by which a sleep of this process was late, in ms.
    pub starved_ms: u64,
}

/// Everything that was observed.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) seconds: Vec<Observation>,
    pub(super) answers: Vec<Answer>,
}

/// The thread that observes. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Monitor {
    observed: Arc<Mutex<Observed>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// Starts to observe the process that `server` names, and to ask `probes`.
    pub(super) fn start(server: Arc<AtomicU32>, probes: Vec<Probe>) -> std::io::Result<Self> {
        let observed = Arc::<Mutex<Observed>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        let (kept, over) = (Arc::clone(&observed), Arc::clone(&is_over));
        let observe = move || observe(&server, &kept, &over);
        threads.push(spawn("monitor", observe)?);
        for probe in probes {
            let (kept, over) = (Arc::clone(&observed), Arc::clone(&is_over));
            let ask = move || ask(&probe, &kept, &over);
            threads.push(spawn("probe", ask)?);
        }
        Ok(Self {
            observed,
            is_over,
            threads,
        })
    }

    /// Everything that was observed so far.
    pub(super) fn observed(&self) -> Observed {
        self.observed.lock().clone()
    }

    /// Returns the newest observation, or an empty one before the first.
    pub(super) fn last(&self) -> Observation {
        let observed = self.observed.lock();
        observed.seconds.last().cloned().unwrap_or_default()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work)
}

fn ask(probe: &Probe, kept: &Mutex<Observed>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let answer = probe.ask();
        let mut observed = kept.lock();
        observed.answers.push(answer);
        drop(observed);
        std::thread::sleep(PROBE_INTERVAL);
    }
}

fn observe(server: &AtomicU32, kept: &Mutex<Observed>, is_over: &AtomicBool) {
    let mut clocks = Clocks::new();
    let mut due = Instant::now() + INTERVAL;
    let mut starved = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(SLEEP);
        starved = starved.max(before.elapsed().saturating_sub(SLEEP));
        if Instant::now() < due {
            continue;
        }
        due = Instant::now() + INTERVAL;
        let starved_ms = u64::try_from(std::mem::take(&mut starved).as_millis());
        let observation = Observation {
            starved_ms: starved_ms.unwrap_or(u64::MAX),
            ..clocks.look(server.load(Ordering::Relaxed))
        };
        let mut observed = kept.lock();
        observed.seconds.push(observation);
    }
}

/// Processor clocks at the last look.
struct Clocks {
    at: Instant,
    own: Duration,
    machine: Machine,
    server: Option<(Process, Usage)>,
}

impl Clocks {
    fn new() -> Self {
        Self {
            at: Instant::now(),
            own: glassline_net::process_cpu(),
            machine: Machine::now(),
            server: None,
        }
    }

    /// Takes the use since the last look; `server` is the id of a process, or 0.
    fn look(&mut self, server: u32) -> Observation {
        let (now, own, machine) = (Instant::now(), glassline_net::process_cpu(), Machine::now());
        let seconds = (now - self.at).as_secs_f64().max(1e-3);
        let percent = |time: Duration| time.as_secs_f64() / seconds * 100.0;
        let mut observation = Observation {
            at_ms: unix_ms(),
            harness_cpu_percent: percent(own.saturating_sub(self.own)),
            idle_percent: machine.idle_since(&self.machine) * 100.0,
            ..Observation::default()
        };
        if self.server.as_ref().is_none_or(|(it, _)| it.id() != server) {
            let process = Process::of(server).ok();
            self.server = process.map(|process| (process, Usage::default()));
        }
        let usage = self.server.as_mut().map(|(process, _)| process.look());
        match usage {
            Some(Ok(usage)) => {
                observation.server_rss_bytes = Some(usage.resident_bytes);
                observation.server_descriptors = descriptors(server);
                if let Some((_, before)) = &mut self.server {
                    if !before.threads.is_empty() {
                        observation.server_cpu_percent = Some(percent(usage.since(before)));
                    }
                    *before = usage;
                }
            }
            _ => self.server = None,
        }
        (self.at, self.own, self.machine) = (now, own, machine);
        observation
    }
}

/// Number of descriptors that a process has open.
fn descriptors(process: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{process}/fd")).ok()?.count())
}
