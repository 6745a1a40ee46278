//! The program around the cases: counts, prints, and compares with the baseline or renews it.

use std::process::ExitCode;

use crate::baseline::{self, Baseline, Verdict};
use crate::callgrind::{self, Count};
use crate::cases;

/// Deviation from the baseline that fails, in percent.
const TOLERANCE_PERCENT: f64 = 3.0;

/// Tolerance in percent under another compiler than the baseline's: different inlining changes
/// counts by some percent, a lost optimization by more.
const OTHER_COMPILER_PERCENT: f64 = 10.0;

/// Counts by name of the case.
pub(crate) type Counts = std::collections::BTreeMap<String, Count>;

/// Does what the arguments ask for. `run` runs all cases, in the process under callgrind.
pub(crate) fn main(run: fn() -> Result<(), String>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let outcome = if has("--role=cases") {
        run()
    } else if !has("--bench") {
        // `cargo test --all-targets` starts benchmarks, too, but without `--bench`.
        println!("nothing is counted without --bench: use `cargo bench --bench instructions`");
        Ok(())
    } else {
        count(has("--renew"))
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("instructions: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Counts and prints; then compares with the baseline, or renews it.
fn count(renew: bool) -> Result<(), String> {
    let counts = callgrind::run()?;
    let baseline = Baseline::read()?;
    println!(
        "{:<22} {:>10} {:>10} {:>8} {:>12} {:>10} {:>8}",
        "per operation", "ours", "baseline", "%", "allocations", "cipher", "libc"
    );
    let mut failures = Vec::new();
    for case in cases::CASES {
        let Some(count) = counts.get(case.name) else {
            return Err(format!("{} was not run", case.name));
        };
        let operations = case.operations as f64;
        let each = |total: u64| total as f64 / operations;
        let verdict = baseline.judge(case.name, count, TOLERANCE_PERCENT, OTHER_COMPILER_PERCENT);
        let (before, change) = match &verdict {
            Verdict::New => ("–".to_owned(), "–".to_owned()),
            Verdict::Within { before, percent }
            | Verdict::Beyond {
                before, percent, ..
            } => (format!("{:.0}", each(*before)), format!("{percent:+.1}")),
        };
        println!(
            "{:<22} {:>10.0} {before:>10} {change:>8} {:>12.2} {:>10.0} {:>8.0}",
            case.about,
            each(count.ours),
            each(count.allocations),
            each(count.cipher),
            each(count.libc),
        );
        if let Verdict::Beyond { why, .. } = verdict {
            failures.push(format!("{}: {why}", case.name));
        }
    }
    if renew {
        Baseline::of(&counts).write()?;
        println!("renewed {}", baseline::PATH);
        return Ok(());
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nIf that is meant (or better), renew and commit the baseline, and say why in the \
         commit:\n  cargo bench -p {} --bench instructions -- --renew",
        failures.join("\n"),
        env!("CARGO_PKG_NAME")
    ))
}
