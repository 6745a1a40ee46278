//! Congestion control under experiment: many live uploads in virtual time, each under
//! every arm, and what the arms did to delay, goodput and retransmission.
//!
//! ```text
//! population ─► sessions ─► session under each arm ─► figures ─► statistics ─► report
//!                                │
//!    ┌───────────────────────────┘
//!    ▼
//!  camera ─► schedule ─► noq-proto ─► sim::Link, shared with ─► noq-proto ─► receiver
//!     ▲ bitrate             ▲ CongestionControl   bulk flows
//!     └─── Adaptation ◄── CongestionMonitor, Wire: what was sent, acked, lost, sent again
//! ```
//!
//! The ends of an upload know no clock and no socket. [`session`] drives them in virtual
//! time; a userspace relay carries the same over sockets.

pub mod anchors;
pub mod arm;
pub mod experiment;
pub mod log;
pub mod oracle;
pub mod outcome;
pub mod populations;
mod relay;
pub mod report;
pub mod sensitivity;
pub mod session;
pub mod statistics;
mod upload;
mod virtual_time;
