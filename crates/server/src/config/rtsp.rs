//! The section `rtsp`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use glassline_rtsp::server::SrtpPolicy;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Identity, IdentityError, loopback, parts};

/// Streams at `rtsp://HOST:PORT/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rtsp {
    /// Where to listen, `IP:PORT`; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// Connections at once.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub clients: usize,
    /// Media may go by UDP, to the address that the client connects from.
    pub udp: bool,
    /// The first UDP port for that; each thread takes an even one and the next. 0
    /// takes free ones.
    #[serde(deserialize_with = "even")]
    pub udp_port: u16,
    /// Clients that ask for multicast share what is sent to these groups: once for
    /// all of them, and for whoever listens. Null sends none.
    pub multicast: Option<Multicast>,
    /// Milliseconds that a client may lag behind before it skips to the newest
    /// keyframe.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub lag_ms: u64,
    /// Seconds that a client may take nothing at all before it is closed.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub stall_s: u64,
    /// Every file below this folder is a stream, too, named by its path in it. By WHEP
    /// those of the folder itself are watched whose codecs a browser has. Null for none.
    pub media_folder: Option<PathBuf>,
    /// Clients at once that play a file of their own: those who seek, pause or change
    /// its speed.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub media_clients: usize,
    /// The same inside TLS.
    pub tls: RtspTls,
}

/// Streams at `rtsps://HOST:PORT/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RtspTls {
    /// Where to listen, `IP:PORT`; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// A PEM file with the certificate and those that vouch for it, its own first.
    pub certificate: Option<PathBuf>,
    /// A PEM file with its private key, without a passphrase.
    pub key: Option<PathBuf>,
    /// Whether media is sealed by itself, too (SRTP), which lets it go by UDP.
    pub srtp: Srtp,
}

/// SRTP within RTSPS (RFC 4567, keys in MIKEY messages).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Srtp {
    /// Media goes within the connection only.
    Off,
    /// For clients that ask for it, by `?srtp` behind the stream's name; others get media
    /// within the connection.
    #[default]
    Optional,
    /// Players get it no other way; those that do not know it get nothing.
    Required,
}

impl From<Srtp> for SrtpPolicy {
    fn from(srtp: Srtp) -> Self {
        match srtp {
            Srtp::Off => Self::Off,
            Srtp::Optional => Self::Optional,
            Srtp::Required => Self::Required,
        }
    }
}

/// Where streams go that clients ask for by multicast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multicast {
    /// The groups, as a network such as `239.255.42.0/24`. Each track gets one of its
    /// own; a single address stands for itself and those above it in its /24.
    #[schemars(with = "String")]
    pub group: Groups,
    /// The first UDP port, even. The track with the nth group has the nth pair of
    /// ports from here on.
    #[serde(deserialize_with = "even_and_positive")]
    #[schemars(range(min = 2))]
    pub port: u16,
    /// How far packets get: 1 stays within the local network, each router on the way
    /// takes one.
    #[serde(default = "local_ttl", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ttl: u8,
    /// The address of the interface that sends; null leaves it to the routes.
    #[serde(default)]
    pub interface: Option<Ipv4Addr>,
}

/// Hops for [`Multicast::ttl`] where none are said.
const fn local_ttl() -> u8 {
    1
}

/// Addresses of multicast groups, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The first.
    pub first: Ipv4Addr,
    /// How many there are; 0 never.
    pub count: u32,
}

impl Groups {
    /// Reads `239.255.42.0/24`, or the first address alone.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let first: Ipv4Addr = address.parse().ok()?;
        let count = match bits {
            // All groups have four bits in common, so that a shorter prefix is none.
            Some(bits @ 4..=32) => 1 << (32 - bits),
            Some(_) => return None,
            None => 256 - u32::from(first.octets()[3]),
        };
        let is_aligned = bits.is_none() || u32::from(first).is_multiple_of(count);
        (first.is_multicast() && is_aligned).then_some(Self { first, count })
    }
}

impl std::fmt::Display for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to_end = 256 - u32::from(self.first.octets()[3]);
        if self.count == to_end && self.count != 256 {
            return self.first.fmt(f);
        }
        write!(f, "{}/{}", self.first, 32 - self.count.trailing_zeros())
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format_args!(
                "`{text}` names no multicast groups; give a network such as 239.255.42.0/24, \
                 or the first address of some"
            ))
        })
    }
}

/// A port that can be told to receivers beforehand.
fn even_and_positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match even(deserializer)? {
        0 => Err(D::Error::custom("must be an even port, not 0")),
        port => Ok(port),
    }
}

/// RTP has the even port, RTCP the next (RFC 3550 §11).
fn even<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let port = u16::deserialize(deserializer)?;
    if !port.is_multiple_of(2) {
        return Err(D::Error::custom("must be an even port, or 0 for free ones"));
    }
    Ok(port)
}

impl Rtsp {
    /// How far a client may lag.
    pub const fn lag(&self) -> Duration {
        Duration::from_millis(self.lag_ms)
    }

    /// How long a client may take nothing.
    pub const fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_s)
    }
}

impl Default for Rtsp {
    fn default() -> Self {
        Self {
            address: Some(loopback(8554)),
            clients: 10_000,
            udp: true,
            udp_port: 0,
            multicast: None,
            // A live frame that is later is of little use; less would punish a lost
            // packet on a long way, which takes a retransmission timeout or two.
            lag_ms: 1500,
            stall_s: 10,
            media_folder: None,
            // Half a MiB each, most of it what a client has not taken yet.
            media_clients: 1_000,
            tls: RtspTls::default(),
        }
    }
}

impl RtspTls {
    /// What clients are shown; `None` if nothing is said of it.
    ///
    /// # Errors
    /// [`IdentityError`] names the file and what to do.
    pub fn identity(&self) -> Result<Option<Identity>, IdentityError> {
        let missing = |key| IdentityError::Missing { key };
        match (&self.certificate, &self.key) {
            (None, None) if self.address.is_none() => Ok(None),
            (Some(certificate), Some(key)) => Identity::load(certificate, key).map(Some),
            (None, _) => Err(missing("certificate")),
            (_, None) => Err(missing("key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_a_network_or_begin_at_an_address() {
        let groups = |text| Groups::parse(text).map(|it| (it.first.to_string(), it.count));
        let of = |first: &str, count| Some((first.to_owned(), count));
        assert_eq!(groups("239.255.42.0/24"), of("239.255.42.0", 256));
        assert_eq!(groups("239.255.42.16/30"), of("239.255.42.16", 4));
        assert_eq!(groups("239.255.42.7/32"), of("239.255.42.7", 1));
        assert_eq!(groups("239.255.42.250"), of("239.255.42.250", 6));
        for wrong in [
            "",
            "cam",
            "10.0.0.0/8",
            "192.0.2.1",
            "239.255.42.1/24",
            "239.255.42.0/33",
            "224.0.0.0/3",
            "239.255.42.0/",
            "ff02::1",
        ] {
            assert_eq!(groups(wrong), None, "{wrong}");
        }
        for text in ["239.255.42.0/24", "239.255.42.16/30", "239.255.42.250"] {
            let groups = Groups::parse(text).expect("good");
            assert_eq!(groups.to_string(), text);
            assert_eq!(Groups::parse(&groups.to_string()), Some(groups));
        }
    }
}
