//! Cost of the reports that player pages post once a second: read, joined with the server's stamps,
//! counted, and answered. HTTP and the way to the viewer's shard are not in it.
//!
//! `cargo bench -p glassline-hub --bench instructions` counts instructions with valgrind and compares
//! them with a baseline; `-- --time` prints processor time instead, and the part of a core that
//! 1,000 pages take. What is counted and compared, and why, is described at the bench of the same
//! name at the root of the workspace, whose counting is used here.
//!
//! The files are the server's own. The bench is here because this crate has few dependencies, so
//! that an optimized build takes a minute.

#![expect(
    clippy::disallowed_methods,
    reason = "virtual time begins at some instant"
)]

#[path = "../../../../benches/instructions/baseline.rs"]
mod baseline;
#[path = "../../../../benches/instructions/callgrind.rs"]
mod callgrind;
mod cases;
#[path = "../../../../benches/instructions/comparison.rs"]
mod comparison;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "there it is the server's interface"
)]
mod ingest;
#[expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "there it is the server's interface"
)]
mod latency;
mod pages;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--time") {
        cases::print_times();
        return ExitCode::SUCCESS;
    }
    comparison::main(cases::run)
}
