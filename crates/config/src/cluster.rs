//! The section `cluster` of the configuration: this server as one of several.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use glassline_access::auth::Secret;
use glassline_cluster::{NodeId, Region};
use glassline_cluster_nats::Options;
use glassline_quic::Fingerprint;
use glassline_quic::moq::{NodeAddress, NodeName, PORT};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::nats::Nats;
use super::parts;
use super::public_urls::PublicUrls;

/// Longest drain after SIGTERM, in seconds.
const DRAIN_MAX_S: u32 = 86_400;

/// This server as one of a cluster, whose servers pull streams from each other over QUIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Unique name of this server: 1 to 64 letters, digits, `-` and `_`.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[schemars(with = "String")]
    pub name: NodeName,
    /// Secret of all servers of the cluster, better 32 random characters or more.
    pub secret: Secret,
    /// NATS, through which all servers agree which of them has a stream; null for `origins` only.
    #[serde(default)]
    pub nats: Option<Nats>,
    /// Region of this server, with `nats`, the same for servers of one site. Heartbeats stay within
    /// a region.
    #[serde(default = "region")]
    #[schemars(with = "String")]
    pub region: Region,
    /// Address of this server's QUIC listener for the others, `quic://HOST:PORT`, with `nats`. Null
    /// takes `quic.address`, or the first IP address of `media.advertise` where that listens on all
    /// addresses.
    #[serde(
        default,
        serialize_with = "to_text_or_null",
        deserialize_with = "from_text_or_null"
    )]
    #[schemars(with = "Option<String>")]
    pub advertise: Option<NodeUrl>,
    /// Servers to pull from, in this order; the next one when one fails.
    #[serde(default)]
    pub origins: Vec<ClusterOrigin>,
    /// Seconds for which a stream is pulled after its last viewer left.
    #[serde(default = "linger_s", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub linger_s: u32,
    /// Most seconds for leaving the cluster after SIGTERM, with `nats`: sources go first, then
    /// viewers, a few at a time, then publishers. 0 ends at once.
    #[serde(default = "drain_s")]
    #[schemars(range(max = 86400))]
    pub drain_s: u32,
    /// Addresses to which other servers redirect viewers, with `nats`; without one, nobody.
    #[serde(default)]
    pub public: PublicUrls,
    /// Whether viewers are redirected to a server that has their stream and room, with `nats`.
    /// Otherwise this server pulls.
    #[serde(default = "redirects")]
    pub redirect: bool,
    /// Viewers that move when another server has come and this one has clearly more than its share,
    /// with `nats`: `pages` (they go on by themselves), `all` (also WHEP and RTSP clients, which
    /// must connect again) or `off`.
    #[serde(default)]
    pub rebalance: Rebalance,
    /// Viewers of one stream at this server from which on new ones go to others, with `nats`.
    #[serde(default = "viewers_per_stream", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub viewers_per_stream: u32,
    /// Servers that pull one stream from this one, with `nats`, before further ones are led to
    /// those.
    #[serde(default = "pulls_per_stream", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub pulls_per_stream: u32,
    /// Media in Mbit/s that this server may send, with `nats`; null for no limit. From 90 % of the
    /// limit or of the processors on, others send it no viewers and pull elsewhere.
    #[serde(default)]
    pub mbps_max: Option<u32>,
    /// Whether viewers may also go to other regions, with `nats`, when none of this one has room.
    #[serde(default)]
    pub redirect_far: bool,
    /// News of other servers' streams, with `nats`: `all` for up to some 100 servers and 10,000
    /// streams, or `needed`, at each server of a larger cluster. MoQ readers are then told of no
    /// streams elsewhere.
    #[serde(default)]
    pub notices: Notices,
}

/// Which viewers are sent to a server that has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rebalance {
    /// Viewers whose client is known to open a new session: the player page.
    #[default]
    Pages,
    /// Viewers by WebRTC and RTSP, whatever their client is.
    All,
    /// No viewer is sent away.
    Off,
}

/// The notices that a server gets of the streams of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notices {
    /// The server hears of each stream and server.
    #[default]
    All,
    /// The server asks for what its viewers need, and hears of that.
    Needed,
}

/// The section does not fit the rest of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Two ways to find streams are named.
    #[error(
        "`cluster.nats` and `cluster.origins` are two ways to find streams: remove one of them"
    )]
    TwoWays,
    /// Other servers could not pull from this one.
    #[error(
        "`cluster.nats` needs a QUIC listener, by which the other servers pull: set `quic.address`"
    )]
    NoQuic,
    /// The server would leave for longer than a day.
    #[error("`cluster.drain_s` is at most 86400, a day: make it shorter")]
    LongDrain,
    /// Other servers would not know where this one is.
    #[error(
        "`quic.address` listens on all addresses, and nothing says under which one the other servers \
         reach this one: set `cluster.advertise`, like quic://192.0.2.1:4443"
    )]
    NoAddress,
}

impl Cluster {
    /// Checks that the section fits the listener of QUIC.
    ///
    /// # Errors
    /// Returns [`ClusterError`] with the key to change.
    pub fn check(
        &self,
        quic: Option<SocketAddr>,
        advertised: &[IpAddr],
    ) -> Result<(), ClusterError> {
        if self.drain_s > DRAIN_MAX_S {
            return Err(ClusterError::LongDrain);
        }
        if self.nats.is_none() {
            return Ok(());
        }
        if !self.origins.is_empty() {
            return Err(ClusterError::TwoWays);
        }
        let address = quic.ok_or(ClusterError::NoQuic)?;
        let reachable = self.reachable(address, advertised);
        reachable.map(drop).ok_or(ClusterError::NoAddress)
    }

