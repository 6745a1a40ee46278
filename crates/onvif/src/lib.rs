//! Cameras of a local network, found and asked by ONVIF.
//!
//! ```text
//! Probe (WS-Discovery, UDP 3702) ─► ProbeMatch: Device ─► GetProfiles, GetStreamUri ─► StreamProfile
//! ```
//!
//! Everything has a deadline. A camera is a stranger: what it sends is bounded, and it is asked at
//! the address that it answered from, wherever its answers point to.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clocks and draws the randomness for the messages"
)]

mod discovery;
mod envelope;
mod http;
mod media;
#[cfg(test)]
#[path = "../../client/src/test_http.rs"]
mod test_http;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use url::Url;

pub use discovery::{Scope, find};
pub use http::HttpError;
pub use media::stream_profiles;

/// Most devices that are listed; answers of further ones are ignored.
pub const DEVICES_MAX: usize = 256;

/// A device that answered a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Identifier that stays the same for the device's life, usually a URN with a UUID.
    pub id: String,
    /// Address that the device answered from.
    pub address: SocketAddr,
    /// Name that the device has by its scopes.
    pub name: Option<String>,
    /// Model that the device has by its scopes.
    pub hardware: Option<String>,
    /// Place that the device has by its scopes.
    pub location: Option<String>,
    /// URL of its device service, at the address that it answered from.
    pub service: Url,
}

/// User name and password at a camera.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User name, as the camera knows it.
    pub user: String,
    /// Password, which is sent as a digest only.
    pub password: String,
}

/// A way in which a camera encodes its video, and where it is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProfile {
    /// Name for people, as the camera has it.
    pub name: String,
    /// Encoding like `H264`; `None` for a profile without video.
    pub encoding: Option<String>,
    /// Width and height in pixels, if the camera states them.
    pub size: Option<(u32, u32)>,
    /// RTSP URL, without user and password.
    pub url: Url,
}

/// Why a camera did not tell its streams; every text names the camera's URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no connection, or the response took too long.
    #[error("cannot reach {url}: {source}")]
    Unreachable {
        /// URL of the request.
        url: Url,
        /// Error of the HTTP client.
        source: HttpError,
    },
    /// The camera wants a user and a password, or others than these.
    #[error("{0} asks for a user and a password of the camera, or refuses these")]
    Unauthorized(Url),
    /// The camera refused for another reason.
    #[error("{url} refuses: {reason}")]
    Refused {
        /// URL of the request.
        url: Url,
        /// The camera's own words, or the HTTP status.
        reason: String,
    },
    /// The response is not what ONVIF says.
    #[error("{url} sent no usable response: {reason}")]
    Unusable {
        /// URL of the request.
        url: Url,
        /// Name of the request, and what is missing or wrong in the response.
        reason: String,
    },
    /// The camera has no media service of the first version.
    #[error("{0} has no media service (ONVIF Profile S)")]
    NoMedia(Url),
}

/// Shows the user alone.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
