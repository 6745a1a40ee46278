//! The server's configuration: one [`Config`], from a YAML file, the command line, or both.
//!
//! ```text
//! glassline.yml ─┬► Config::load ─► command line overrides ─► Server::start
//! environment ───┘
//! ```
//!
//! Every key has a default. Unknown keys are errors that name file, line and the most similar key.
//! Tokens and passwords are never printed: [`Debug`], [`Config::to_yaml`] and [`Config::to_json`]
//! hide them.

mod base_path;
mod cluster;
mod data;
mod differing;
mod document;
mod effective;
mod environment;
mod exposure;
mod files;
mod https;
mod ice_server;
mod listeners;
mod load;
mod log;
mod media;
mod nats;
mod parts;
mod public_urls;
mod quic;
mod rtsp;
mod sources;
mod text;
mod transcoding;
mod users;
mod webrtc;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_hub::StreamName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::addresses::{AdvertisedAddress, AdvertisedAddressError};
pub use crate::auth::Auth;
use crate::auth::Sites;
use crate::hooks;
use crate::ingest::{Input, SourceSpec};

pub use crate::auth::{Action, Algorithm, Jwt, Webhook};
pub use crate::auth::{HostName, HostNameError, Origin, OriginError};
pub use crate::auth::{NamedToken, Role, Secret, SecretError};
pub use crate::hooks::{EventKind, Hook};
pub use crate::outbound::{WebUrl, WebUrlError};
pub use crate::runtime::{Network, NetworkError};
pub use crate::telemetry::{HeaderText, HeaderTextError, Otlp, Telemetry};
pub use crate::tls::{Acme, AcmeName, AcmeNameError, ChallengeKind, Lan, PemFiles, Tls, TlsKeys};
pub use base_path::{BasePath, BasePathError};
pub use cluster::{
    Cluster, ClusterError, ClusterOrigin, NodeUrl, NodeUrlError, Notices, Rebalance,
};
pub use data::{Data, DataAccess, DataAccessError};
pub use differing::reason_for_restart;
pub use environment::{VARIABLES_OF_BUILDS, VARIABLES_OF_COMMANDS};
pub use exposure::Exposure;
pub use files::ConfigFiles;
pub use https::{HTTPS_PORT, Https, HttpsAddress};
pub use listeners::{Collisions, ConfiguredListener, Protocol};
pub use load::Error;
pub use log::Log;
pub use media::Media;
pub use nats::{Nats, NatsTls};
pub use public_urls::{PublicUrlError, PublicUrls};
pub use quic::Quic;
pub use rtsp::{Groups, Multicast, Rtsp, RtspTls, Srtp};
pub use sources::SourceKeys;
pub use transcoding::Transcoding;
pub use users::{users_in, users_of};
pub use webrtc::{Pacing, PacingError, WebRtc};

/// The whole configuration; [`Config::default`] serves on loopback without sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(
    title = "glassline.yml",
    description = "Everything that can be configured."
)]
pub struct Config {
    /// Player pages, WHEP and the public API.
    pub http: Http,
    /// The same within TLS.
    pub https: Https,
    /// The certificate of HTTPS, and of RTSPS and QUIC unless they have their own.
    #[schemars(with = "Option<TlsKeys>")]
    pub tls: Option<Tls>,
    /// Folder for what the server itself keeps, such as keys of its own authority; only its user can
    /// read it. Null takes `STATE_DIRECTORY` of systemd, or `~/.local/state/glassline`.
    pub state_folder: Option<PathBuf>,
    /// WebRTC media: one UDP port for all viewers.
    pub media: Media,
    /// How media is sent to WebRTC viewers.
    pub webrtc: WebRtc,
    /// Audio that browsers cannot play, transcoded to Opus while they watch.
    pub transcoding: Transcoding,
    /// RTSP for players, recorders and publishers.
    pub rtsp: Rtsp,
    /// Streams over QUIC, as MoQ: publishing and reading.
    pub quic: Quic,
    /// This server as one of a cluster, whose servers pull streams from each other; null for a
    /// server alone.
    pub cluster: Option<Cluster>,
    /// Metrics, health and the whole API, for operators.
    pub admin: Admin,
    /// Threads that serve viewers, 1 to 256; null for one per core.
    #[serde(deserialize_with = "parts::shards")]
    #[schemars(range(min = 1, max = 256))]
    pub shards: Option<usize>,
    /// Who may read and publish.
    pub auth: Auth,
    /// Limits of the server.
    pub limits: Limits,
    /// Streams by name, with the source of each: `rtsp://…`, files separated by commas, `demo`, or
    /// `publisher` for what clients publish; or a map of `source` and its options, like
    /// `{source: rtsp://…, on_demand: true}`.
    #[serde(with = "sources")]
    #[schemars(with = "BTreeMap<String, sources::SourceSchema>")]
    pub sources: BTreeMap<StreamName, Input>,
    /// Commands and webhooks that are told what happens to streams.
    #[serde(deserialize_with = "hooks::checked")]
    pub hooks: Vec<Hook>,
    /// Other web sites that may embed the streams.
    pub cors: Cors,
    /// What the server writes to its log.
    pub log: Log,
    /// Traces and metrics that the server sends to a collector of OpenTelemetry.
    pub telemetry: Telemetry,
    /// Further files that are part of this one: paths relative to the file that names them, and one
    /// `*` in the name of a file for all that fit, like `[users.yml, conf.d/*.yml]`. Sections are
    /// merged; a key that two files set is an error.
    #[serde(rename = "include")]
    #[schemars(with = "Vec<PathBuf>")]
    pub files: ConfigFiles,
}

