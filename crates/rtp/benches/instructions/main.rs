//! Instructions that a packet of a camera costs until its frame is whole, kept as a regression
//! benchmark: parsed, put in order, counted for reports, and joined with the others of the frame.
//!
//! `cargo bench -p glassline-rtp --bench instructions`, with valgrind on the PATH, takes a
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
mod camera;
mod cases;
#[path = "../../../../benches/instructions/comparison.rs"]
mod comparison;

use std::process::ExitCode;

fn main() -> ExitCode {
    comparison::main(cases::run)
}
