//! The counts that are kept, and how new ones compare.

use std::fs;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::Counts;
use crate::callgrind::Count;

/// Where they are kept.
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

/// What is compared: all operations of a case together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    instructions: u64,
    allocations: u64,
}

/// How a count compares.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// There is nothing to compare with.
    New,
    /// As before.
    Within { before: u64, percent: f64 },
    /// Better or worse, and why that was seen.
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
    "Renew: cargo bench --bench instructions -- --renew",
];

impl Baseline {
    /// The kept one; an empty one if none was ever made.
    pub(crate) fn read() -> Result<Self, String> {
        match fs::read_to_string(PATH) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{PATH}: {error}")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{PATH}: {error}")),
        }
    }

    /// One that `counts` will be compared with from now on.
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

    /// Compares with `tolerance` percent, or with `elsewhere` if another compiler
    /// made the baseline. Nothing is compared across architectures.
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

/// The compiler on the PATH, which is the one that built this.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output();
    output.map_or_else(
        |_| "an unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
