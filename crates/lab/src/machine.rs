//! Description of the machine that a run was made on.

use std::fs;

use serde::{Deserialize, Serialize};

/// A machine in a few words; `None` where the system does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Model of the processor; `None` where the system does not tell it.
    pub cpu: Option<String>,
    /// Number of cores of the machine, including those that this process may not use.
    pub cores: usize,
    /// Name and release of the operating system.
    pub kernel: Option<String>,
    /// Physical memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute before the run.
    pub load_1m: Option<f64>,
}

/// Describes this machine at this moment.
pub fn describe() -> Description {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let first = |text: String| -> Option<String> {
        let word = text.split_ascii_whitespace().next()?;
        Some(word.to_owned())
    };
    let processors = read("/proc/cpuinfo");
    let named = |line: &&str| line.starts_with("processor");
    let cores = match processors.lines().filter(named).count() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    };
    let cpu = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, model)| model.trim().to_owned());
    let name = first(read("/proc/sys/kernel/ostype"));
    let release = first(read("/proc/sys/kernel/osrelease"));
    let kib: Option<u64> = read("/proc/meminfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .split_ascii_whitespace()
                .next()
        })
        .and_then(|kib| kib.parse().ok());
    Description {
        cpu,
        cores,
        kernel: name
            .zip(release)
            .map(|(name, release)| format!("{name} {release}")),
        memory_bytes: kib.map(|kib| kib * 1024),
        load_1m: first(read("/proc/loadavg")).and_then(|load| load.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_cores_memory_and_a_name() {
        let machine = describe();
        assert!(machine.cores > 0 && machine.load_1m.is_some());
        assert!(machine.memory_bytes.expect("Linux tells") > 1 << 20);
        assert!(machine.kernel.expect("Linux tells").starts_with("Linux "));
    }
}
