//! Load on any server: how many viewers it serves, what each costs, and which side was the
//! bottleneck.
//!
//! ```text
//! Ramp ─► Plan ─► run ─► viewers::Pool ──── WHEP, /doSignaling, RTSP ───► any server
//!                  │  ◄─ Progress, gaps ─┘                                  │
//!                  │  ◄─ meter: its processes, ours, the machine ◄── /proc ─┘
//!                  ├─► csv::Row, table::Running   as it happens
//!                  └─► Step ─► verdict ─► Report ─► JSON, SVG, table, thresholds
//!      Trouble: who hinders others (`hol`)
//!                      floor: what the same packets cost at least, here
//! ```

use std::time::Duration;

pub mod bottleneck;
pub mod error;
pub mod floor;
pub mod meter;
pub mod plan;
pub mod ramp;
pub mod report;
pub mod run;
pub mod step;
pub mod threshold;
pub mod timing;
pub mod trouble;
pub mod verdict;

/// How often viewers under load look for datagrams: a server must not pay for
/// waking them.
pub const SWEEP: Duration = Duration::from_millis(20);

/// Of each viewer's socket: a keyframe of a few hundred packets, in the kernel's
/// accounting.
pub const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
