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

mod advertised_address;
mod base_path;
mod cluster;
mod data;
mod differing;
mod document;
mod effective;
mod environment;
mod exposure;
mod files;
mod hls;
mod https;
mod ice_server;
mod listeners;
mod load;
mod log;
mod media;
mod nats;
mod parts;
mod programs;
mod public_urls;
mod quic;
mod recordings;
mod remote_copy;
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

use glassline_access::auth::Sites;
use glassline_events::hooks;
use glassline_hub::StreamName;
use glassline_ingest::{Input, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use glassline_access::auth::Auth;

pub use advertised_address::{AdvertisedAddress, AdvertisedAddressError};
pub use base_path::{BasePath, BasePathError};
pub use cluster::{
    Cluster, ClusterError, ClusterOrigin, NodeUrl, NodeUrlError, Notices, Rebalance,
};
pub use data::{Data, DataAccess, DataAccessError};
pub use differing::reason_for_restart;
pub use document::{YamlEntry, YamlNode, YamlValue};
pub use environment::{VARIABLES_OF_BUILDS, VARIABLES_OF_COMMANDS};
pub use exposure::Exposure;
pub use files::ConfigFiles;
pub use glassline_access::auth::{Action, Algorithm, Jwt, Webhook};
pub use glassline_access::auth::{HostName, HostNameError, Origin, OriginError};
pub use glassline_access::auth::{NamedToken, Role, Secret, SecretError};
pub use glassline_access::outbound::{WebUrl, WebUrlError};
pub use glassline_access::tls::{
    Acme, AcmeName, AcmeNameError, ChallengeKind, Lan, PemFiles, Tls, TlsKeys,
};
pub use glassline_events::hooks::{EventKind, Hook};
pub use glassline_runtime::{Network, NetworkError};
pub use glassline_telemetry::{HeaderText, HeaderTextError, Otlp, Telemetry};
pub use hls::Hls;
pub use https::{HTTPS_PORT, Https, HttpsAddress};
pub use listeners::{Collisions, ConfiguredListener, Protocol};
pub use load::Error;
pub use log::Log;
pub use media::Media;
pub use nats::{Nats, NatsTls};
pub use programs::ProgramsError;
pub use public_urls::{PublicUrlError, PublicUrls};
pub use quic::Quic;
pub use recordings::{RecordRule, RecordedLayers, Recordings};
pub use remote_copy::RemoteCopy;
pub use rtsp::{Groups, Multicast, Rtsp, RtspTls, Srtp};
pub use sources::SourceKeys;
pub use transcoding::Transcoding;
pub use users::{users_in, users_of};
pub use webrtc::{Fec, Pacing, PacingError, WebRtc};

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
    /// HTTP within TLS.
    pub https: Https,
    /// The certificate of HTTPS, and of RTSPS and QUIC unless they have their own.
    #[schemars(with = "Option<TlsKeys>")]
    pub tls: Option<Tls>,
    /// Folder of what the server keeps, such as keys; only its user can read it. Null takes
    /// `STATE_DIRECTORY` of systemd, or `~/.local/state/glassline`.
    pub state_folder: Option<PathBuf>,
    /// WebRTC media: one UDP port for all viewers.
    pub media: Media,
    /// How media is sent to WebRTC viewers.
    pub webrtc: WebRtc,
    /// Audio and video that browsers cannot play, transcoded while they watch.
    pub transcoding: Transcoding,
    /// HTTP Live Streaming for players without WebRTC.
    pub hls: Hls,
    /// Streams that are written to disk, and for how long they are kept.
    #[serde(deserialize_with = "recordings::checked")]
    pub recordings: Recordings,
    /// RTSP for players, recorders and publishers.
    pub rtsp: Rtsp,
    /// Streams over QUIC, as MoQ: publishing and reading.
    pub quic: Quic,
    /// This server as one of a cluster; null for a server alone.
    pub cluster: Option<Cluster>,
    /// Metrics, health and the whole API, for operators.
    pub admin: Admin,
    /// Threads that serve viewers; null for one per core.
    #[serde(deserialize_with = "parts::shards")]
    #[schemars(range(min = 1, max = 256))]
    pub shards: Option<usize>,
    /// Rights to read and publish.
    pub auth: Auth,
    /// Limits of the server.
    pub limits: Limits,
    /// Streams by name with their source: `rtsp://…`, `http://…`, files separated by commas,
    /// `/dev/video0`, `ffmpeg:…`, `exec:…`, `demo`, or `publisher` for what clients publish; or a map of `source` and its options (`{source:
    /// rtsp://…, on_demand: true}`).
    #[serde(with = "sources")]
    #[schemars(with = "BTreeMap<String, sources::SourceSchema>")]
    pub sources: BTreeMap<StreamName, Input>,
    /// Commands and webhooks that are told what happens to streams.
    #[serde(deserialize_with = "hooks::checked")]
    pub hooks: Vec<Hook>,
    /// Other web sites that may embed the streams.
    pub cors: Cors,
    /// The log of the server.
    pub log: Log,
    /// Traces and metrics for a collector of OpenTelemetry.
    pub telemetry: Telemetry,
    /// Further files, relative to the file that names them, with one `*` in a name: `[users.yml,
    /// conf.d/*.yml]`.
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
    /// Most connections. A client that has not sent a request makes room for a new one.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub connections: usize,
    /// Most connections of one IPv4 address or IPv6 /64.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub connections_per_address: usize,
    /// Names of this server beside IP addresses and `localhost`, like `media.example.com`, on all
    /// listeners. Where no credential is required, browsers use no other name, except private ones
    /// (`camera.lan`).
    pub hosts: Vec<HostName>,
    /// Path below which a proxy offers the server, like `/media`: removed from requests, added to
    /// links and `Location`.
    pub base_path: BasePath,
    /// Addresses and networks of proxies whose `Forwarded` and `X-Forwarded-*` headers count, like
    /// `10.0.0.0/8`: client address, scheme, host and removed path.
    pub trusted_proxies: Vec<Network>,
}

