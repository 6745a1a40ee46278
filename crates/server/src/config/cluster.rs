//! The section `cluster` of the configuration: this server as one of several.

use std::str::FromStr;

use glassline_quic::Fingerprint;
use glassline_quic::moq::{NodeAddress, NodeName, PORT};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::parts;
use crate::auth::Secret;

/// This server as one of a cluster, whose servers pull streams from each other over QUIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name of this server, which no other one of the cluster has: 1 to 64 letters, digits, `-` and
    /// `_`.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[schemars(with = "String")]
    pub name: NodeName,
    /// Secret that all servers of the cluster share; take 32 random characters or more.
    pub secret: Secret,
    /// Servers to pull from what this one does not have. The first one that has a stream is taken,
    /// and the next one when that one fails.
    #[serde(default)]
    pub origins: Vec<ClusterOrigin>,
    /// Seconds for which a stream is still pulled after its last viewer left.
    #[serde(default = "linger_s", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub linger_s: u32,
}

/// A server to pull streams from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterOrigin {
    /// Its QUIC listener, `quic://HOST:PORT`.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[schemars(with = "String")]
    pub url: NodeUrl,
    /// SHA-256 of its certificate for QUIC, which it prints at its start.
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

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NodeUrlError(text.chars().take(80).collect());
        let url = url::Url::parse(text).map_err(|_| refused())?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let is_bare = matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty();
        match host {
            Some(host) if url.scheme() == "quic" && is_bare => Ok(Self {
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
            true => write!(f, "quic://[{host}]:{port}"),
            false => write!(f, "quic://{host}:{port}"),
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

const fn linger_s() -> u32 {
    10
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
