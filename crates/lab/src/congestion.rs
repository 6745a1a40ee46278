//! Congestion control under experiment: many live uploads in virtual time, each under
//! every arm, and what the arms did to delay, goodput and retransmission.
//!
//! ```text
//! population ─► sessions ─► session under each arm ─► figures ─► statistics ─► report
//! ```

pub mod outcome;
pub mod report;
pub mod statistics;
