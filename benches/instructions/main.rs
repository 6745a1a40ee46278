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
//! another the tolerance is larger; renew the baseline when the compiler of the
//! continuous integration changes. The bench of the same name in `crates/sctp`
//! shares [`callgrind`], [`baseline`] and [`comparison`].

#![expect(
    clippy::disallowed_methods,
    reason = "virtual time begins at some instant"
)]

mod baseline;
mod callgrind;
mod cases;
mod comparison;
mod lab;
#[path = "../pair.rs"]
mod pair;
mod rtp;
mod rtsp;

use std::process::ExitCode;

fn main() -> ExitCode {
    comparison::main(cases::run)
}
