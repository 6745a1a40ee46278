//! Processor time and memory of other processes, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Processor time of a process so far, by thread.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Thread → its name, and nanoseconds on a processor (user and system).
    threads: BTreeMap<u32, (String, u64)>,
}

impl Usage {
    /// Of all threads that process `id` has now. One that ends is missing later,
    /// with all it used: measure processes whose threads stay.
    pub(crate) fn of(id: u32) -> Result<Self, String> {
        let folder = format!("/proc/{id}/task");
        let entries = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        let mut threads = BTreeMap::new();
        for entry in entries.flatten() {
            let Some(thread) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let read = |name: &str| fs::read_to_string(entry.path().join(name));
            // A thread may end while we look.
            let (Ok(name), Ok(schedule)) = (read("comm"), read("schedstat")) else {
                continue;
            };
            let nanos = schedule.split_ascii_whitespace().next();
            let nanos = nanos.and_then(|text| text.parse().ok()).unwrap_or(0);
            threads.insert(thread, (name.trim().to_owned(), nanos));
        }
        Ok(Self { threads })
    }

    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        self.since_by(earlier, |_| true)
    }

    /// What threads with a name that `counts` used since `earlier`.
    pub(crate) fn since_by(&self, earlier: &Self, counts: impl Fn(&str) -> bool) -> Duration {
        let nanos = self
            .threads
            .iter()
            .filter(|(_, (name, _))| counts(name))
            .map(|(thread, (_, nanos))| {
                let before = earlier.threads.get(thread).map_or(0, |(_, nanos)| *nanos);
                nanos.saturating_sub(before)
            })
            .sum();
        Duration::from_nanos(nanos)
    }
}

/// Bytes of process `id` in physical memory.
pub(crate) fn resident_bytes(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| format!("{path} has no VmRSS"))
}

/// The whole machine's time so far, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    idle: u64,
    stolen: u64,
    all: u64,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(1)
            // user nice system idle iowait irq softirq steal; guests are in user.
            .take(8)
            .filter_map(|field| field.parse().ok())
            .collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Self {
            idle: at(3) + at(4),
            stolen: at(7),
            all: ticks.iter().sum(),
        }
    }

    /// Share of all cores' time since `earlier` in which nothing ran, 0–1.
    pub(crate) fn idle_since(self, earlier: Self) -> f64 {
        self.share(earlier, |machine| machine.idle)
    }

    /// Share that the hypervisor gave to others, 0–1.
    pub(crate) fn stolen_since(self, earlier: Self) -> f64 {
        self.share(earlier, |machine| machine.stolen)
    }

    fn share(self, earlier: Self, part: impl Fn(Self) -> u64) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        part(self).saturating_sub(part(earlier)) as f64 / all as f64
    }
}
