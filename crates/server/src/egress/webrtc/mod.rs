//! One stream to one WebRTC viewer: what is sent next, when, and under which numbers.

mod counters;
mod frame_log;
mod outbox;
mod pacer;
mod redundancy;
mod track_sender;

pub use counters::SendCounters;
pub(crate) use frame_log::FrameLog;
pub(crate) use outbox::{Batch, Outbox, Route};
pub(crate) use pacer::Pacer;
pub(crate) use redundancy::Redundancy;
pub(crate) use track_sender::{Outlet, Patience, Queued, Taken};
