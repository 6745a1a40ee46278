//! Publishing of live streams to a server.
//!
//! ```text
//! file, ladder ──────────────── units ─┐
//! camera (RTSP), pipe (Annex B) ───────┤► queue ─► uplink: MoQ, WHIP, RTSP
//! pipe (y4m), pattern ─► Encoder ──────┘   │ late groups are dropped
//!        ▲ target, keyframe                ▼
//!        └────────────── adaptation ◄── backlog, deliverable rate
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: sources and sessions run in real time"
)]

mod clock;
pub mod dispatch;
pub mod encoder;
pub mod input;
pub mod pattern;
pub mod queue;
pub mod session;
pub mod source;
mod unit;
pub mod uplink;

pub use glassline_congestion::Algorithm;
pub use glassline_congestion::adaptation::Rule;
pub use glassline_trust::Trust;
pub use unit::Unit;
