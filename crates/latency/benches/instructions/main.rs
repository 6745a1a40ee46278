//! Cost of the reports that player pages post once a second: read, joined with the server's stamps,
//! counted, and answered. HTTP and the way to the viewer's shard are not in it.
//!
//! `cargo bench -p glassline-latency --bench instructions` counts instructions with valgrind and compares
//! them with a baseline; `-- --time` prints processor time instead, and the part of a core that
//! 1,000 pages take. What is counted and compared, and why, is described at the bench of the same
//! name at the root of the workspace, whose counting is used here.

#[path = "../../../../benches/instructions/baseline.rs"]
mod baseline;
#[path = "../../../../benches/instructions/callgrind.rs"]
mod callgrind;
mod cases;
#[path = "../../../../benches/instructions/comparison.rs"]
mod comparison;
mod pages;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--time") {
        cases::print_times();
        return ExitCode::SUCCESS;
    }
    comparison::main(cases::run)
}