    /// Returns host and port under which other servers reach the QUIC listener that has the address
    /// `quic`; `None` if nothing says so. `advertised` are the IP addresses of `media.advertise`.
    pub fn reachable(&self, quic: SocketAddr, advertised: &[IpAddr]) -> Option<(String, u16)> {
        if let Some(NodeUrl { host, port }) = &self.advertise {
            return Some((host.clone(), *port));
        }
        let ip = match quic.ip() {
            ip if ip.is_unspecified() => *advertised.first()?,
            ip => ip,
        };
        Some((ip.to_string(), quic.port()))
    }

    /// Returns what the engine is told; `None` without `nats`.
    pub fn nats_options(&self) -> Option<Options> {
        // A server's name is shorter than the longest of a record.
        let node = NodeId::new(self.name.as_str()).ok()?;
        Some(self.nats.as_ref()?.options(node, self.region.clone()))
    }
}

/// A server to pull streams from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterOrigin {
    /// Its QUIC listener, `quic://HOST:PORT`.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[schemars(with = "String")]
    pub url: NodeUrl,
    /// SHA-256 of its QUIC certificate, which it prints at its start.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[schemars(with = "String")]
    pub sha256: Fingerprint,
}

/// Address of a server's QUIC listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUrl {
    host: String,
    port: u16,
}

/// A text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address of a server: give quic://HOST:PORT")]
pub struct NodeUrlError(String);

impl NodeUrl {
    /// Scheme of the addresses of servers.
    const SCHEME: &str = "quic";
}

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NodeUrlError(glassline_url::hidden(text).chars().take(80).collect());
        let url = glassline_url::parse(text).map_err(|_| refused())?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let is_bare = matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        match host {
            Some(host) if url.scheme() == NodeUrl::SCHEME && is_bare => Ok(Self {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: url.port().unwrap_or(PORT),
            }),
            _ => Err(refused()),
        }
    }
}

impl std::fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "{}://[{host}]:{port}", Self::SCHEME),
            false => write!(f, "{}://{host}:{port}", Self::SCHEME),
        }
    }
}

impl ClusterOrigin {
    /// Returns the address to connect to.
    pub fn address(&self) -> NodeAddress {
        NodeAddress {
            host: self.url.host.clone(),
            port: self.url.port,
            sha256: self.sha256,
        }
    }
}

fn region() -> Region {
    Region::new("default").expect("a name")
}

fn to_text_or_null<S: Serializer>(value: &Option<NodeUrl>, to: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(to)
}

fn from_text_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NodeUrl>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

const fn linger_s() -> u32 {
    10
}

const fn drain_s() -> u32 {
    10
}

const fn redirects() -> bool {
    true
}

const fn viewers_per_stream() -> u32 {
    200
}

const fn pulls_per_stream() -> u32 {
    32
}

fn to_text<T: ToString, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

fn from_text<'de, T, D: Deserializer<'de>>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Cluster {
        serde_saphyr::from_str(yaml).expect("a good section")
    }

    #[test]
    fn a_server_with_nats_must_be_reachable_by_the_others() {
        let all: SocketAddr = "0.0.0.0:4443".parse().expect("an address");
        let one: SocketAddr = "192.0.2.1:4444".parse().expect("an address");
        let public = ["203.0.113.9".parse().expect("an address")];
        let member = read("{name: a, secret: s3cret, nats: 'nats://n'}");
        assert_eq!(member.check(None, &public), Err(ClusterError::NoQuic));
        assert_eq!(member.check(Some(all), &[]), Err(ClusterError::NoAddress));
        assert_eq!(member.check(Some(all), &public), Ok(()));
        let at = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(member.reachable(one, &public), at("192.0.2.1", 4444));
        assert_eq!(member.reachable(all, &public), at("203.0.113.9", 4443));
        let named =
            read("{name: a, secret: s3cret, nats: 'nats://n', advertise: 'quic://node-a:9'}");
        assert_eq!(named.reachable(all, &[]), at("node-a", 9));
        let sha256 = "00".repeat(32);
        let both = format!(
            "{{name: a, secret: s3cret, nats: 'nats://n', origins: [{{url: 'quic://b', sha256: \
             '{sha256}'}}]}}"
        );
        assert_eq!(
            read(&both).check(Some(one), &[]),
            Err(ClusterError::TwoWays)
        );
        let edge = read("{name: a, secret: s3cret}");
        assert_eq!(edge.check(None, &[]), Ok(()));
        assert_eq!(edge.drain_s, 10);
        let slow = read("{name: a, secret: s3cret, drain_s: 86401}");
        assert_eq!(slow.check(None, &[]), Err(ClusterError::LongDrain));
        assert_eq!(edge.region.as_str(), "default");
    }

    #[test]
    fn addresses_of_servers_are_bare_and_have_the_usual_port() {
        let good = |text: &str| text.parse::<NodeUrl>().expect(text).to_string();
        assert_eq!(good("quic://10.0.0.1"), "quic://10.0.0.1:4443");
        assert_eq!(good("quic://node-a.example:9/"), "quic://node-a.example:9");
        assert_eq!(
            good("quic://[2001:db8::1]:4443"),
            "quic://[2001:db8::1]:4443"
        );
        for text in [
            "moq://a:1",
            "quic://",
            "quic://a/cam",
            "quic://a?token=x",
            "a:4443",
        ] {
            assert!(text.parse::<NodeUrl>().is_err(), "{text}");
        }
    }
}
