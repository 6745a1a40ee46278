//! The laboratory: loads any server with viewers and says what each cost, and
//! which side was the bottleneck.
//!
//! ```text
//! Ramp ─► Plan ─► run ─► viewers::Pool ──── WHEP, /doSignaling, RTSP ───► any server
//!                  │  ◄─ Progress, gaps ─┘                                  │
//!                  │  ◄─ meter: its processes, ours, the machine ◄── /proc ─┘
//!                  ├─► csv::Row, table::Running   as it happens
//!                  └─► Step ─► verdict ─► Report ─► JSON, SVG, table, thresholds
//!      Trouble: who hinders others (`hol`)
//!                      floor: what the same packets cost at least, here
//! send::Experiment ─► every way to send in turn, loopback ─► send::Report
//! congestion::session ─► live uploads over QUIC in virtual time ─► Measured
//! jitter::Contender ─► jitter buffers on the same delays ─► jitter::Report
//! ```
//!
//! Does not signal, receive or count: that is the client's. Does not parse a
//! command line, draw progress or open files: that is the command's.

#![expect(clippy::disallowed_methods, reason = "a laboratory measures real time")]

use std::time::Duration;

pub mod call;
pub mod congestion;
pub mod data;
pub mod floor;
mod http;
pub mod jitter;
pub mod machine;
pub mod meter;
pub mod plan;
pub mod ramp;
pub mod report;
pub mod run;
pub mod send;
pub mod step;
pub mod threshold;
pub mod trouble;
pub mod verdict;

/// How often viewers under load look for datagrams: a server must not pay for
/// waking them.
pub const SWEEP: Duration = Duration::from_millis(20);

/// Of each viewer's socket: a keyframe of a few hundred packets, in the kernel's
/// accounting.
pub const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The value below which `share` (0–1) of `values` lie, nearest rank.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}
