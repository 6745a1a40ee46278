//! The parts of the server's runtime that reports need, where the server's files look for them.

#[path = "../../../server/src/runtime/calendar.rs"]
mod calendar;
#[path = "../../../server/src/runtime/clock.rs"]
mod clock;
#[path = "../../../server/src/runtime/session_id.rs"]
mod session_id;
#[path = "../../../server/src/runtime/shrink.rs"]
mod shrink;

pub(crate) use clock::Clock;
pub(crate) use session_id::SessionId;
pub(crate) use shrink::shrink;
