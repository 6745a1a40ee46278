//! Keeps the server's threads and tasks running after a panic, and tells whether each makes
//! progress.
//!
//! ```text
//!  turn of a thread ─ panics ─► one peer was served: that peer is dropped ─► next turn
//!                             └► else: the thread starts anew with its sockets ─► next turn
//!                                  └► five times in a minute: the process ends with an error
//!  turn of a thread ─ Heartbeat ─► Watchdog: who made no progress for 5 s ─► health, log, offers
//! ```
//!
//! A panic is a bug of this server, whoever caused it. It must cost as little as possible: the peer
//! whose input led to it at best, never the media of other threads, and never a thread that is gone
//! while the rest of the server goes on as if nothing had happened.

#[cfg(debug_assertions)]
mod fault;
mod fault_point;
mod heartbeat;
mod panicked;
mod part;
mod polling;
mod restart_limit;
mod serving;
mod supervisor;
mod task;
mod watchdog;

#[cfg(debug_assertions)]
pub use fault::Fault;
pub use fault_point::FaultPoint;
pub use heartbeat::{Heartbeat, ThreadProgress};
pub use panicked::Panicked;
pub use panicked::catch;
pub use part::{NamedTask, Part, PartCounters};
pub use polling::{PollingThread, Turn};
pub use serving::{ServedPeer, Serving};
pub use supervisor::Supervisor;
pub use task::{keep_running, run_once, spawn_kept};

#[cfg(test)]
mod tests;
