//! Baseline of the counts, and the comparison of new counts with it.

use std::fs;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::callgrind::Count;
use crate::comparison::Counts;

/// File of the baseline.
pub(crate) const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/instructions/baseline.json"
);

/// Counts of one compiler and architecture.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    about: Vec<String>,
    compiler: String,
    architecture: String,
    cases: BTreeMap<String, Kept>,
}

/// Counts that are compared, over all operations of a case.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    instructions: u64,
    allocations: u64,
}

/// Result of comparing a count with the baseline.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The baseline has no such count.
    New,
    /// The count is within the tolerance.
    Within { before: u64, percent: f64 },
    /// The count is beyond the tolerance, higher or lower.
    Beyond {
        before: u64,
        percent: f64,
        why: String,
    },
}

const ABOUT: [&str; 4] = [
    "Instructions and allocator calls of our own code, cipher and libc not counted:",
    "equal on every machine of one architecture, because valgrind's processor is the same.",
    "What moves them besides our code is the compiler, which is why it stands here.",
    concat!(
        "Renew: cargo bench -p ",
        env!("CARGO_PKG_NAME"),
        " --bench instructions -- --renew"
    ),
];

impl Baseline {
    /// Reads the baseline; returns an empty one if there is none.
    pub(crate) fn read() -> Result<Self, String> {
        match fs::read_to_string(PATH) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{PATH}: {error}")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{PATH}: {error}")),
        }
    }

    /// Makes a baseline of `counts`.
    pub(crate) fn of(counts: &Counts) -> Self {
        let keep = |count: &Count| Kept {
            instructions: count.ours,
            allocations: count.allocations,
        };
        Self {
            about: ABOUT.map(str::to_owned).to_vec(),
            compiler: compiler(),
            architecture: std::env::consts::ARCH.to_owned(),
            cases: counts
                .iter()
                .map(|(name, count)| (name.clone(), keep(count)))
                .collect(),
        }
    }

    pub(crate) fn write(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(PATH, text + "\n").map_err(|error| format!("{PATH}: {error}"))
    }

    /// Compares with a tolerance of `tolerance` percent, or of `elsewhere` if another compiler
    /// made the baseline. Counts of different architectures are not compared.
    pub(crate) fn judge(
        &self,
        name: &str,
        count: &Count,
        tolerance: f64,
        elsewhere: f64,
    ) -> Verdict {
        let kept = self.cases.get(name);
        let Some(kept) = kept.filter(|_| self.architecture == std::env::consts::ARCH) else {
            return Verdict::New;
        };
        let compiler = compiler();
        let tolerance = if self.compiler == compiler {
            tolerance
        } else {
            elsewhere
        };
        let before = kept.instructions;
        let percent = (count.ours as f64 / before as f64 - 1.0) * 100.0;
        let allocations = count.allocations.abs_diff(kept.allocations) as f64;
        let why = if percent.abs() > tolerance {
            format!(
                "{} instructions instead of {before}, {percent:+.1} %",
                count.ours
            )
        } else if allocations > kept.allocations as f64 * tolerance / 100.0 {
            let now = count.allocations;
            format!("{now} allocations instead of {}", kept.allocations)
        } else {
            return Verdict::Within { before, percent };
        };
        let why = if self.compiler == compiler {
            format!("{why} (tolerance {tolerance} %)")
        } else {
            let theirs = &self.compiler;
            format!("{why} (tolerance {tolerance} %, for {theirs} made the baseline)")
        };
        Verdict::Beyond {
            before,
            percent,
            why,
        }
    }
}

/// Version of the compiler on the PATH, which built this program.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output();
    output.map_or_else(
        |_| "an unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