/// Player pages, WHEP and the public API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
    /// Most connections at the same time. When all are in use, a client that has not sent a request
    /// yet makes room for a new one.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub connections: usize,
    /// Most of these connections from one IPv4 address, or from one /64 of IPv6.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub connections_per_address: usize,
    /// Names of this server beside its IP addresses and `localhost`, like `media.example.com`, also
    /// for RTSP over HTTP, WebTransport and the admin port. Where no credential is required,
    /// browsers reach the server under no other name, except those of private networks
    /// (`camera.lan`).
    pub hosts: Vec<HostName>,
    /// Path below which a proxy offers the server, like `/media`. It is removed from requests that
    /// have it, and put in front of links and of `Location`.
    pub base_path: BasePath,
    /// Addresses and networks of proxies whose `Forwarded` and `X-Forwarded-*` headers are believed,
    /// like `127.0.0.1` or `10.0.0.0/8`: the client's address for limits and logins, scheme, host,
    /// and the path that the proxy removed.
    pub trusted_proxies: Vec<Network>,
}

/// Metrics, health and the whole API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
    /// Where to listen for the same within TLS, `IP:PORT`, with the certificate of `tls`; null
    /// does not listen.
    pub https: Option<SocketAddr>,
    /// File of sources that are made over the API, which the server writes; only its user can read
    /// it. Null takes `api.json` in `state_folder`. Each server needs a file of its own. Beside it are
    /// the files of operators' changes, `.audit.jsonl`, and of the last load test.
    pub state_file: Option<PathBuf>,
    /// What may be named over the API as a source.
    pub sources: ApiSources,
    /// Whether everybody who reaches the port may read `/metrics`, for a Prometheus without a token
    /// in a network of its own.
    pub open_metrics: bool,
}

/// What may be named over the API as a source. Link-local addresses, metadata services of clouds and
/// commands never may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSources {
    /// Whether cameras may have addresses of private networks, as most have.
    pub private: bool,
    /// Whether cameras may have addresses of this machine, whose services may trust it.
    pub loopback: bool,
    /// Folders of files that may be named; none without a folder. Links and `..` do not lead out of
    /// them.
    pub folders: Vec<PathBuf>,
}

/// Limits of the server. All but `departed_s` are at least 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most viewers, connected or connecting.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub viewers: usize,
    /// Most viewers that got an answer but have not finished their handshake. At the limit, the
    /// oldest of the address that has most of them makes room for one of another address.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub half_open: usize,
    /// Most such viewers from one IPv4 address or IPv6 network of 64 bits. At the limit, a viewer
    /// that sent nothing for a second makes room. Raise it for a load test.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub half_open_per_address: usize,
    /// Seconds that a viewer has from its offer to media.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub handshake_s: u64,
    /// MiB of recent packets that are kept for each track.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ring_mib: usize,
    /// Seconds of recent packets that are kept for each track. The newest keyframe and what follows stay
    /// longer, within `ring_mib`, so that viewers can begin with them.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ring_s: u64,
    /// Most streams that exist at the same time.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub streams: usize,
    /// Most rooms of voice calls that have participants.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub rooms: usize,
    /// Most participants of one room. Each hears all the others: 16 participants need 240 sessions.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub room_participants: usize,
    /// Seconds for which the stream of a publisher that left stays listed if nobody watches it.
    /// Sources of this file stay forever.
    pub departed_s: u64,
}

