//! The media server: sources, shards that serve WebRTC viewers, RTSP threads, QUIC, and HTTP next
//! to them.
//!
//! ```text
//!  sources ─► ingest ─► hub ─┬► shard threads ─► UDP ─► viewers
//!                            └► rtsp threads ──► TCP, UDP ─► players, recorders
//!                               ▲ commands
//!                       http (tokio): WHEP, pages, API, metrics
//! ```

// This crate is outside the sans-IO cores: it reads the clock and draws random numbers for them.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

mod addresses;
mod app;
#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    //! Drivers of fuzz targets that need what no caller of this crate may do.

    pub use crate::sessions::fuzz_registry as registry;
}
mod hls;
mod http;
#[cfg(test)]
#[path = "../../access/tests/login_cases/mod.rs"]
mod login_cases;
mod onvif;
#[cfg(test)]
mod raw_h264;
mod reload;
mod server;
pub mod sessions;
mod stored;
mod sweep;
mod talk;

pub use glassline_hub::CHECK_PREFIX;
pub use glassline_net::{raise_descriptor_limit, return_large_blocks};
pub use glassline_service::metrics::{LOG, LogCounters};
pub use reload::{LoadConfig, LogFilter, Reloading};
pub use server::{
    Fault, Server, StartError, Tried, advertised_ips, check_certificates, try_advertised,
    try_authority, try_certificates, try_config, try_folders, try_listeners, try_nats, try_sources,
};
pub use sessions::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};
pub use stored::StateFileError;
