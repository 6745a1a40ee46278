//! The laboratory: measures servers under load, adaptation, congestion control, data channels, jitter
//! buffers, ways to send, and the stages of calls.
//!
//! ```text
//! viewers::run ─► client::viewers::Pool ──── WHEP, RTSP ───► any server ─► viewers::Report
//! adaptive::Plan ─► the server's sender over paths in virtual time ─► adaptive::Report
//! congestion::session ─► live uploads over QUIC in virtual time ─► Measured
//! data::measure ─► data channels between two ends ─► data::Report
//! jitter::Contender ─► jitter buffers on the same delays ─► jitter::Report
//! send::Experiment ─► every way to send in turn, loopback ─► send::Report
//! cluster::run ─► clusters in virtual time, under load and under faults ─► cluster::Report
//! ip_path::IpPath ─► two interfaces of this machine, with delay and loss between them
//! call::Join ─► both ends' stamps of a call, or other engines' logs ─► call::Report
//!           plot: what their charts share      statistics: quantiles
//! ```
//!
//! Every tool has a folder, and knows no other tool. Signaling, receiving and counting are the
//! client's; command lines, progress bars and files are the command's.

#![expect(clippy::disallowed_methods, reason = "a laboratory measures real time")]

pub mod adaptive;
pub mod call;
pub mod chaos;
pub mod cluster;
pub mod condition;
pub mod congestion;
pub mod data;
#[cfg(target_os = "linux")]
pub mod ip_path;
pub mod jitter;
pub mod machine;
pub mod meter;
mod plot;
pub mod send;
mod statistics;
pub mod timestamp;
pub mod viewers;
pub mod waterfall;
