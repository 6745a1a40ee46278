//! Processor clocks of all parties at one time, and the use between two times.

use std::time::{Duration, Instant};

use super::mark::Account;
use crate::meter::{self, Machine, Process, Usage};
use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::report::Baseline;
use crate::viewers::step::Step;
use crate::viewers::verdict::{Evidence, Server};

/// Processes that are measured.
#[derive(Debug)]
pub(super) struct Clocks {
    server: Option<Process>,
    own: Process,
    /// Cores that the server may use.
    server_cores: Vec<usize>,
    server_gone: Option<String>,
}

/// Readings of all clocks at one time.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) at: Instant,
    server: Option<Usage>,
    own: Usage,
    machine: Machine,
    server_cores: Vec<usize>,
}

impl Clocks {
    pub(super) fn new(server: Option<u32>) -> Result<Self, meter::Error> {
        Ok(Self {
            server: server.map(Process::of).transpose()?,
            own: Process::own()?,
            server_cores: server.map(meter::allowed_cores).unwrap_or_default(),
            server_gone: None,
        })
    }

    pub(super) fn look(&mut self) -> Moment {
        let server = self.server.as_mut().and_then(|server| {
            let look = server.look();
            look.map_err(|error| self.server_gone = Some(error.to_string()))
                .ok()
        });
        Moment {
            at: Instant::now(),
            server,
            // The entries of this process can always be read.
            own: self.own.look().unwrap_or_default(),
            machine: Machine::now(),
            server_cores: self.server_cores.clone(),
        }
    }

    /// Reason why the server is no longer measured.
    pub(super) fn server_gone(&self) -> Option<&str> {
        self.server_gone.as_deref()
    }
}

impl Moment {
    pub(super) fn since(&self, earlier: &Self) -> Used {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let share = |time: Duration| time.as_secs_f64() / seconds.max(1e-9);
        let busiest = |now: &Usage, before: &Usage| {
            let (name, ran, waited) = now.busiest_since(before)?;
            Some((name.to_owned(), share(ran), share(waited)))
        };
        let (_, generator_thread, generator_waited) =
            busiest(&self.own, &earlier.own).unwrap_or_default();
        let server = self.server.as_ref().zip(earlier.server.as_ref());
        let server = server.map(|(now, before)| {
            let (thread_name, thread, _) = busiest(now, before).unwrap_or_default();
            let cores = &self.server_cores;
            Server {
                cpu: share(now.since(before)),
                thread,
                thread_name,
                cores: if cores.is_empty() {
                    self.machine.cores().max(1)
                } else {
                    cores.len()
                },
                cores_idle: self.machine.cores_idle_since(&earlier.machine, cores),
            }
        });
        Used {
            seconds,
            server,
            server_rss_bytes: self.server.as_ref().map(|server| server.resident_bytes),
            generator: share(self.own.since(&earlier.own)),
            generator_thread,
            generator_waited,
            cores: self.machine.cores().max(1),
            machine_idle: self.machine.idle_since(&earlier.machine),
            machine_stolen: self.machine.stolen_since(&earlier.machine),
            machine_busiest_core: self.machine.busiest_core_since(&earlier.machine),
        }
    }

    pub(super) fn baseline_since(&self, earlier: &Self) -> Option<Baseline> {
        let used = self.since(earlier);
        Some(Baseline {
            server_cpu_percent: used.server?.cpu * 100.0,
            server_rss_bytes: used.server_rss_bytes?,
        })
    }

    /// Resident memory of the server at this time; `None` if it is not measured.
    pub(super) fn server_rss_bytes(&self) -> Option<u64> {
        self.server.as_ref().map(|server| server.resident_bytes)
    }
}

/// Processor time between two readings, in shares of one core unless said otherwise.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) seconds: f64,
    pub(super) server: Option<Server>,
    server_rss_bytes: Option<u64>,
    pub(super) generator: f64,
    generator_thread: f64,
    generator_waited: f64,
    cores: usize,
    /// Idle share of all cores.
    pub(super) machine_idle: f64,
    machine_stolen: f64,
    machine_busiest_core: f64,
}

impl Used {
    /// The processor figures of a step with `viewers`; all other fields are empty.
    pub(super) fn step(
        &self,
        viewers: usize,
        account: &Account,
        baseline: Option<&Baseline>,
    ) -> Step {
        let cpu = self.server.as_ref().map(|server| server.cpu * self.seconds);
        let per = |unit: f64, of: f64| cpu.filter(|_| of > 0.0).map(|cpu| cpu * unit / of);
        let viewer_seconds = account.watched as f64 * self.seconds;
        let rss_grown = self
            .server_rss_bytes
            .zip(baseline)
            .map(|(now, baseline)| now.saturating_sub(baseline.server_rss_bytes));
        let connected = account.connected as u64;
        Step {
            viewers,
            connected: account.connected,
            failed: account.failed,
            first_failure: None,
            bad_clients: 0,
            duration_s: self.seconds,
            packets_expected: account.expected,
            packets_received: account.received,
            packets_recovered: account.recovered,
            packets_nacked: account.nacked,
            received_mbps: account.mbps(),
            delivered_ratio: account.delivered_ratio().unwrap_or(0.0),
            rtp_clock_ratio: 1.0,
            slowest_viewer_ratio: account.slowest_ratio().unwrap_or(0.0),
            loss_ratio: account.loss_ratio().unwrap_or(0.0),
            frames_verified: account.frames_verified,
            frames_damaged: account.frames_damaged,
            join_ms: Default::default(),
            gap_ms: Default::default(),
            hol: None,
            describe_ms: None,
            delay_ms: None,
            hls: account.hls.figures(self.seconds),
            stages: None,
            server_cpu_percent: self.server.as_ref().map(|server| server.cpu * 100.0),
            server_busiest_thread_percent: self.server.as_ref().map(|s| s.thread * 100.0),
            server_cpu_us_per_packet: per(1e6, account.packets() as f64),
            server_cpu_ms_per_viewer_second: per(1e3, viewer_seconds),
            server_rss_bytes: self.server_rss_bytes,
            server_rss_bytes_per_viewer: rss_grown.and_then(|grown| grown.checked_div(connected)),
            server_cpu_to_floor_ratio: None,
            generator_cpu_percent: self.generator * 100.0,
            generator_busiest_thread_percent: self.generator_thread * 100.0,
            machine_cpu_percent: (1.0 - self.machine_idle) * 100.0,
            machine_busiest_core_percent: self.machine_busiest_core * 100.0,
            machine_stolen_percent: self.machine_stolen * 100.0,
            bottleneck: Bottleneck::None,
            reason: String::new(),
        }
    }

    /// Evidence by which `step` is judged.
    pub(super) fn evidence(&self, step: &Step) -> Evidence {
        Evidence {
            viewers: step.viewers,
            connected: step.connected,
            delivered_ratio: step.delivered_of_clock(),
            first_failure: step.first_failure.clone(),
            generator: self.generator,
            generator_thread: self.generator_thread,
            generator_waited: self.generator_waited,
            cores: self.cores,
            machine_idle: self.machine_idle,
            machine_stolen: self.machine_stolen,
            server: self.server.clone(),
        }
    }
}
