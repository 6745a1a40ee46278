//! Instructions of the hot paths, kept as a regression benchmark: packets sealed and sent
//! to WebRTC viewers, what these viewers send back, packets written to RTSP clients, and
//! packets that become frames again.
//!
//! ```text
//! cargo bench --bench instructions ─► valgrind --tool=callgrind ─► itself, --role=cases
//!        │                                                            │ one dump a case
//!        └─ compare with baseline.json ◄── by function: ours, cipher, libc ◄┘
//! ```
//!
//! Wall time on a shared machine is worth ±20 %; the number of instructions that
//! our own code takes for the same packets is the same on every run. What makes
//! it the same on every machine of one architecture, too:
//!
//! - Only *our* instructions are compared: those of the functions in this binary
//!   that are not aws-lc's. The cipher picks its code by the processor (AES-NI,
//!   VAES, AVX-512), and so does libc for copying; both are printed beside it and
//!   not compared. Under valgrind the processor is valgrind's own, of 2013 (AES-NI
//!   and AVX2, no VAES), whatever the machine has.
//! - Kernel instructions are not counted by callgrind.
//! - Calls of the allocator are counted and compared, its instructions are not.
//!
//! What remains is the compiler: a baseline names the one that made it. With
//! another the tolerance is [`OTHER_COMPILER_PERCENT`]; renew the baseline when
//! the compiler of the continuous integration changes.

#![expect(
    clippy::disallowed_methods,
    reason = "virtual time begins at some instant"
)]

mod baseline;
mod callgrind;
mod cases;
mod lab;
mod rtp;
mod rtsp;

// The server's own files, which are not part of its interface.
#[path = "../../crates/server/src/runtime/counter.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "there it is the server's interface"
)]
mod counter;
#[path = "../../crates/server/src/egress/webrtc/counters.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "there it is the server's interface"
)]
mod counters;
#[path = "../../crates/server/src/runtime/shrink.rs"]
#[cfg_attr(test, expect(unused_imports, reason = "its tests run in the server"))]
mod shrink;
#[path = "../../crates/server/src/runtime/slots.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
#[cfg_attr(test, expect(unused_imports, reason = "its tests run in the server"))]
mod slots;
/// Path under which the server's files look for them.
mod runtime {
    pub(crate) use crate::counter::Counter;
    pub(crate) use crate::shrink::shrink;
    pub(crate) use crate::slots::{Key, Slots};
}
#[path = "../../crates/server/src/egress/webrtc/outbox/mod.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
#[cfg_attr(test, expect(unused_imports, reason = "its tests run in the server"))]
mod outbox;
#[path = "../pair.rs"]
mod pair;

use std::process::ExitCode;

use baseline::{Baseline, Verdict};
use callgrind::Count;

/// Deviation from the baseline that fails, in percent.
const TOLERANCE_PERCENT: f64 = 3.0;

/// Tolerance in percent under another compiler than the baseline's: different inlining changes
/// counts by some percent, a lost optimization by more.
const OTHER_COMPILER_PERCENT: f64 = 10.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let outcome = if has("--role=cases") {
        cases::run()
    } else if !has("--bench") {
        // `cargo test --all-targets` starts benchmarks, too, but without `--bench`.
        println!("nothing is counted without --bench; see `cargo bench --bench instructions`");
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
         commit:\n  cargo bench --bench instructions -- --renew",
        failures.join("\n")
    ))
}

/// Counts by name of the case.
type Counts = std::collections::BTreeMap<String, Count>;
