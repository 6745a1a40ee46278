//! What the server is told: one [`Config`], from a YAML file, the command line
//! or both.
//!
//! ```text
//! glassline.yml ─► Config::load ─┐
//!                  Config::default ─► command line overrides ─► Server::start
//! ```
//!
//! Every key has a default, unknown keys are errors that name file, line and
//! the nearest key there is. Tokens and passwords are never printed:
//! [`Debug`], [`Config::to_yaml`] and [`Config::to_json`] hide them.

mod data;
mod identity;
mod load;
mod parts;
mod quic;
mod rtsp;
mod sources;
mod users;
mod webrtc;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use glassline_hub::StreamName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::auth::Auth;
use crate::ingest::{Input, SourceSpec};

pub use crate::auth::{Secret, SecretError};
pub use data::{Data, DataAccess, DataAccessError};
pub use identity::{Identity, IdentityError};
pub use load::Error;
pub use parts::{Origin, OriginError};
pub use quic::{Quic, QuicIdentityError};
pub use rtsp::{Groups, Multicast, Rtsp, RtspTls, Srtp};
pub use users::{users_in, users_of};
pub use webrtc::{Pacing, PacingError, WebRtc};

/// Everything that can be configured; [`Config::default`] serves on loopback
/// without sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(
    title = "glassline.yml",
    description = "Everything that can be configured."
)]
pub struct Config {
    /// Player pages, WHEP and the public API.
    pub http: Http,
    /// WebRTC media: one UDP port for all viewers.
    pub media: Media,
    /// How WebRTC viewers are sent to.
    pub webrtc: WebRtc,
    /// Streams over RTSP.
    pub rtsp: Rtsp,
    /// Streams over QUIC, as MoQ: published and read.
    pub quic: Quic,
    /// Metrics, health and the whole API, for operators.
    pub admin: Admin,
    /// Threads that serve viewers, 1 to 256; null for one per core.
    #[serde(deserialize_with = "parts::shards")]
    #[schemars(range(min = 1, max = 256))]
    pub shards: Option<usize>,
    /// Who may read and publish.
    pub auth: Auth,
    /// Bounds on what one server takes on.
    pub limits: Limits,
    /// Streams by name and where each comes from: `rtsp://…`, files separated
    /// by commas, or `demo`.
    #[serde(with = "sources")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub sources: BTreeMap<StreamName, Input>,
    /// Which other web sites may embed the streams.
    pub cors: Cors,
    /// Where this was read from, so that its users can be read again.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// Player pages, WHEP and the public API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
}

/// WebRTC media over UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Media {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
    /// Addresses that viewers are told to send to, where they differ from those
    /// of this machine's interfaces (port forwarding, clouds). Empty: the
    /// address listened on, or every interface's if that is unspecified.
    #[serde(deserialize_with = "parts::advertise")]
    pub advertise: Vec<IpAddr>,
}

/// Metrics, health and the whole API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
}

/// Bounds on what one server takes on. All but `departed_s` are at least 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Viewers at once, connected or connecting.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub viewers: usize,
    /// Viewers that got an answer but have not finished their handshake.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub half_open: usize,
    /// The same, from one IP address. Raise it for a load test.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub half_open_per_address: usize,
    /// Seconds that a viewer has from its offer to media.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub handshake_s: u64,
    /// MiB of recent packets kept for each track.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ring_mib: usize,
    /// Seconds of recent packets kept for each track.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ring_s: u64,
    /// Streams that may exist at once.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub streams: usize,
    /// Rooms of voice calls that somebody may be in at once.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub rooms: usize,
    /// Participants of one room. Each hears all the others: of 16, 240 sessions.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub room_participants: usize,
    /// Seconds for which the stream of a publisher who left stays listed, if nobody
    /// watches it. Sources of this file stay for good.
    pub departed_s: u64,
}

/// Which other web sites may embed the streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Allowed values of `Origin`, like `https://example.com`, or `*` for all.
    pub origins: Vec<Origin>,
}

impl Config {
    /// The configured sources, by name.
    pub fn specs(&self) -> Vec<SourceSpec> {
        self.sources
            .iter()
            .map(|(name, input)| SourceSpec {
                name: name.clone(),
                input: input.clone(),
            })
            .collect()
    }
}

impl Limits {
    /// Time that a viewer has from its offer to media.
    pub fn handshake(&self) -> Duration {
        Duration::from_secs(self.handshake_s)
    }

    /// The part that the hub enforces.
    pub fn hub(&self) -> glassline_hub::Limits {
        glassline_hub::Limits {
            ring_bytes: self.ring_mib.saturating_mul(1 << 20),
            ring_span: Duration::from_secs(self.ring_s),
            streams: self.streams,
            departed_span: Duration::from_secs(self.departed_s),
            ..glassline_hub::Limits::default()
        }
    }
}

impl Cors {
    /// Whether a page of `origin` may read our answers.
    pub fn allows(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed.allows(origin))
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            address: loopback(8889),
        }
    }
}

impl Default for Media {
    fn default() -> Self {
        Self {
            address: loopback(8189),
            advertise: Vec::new(),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: loopback(9997),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let hub = glassline_hub::Limits::default();
        Self {
            viewers: 10_000,
            // A stampede after a restart passes in a second or two at 1.5 ms a join.
            half_open: 1_000,
            // An office behind one address; a flood from one machine stays a nuisance.
            half_open_per_address: 100,
            handshake_s: 10,
            ring_mib: hub.ring_bytes >> 20,
            ring_s: hub.ring_span.as_secs(),
            streams: hub.streams,
            rooms: 100,
            room_participants: 16,
            departed_s: hub.departed_span.as_secs(),
        }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: vec![Origin::any()],
        }
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

#[cfg(test)]
mod tests;