/// Other web sites that may embed the streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Origins whose pages may read the server's answers, like `https://example.com`; `*` for every
    /// site that a person in the network visits. Pages of other sites read nothing unless they send
    /// a credential.
    pub origins: Vec<Origin>,
}

/// Name of the file of what is made over the API, in the folder of the server's own files.
const STATE_FILE: &str = "api.json";

impl Config {
    /// Keeps what is made over the API in the usual file, unless the configuration names another, or
    /// no folder is known. Without it, nothing can be made.
    pub fn keep_state(&mut self) {
        if self.admin.state_file.is_none() {
            let folder = crate::tls::state_folder(self.state_folder.as_deref());
            self.admin.state_file = folder.ok().map(|it| it.join(STATE_FILE));
        }
    }

    /// Returns the configuration file, from which everything can be read again; `None` without one.
    pub fn file(&self) -> Option<&Path> {
        self.files.read.first().map(PathBuf::as_path)
    }

    /// Returns the configured sources with their names.
    pub fn specs(&self) -> Vec<SourceSpec> {
        self.sources
            .iter()
            .map(|(name, input)| SourceSpec {
                name: name.clone(),
                input: input.clone(),
            })
            .collect()
    }

    /// Returns the certificate files that the configuration names, those of `tls` first.
    pub fn certificate_files(&self) -> Vec<PemFiles> {
        let shared = match &self.tls {
            Some(Tls::Files(files)) => Some(files.clone()),
            _ => None,
        };
        let own = [self.rtsp.tls.files(), self.quic.files()];
        let own = own.into_iter().filter_map(Result::ok).flatten();
        shared.into_iter().chain(own).collect()
    }

    /// Checks that the section `cluster` fits the listeners.
    ///
    /// # Errors
    /// Returns [`ClusterError`] with the key to change.
    pub fn check_cluster(&self) -> Result<(), ClusterError> {
        match &self.cluster {
            Some(cluster) => cluster.check(self.quic.address, &self.media.advertised_ips()),
            None => Ok(()),
        }
    }

    /// Returns the names of streams that clients publish.
    pub fn published_names(&self) -> impl Iterator<Item = &StreamName> {
        let sources = self.sources.iter();
        let published = sources.filter(|(_, input)| input.is_published());
        published.map(|(name, _)| name)
    }

    /// Returns the rules for pages of browsers.
    pub fn sites(&self) -> Sites {
        let sites = Sites::default();
        self.apply_to(&sites);
        sites
    }

    /// Replaces the rules for pages of browsers by those of this configuration.
    pub(crate) fn apply_to(&self, sites: &Sites) {
        let public = self
            .cluster
            .as_ref()
            .and_then(|it| it.public.http.as_deref());
        let public = public.and_then(|it| url::Url::parse(it).ok());
        let public = public.map(|url| url.origin().ascii_serialization());
        let public = public.and_then(|origin| Origin::try_from(origin).ok());
        sites.replace(&self.cors.origins, &self.host_names(), public);
    }

    /// Returns the names of this server, those of its certificate included.
    pub(crate) fn host_names(&self) -> Vec<HostName> {
        let mut hosts = self.http.hosts.clone();
        // An authority saw that these names lead here.
        if let Some(Tls::Acme(acme)) = &self.tls {
            hosts.extend(
                acme.hosts()
                    .filter_map(|host| HostName::try_from(host.to_owned()).ok()),
            );
        }
        hosts
    }
}

impl Limits {
    /// Returns the time that a viewer has from its offer to media.
    pub fn handshake(&self) -> Duration {
        Duration::from_secs(self.handshake_s)
    }

    /// Returns the limits that the hub enforces.
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

impl Default for Http {
    fn default() -> Self {
        Self {
            address: loopback(8889),
            connections: 4_096,
            // Enough for an office behind one address.
            connections_per_address: 1_024,
            hosts: Vec::new(),
            base_path: BasePath::default(),
            trusted_proxies: Vec::new(),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: loopback(9997),
            https: None,
            state_file: None,
            sources: ApiSources::default(),
            open_metrics: false,
        }
    }
}

impl Default for ApiSources {
    fn default() -> Self {
        Self {
            private: true,
            loopback: false,
            folders: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let hub = glassline_hub::Limits::default();
        Self {
            viewers: 10_000,
            // All viewers that come at once after a restart are served in a second or two at 1.5 ms
            // a join.
            half_open: 1_000,
            // Enough for an office behind one address, and a flood from one machine stays a
            // nuisance.
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

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

#[cfg(test)]
mod tests;
