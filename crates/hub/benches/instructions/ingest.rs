//! What reports are joined with, where the server's files look for it.

#[path = "../../../server/src/ingest/frame_codes.rs"]
mod frame_codes;
#[path = "../../../server/src/ingest/whip/captures.rs"]
pub(crate) mod whip;

pub(crate) use frame_codes::FrameCode;
