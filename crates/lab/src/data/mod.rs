//! Data-channel throughput between two ends, as iperf measures TCP's.
//!
//! ```text
//! client: Plan ── POST /data {plan, offer} ──► serve: a thread for the test
//!         Session ◄──── answer ────────────── Session
//!   end (thread) ═══ control: start, ready, samples, report ═══ end (thread)
//!                ═══ data-0 … data-N: messages up, down or both ═══
//!   samples of both ends ─► Interval ─► Report: table, JSON, CSV, SVG, bound
//! ```
//!
//! One thread per end owns socket, session and workload, so that the thread's processor time is
//! the cost of the data it carries. A browser at `/data` uses the same HTTP requests and the same
//! control channel. With [`Impairment`](glassline_client::impairment::Impairment) the datagrams
//! pass a proxy with simulated links, in a thread of its own.

pub mod client;
pub mod control;
mod end;
pub mod plan;
pub mod report;
pub mod serve;
pub mod staircase;
pub mod sweep;
#[cfg(test)]
mod tests;

pub use client::{Dial, DialError, Relays, measure};
pub use control::{Control, Sample};
pub use end::EndError;
pub use glassline_webrtc::turn;
pub use plan::{Direction, Plan};
pub use report::Report;
pub use serve::{Host, Server, Unattended};
