//! QUIC under our congestion control.
//!
//! ```text
//! noq connection ── packets sent, acked, lost ──► Steered ──► congestion::Flow ──► Controller
//!                ◄─ window, pacing rate ────────┘    └─────► Observed ──► bitrate adaptation,
//!                                                                         metrics, the lab
//! ```
//!
//! [`Steering`] is what a connection is configured with; [`Observed`] is what everybody
//! else sees of it. The same `noq-proto` runs over sockets and in virtual time.

mod steer;

pub use steer::{Observation, Observed, Steering};
