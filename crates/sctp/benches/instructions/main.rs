//! Instructions that messages on data channels cost, kept as a regression benchmark: small
//! messages, of which dozens share a packet, and bulk data.
//!
//! `cargo bench -p glassline-sctp --bench instructions`, with valgrind on the PATH, takes a
//! minute with compiling. What is counted and what is compared, and why, is described at the
//! bench of the same name at the root of the workspace, whose counting is used here.

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
mod transfer;

use std::process::ExitCode;

fn main() -> ExitCode {
    comparison::main(cases::run)
}
