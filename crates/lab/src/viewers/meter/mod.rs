//! Processor time and memory of other processes, of ourselves and of the whole
//! machine, from `/proc`.
//!
//! ```text
//! /proc/PID/task/*/schedstat  nanoseconds, living threads ──┐
//! /proc/PID/stat              10 ms ticks, ended ones too  ─┼─► Account ─► Usage
//! /proc/PID/task/*/children   the tree below PID ───────────┘
//! /proc/stat                  ticks of every core ─────────────────────► Machine
//! ```
//!
//! `schedstat` is exact but forgets a thread when it ends, `stat` is coarse but
//! forgets nothing: an account keeps both, so that a server with short-lived
//! threads or children is charged for all of them. Linux only; elsewhere every
//! look is an error that says so.

mod account;
mod machine;
mod process;

pub use account::Thread;
pub use machine::Machine;
pub use process::{Error, Process, Usage, allowed_cores};
