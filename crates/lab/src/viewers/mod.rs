//! Load on any server: how many viewers it serves, what each viewer costs, and which side was the
//! bottleneck.
//!
//! ```text
//! Ramp ─► Plan ─► run ─► viewers::Pool ─ WHEP, /doSignaling, RTSP, HLS ─► any server
//!                  │  ◄─ Progress, gaps ─┘                                  │
//!                  │  ◄─ meter: its processes, ours, the machine ◄── /proc ─┘
//!                  ├─► csv::Row, table::Running   during the run
//!                  └─► Step ─► verdict ─► Report ─► JSON, SVG, table, thresholds
//!      Trouble: clients that hinder others (`hol`)
//!                      floor: the least that the same packets cost on this machine
//! ```

use std::time::Duration;

pub mod bottleneck;
pub mod error;
pub mod floor;
pub mod plan;
pub mod ramp;
pub mod report;
pub mod run;
pub mod step;
pub mod threshold;
pub mod timing;
pub mod trouble;
pub mod verdict;

/// Interval at which viewers under load poll for datagrams, so that waking them costs the server
/// nothing.
pub const SWEEP: Duration = Duration::from_millis(20);

/// Receive buffer of each viewer's socket in bytes: a keyframe of a few hundred packets, as the
/// kernel counts them.
pub const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
