//! Video without a container: H.264 and H.265 as NAL units with start codes, split into access
//! units.
//!
//! ```text
//! annexb: NAL units ─► h264, h265 (each a Grammar) ─► video: index, access units
//!                      what begins a unit, which sets    display_order: when each is shown
//! ```

pub mod annexb;
pub(crate) mod display_order;
pub(crate) mod grammar;
pub(crate) mod h264;
pub(crate) mod h265;
pub(crate) mod video;
