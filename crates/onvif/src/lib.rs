//! Cameras found, asked and moved by ONVIF.
//!
//! ```text
//! messages, sans-IO                                   sockets
//! envelope ◄─ discovery ◄──────────────────────────── find: UDP 3702 ─► Device
//!     ▲    ◄─ call: device, media, ptz ◄───────────── Camera ─► http: one POST a request
//! ```
//!
//! Everything has a deadline. A camera is a stranger: what it sends is bounded, and it is asked at one
//! address, wherever its answers point to.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clocks and draws the randomness for the messages"
)]

mod calendar;
mod call;
mod camera;
mod credentials;
mod device;
mod discovery;
mod envelope;
mod http;
mod media;
mod ptz;
mod search;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    //! The driver of a fuzz target that needs what no caller of this crate may do.

    pub use crate::call::fuzz_responses as responses;
}
pub use camera::{Camera, Error, is_onvif};
pub use credentials::Credentials;
pub use device::Information;
pub use discovery::{DEVICES_MAX, Device};
pub use glassline_trust::Trust;
pub use http::HttpError;
pub use media::{Profile, StreamProfile, Video};
pub use ptz::{Axes, MovableProfile, Preset, Velocity};
pub use search::{DISCOVERY_PORT, Scope, find};
