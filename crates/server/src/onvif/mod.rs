//! Cameras of the network, found and moved by ONVIF.
//!
//! ```text
//! operators: POST /api/v1/camera-searches ─► Inquiries::find ─► devices
//!            POST /api/v1/camera-profiles ─► Inquiries::ask ──► model, streams
//! viewers:   …/streams/{name}/ptz ─► PtzCameras ─► probe, once ─► Mover ─► camera
//! ```
//!
//! Addresses that callers name obey the rules for sources of the API. A movement ends by itself.

mod inquiry;
mod mover;
mod ptz_cameras;

pub(crate) use inquiry::{Inquiries, InquiryError, SECONDS_MAX, ToldCamera};
pub(crate) use mover::{MoveError, Mover};
pub(crate) use ptz_cameras::{PtzCameras, PtzError};

/// Cameras that operators look for, and that viewers move.
#[derive(Debug, Default)]
pub(crate) struct Onvif {
    pub(crate) inquiries: Inquiries,
    pub(crate) cameras: PtzCameras,
}