/// Metrics, health and the whole API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
    /// Where to listen within TLS, `IP:PORT`, with the certificate of `tls`; null does not listen.
    pub https: Option<SocketAddr>,
    /// File of sources that are made over the API, one for each server and readable by its user
    /// only. Null takes `api.json` in `state_folder`. Beside it are the audit log (`.audit.jsonl`),
    /// the last load test, MoQ's own certificate (`.moq.json`), which disks have recordings
    /// (`.recordings.json`), and which streams are recorded over the API (`.recordings.wishes.json`).
    pub state_file: Option<PathBuf>,
    /// The sources that may be named over the API.
    pub sources: ApiSources,
    /// Whether everybody who reaches the port may read `/metrics`.
    pub open_metrics: bool,
}

/// The sources that may be named over the API. Link-local addresses, metadata services of clouds and
/// commands never may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSources {
    /// Whether cameras may have addresses of private networks.
    pub private: bool,
    /// Whether cameras may have addresses of this machine.
    pub loopback: bool,
    /// Folders of files that may be named, without links and `..` that lead out of them.
    pub folders: Vec<PathBuf>,
}

/// Limits of the server. All but `programs` and `departed_s` are at least 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most viewers, connected or connecting.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub viewers: usize,
    /// Most viewers within their handshake. At the limit, the oldest of the address with most of
    /// them makes room.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub half_open: usize,
    /// Most such viewers of one IPv4 address or IPv6 /64. At the limit, one that sent nothing for a
    /// second makes room. Raise this for a load test.
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
    /// Seconds of recent packets that are kept for each track. The newest keyframe and its
    /// followers stay longer, within `ring_mib`.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ring_s: u64,
    /// Most streams that exist at the same time.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub streams: usize,
    /// Most sources that are programs: `exec:…`, `ffmpeg:…`, and devices like `/dev/video0`. They run as the
    /// server's user, and 0 allows none.
    pub programs: usize,
    /// Most rooms of voice calls that have participants.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub rooms: usize,
    /// Most participants of one room; 16 of them need 240 sessions.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub room_participants: usize,
    /// Seconds for which a stream without publisher and viewers stays listed; streams of this file
    /// stay forever.
    pub departed_s: u64,
}

/// Other web sites that may embed the streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Origins whose pages may read the server's answers, like `https://example.com`; `*` for every
    /// site. Other sites need a credential.
    pub origins: Vec<Origin>,
}

/// Name of the file of what is made over the API, in the folder of the server's own files.
const STATE_FILE: &str = "api.json";

impl Config {
    /// Keeps what is made over the API in the usual file, unless the configuration names another, or
    /// no folder is known. Without it, nothing can be made.
    pub fn keep_state(&mut self) {
        if self.admin.state_file.is_none() {
            let folder = glassline_access::tls::state_folder(self.state_folder.as_deref());
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
    pub fn apply_to(&self, sites: &Sites) {
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
            programs: 0,
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
