//! Live streams out.
//!
//! ```text
//! file, ladder ──────────────── units ─┐
//! camera (RTSP), pipe (Annex B) ───────┤► queue ─► outlet: MoQ
//! pipe (y4m), pattern ─► Encoder ──────┘   │ late groups go
//!        ▲ target, keyframe                ▼
//!        └────────────── adaptation ◄── backlog, deliverable rate
//! ```

pub mod encoder;
pub mod pattern;
pub mod queue;
mod unit;

pub use unit::Unit;
