//! Processor time and memory of other processes, of this process and of the machine, from
//! `/proc`.
//!
//! ```text
//! /proc/PID/task/*/schedstat  nanoseconds, living threads ──┐
//! /proc/PID/stat              10 ms ticks, ended ones too  ─┼─► Account ─► Usage
//! /proc/PID/task/*/children   the tree below PID ───────────┘
//! /proc/stat                  ticks of every core ─────────────────────► Machine
//! ```
//!
//! `schedstat` is exact but loses a thread when it ends, `stat` is coarse but loses nothing. An
//! account combines both, so that a server with short-lived threads or children is charged for
//! all of them. Linux only; elsewhere every measurement returns an error that says so.

mod account;
mod machine;
mod process;

pub use account::Thread;
pub use machine::Machine;
pub use process::{Error, Process, Usage, allowed_cores};
