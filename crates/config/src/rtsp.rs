//! The section `rtsp` of the configuration: RTSP, plain and within TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use glassline_access::tls::{FilesError, PemFiles};
use glassline_ingest::UdpPorts;
use glassline_rtsp::server::SrtpPolicy;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{loopback, parts};

/// RTSP, which serves streams at `rtsp://HOST:PORT/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rtsp {
    /// TCP address to listen on, `IP:PORT`; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// Most connections at the same time.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub clients: usize,
    /// Most connections of one address or IPv6 /64. Null takes a quarter of `clients`, at least 32.
    /// At the limit, the oldest connection without a session makes room.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub clients_per_address: Option<usize>,
    /// Whether media may go by UDP, to the client's address.
    pub udp: bool,
    /// First UDP port for media, an even one; each thread takes a pair. 0 takes free ones.
    #[serde(deserialize_with = "even")]
    pub udp_port: u16,
    /// UDP ports that cameras send to (`?transport=udp`), like `20000-20099`, a pair a track; a
    /// source's `udp_ports` win. Null takes free ones.
    #[schemars(with = "Option<String>")]
    pub camera_udp_ports: Option<UdpPorts>,
    /// Multicast groups for clients that ask for multicast; null turns multicast off.
    pub multicast: Option<Multicast>,
    /// Delay in ms after which a client skips to the newest keyframe.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub lag_ms: u64,
    /// Seconds without taking any byte after which a client is closed.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub stall_s: u64,
    /// Folder whose files are streams named by their paths; WHEP viewers watch those directly in
    /// it. Null for none.
    pub media_folder: Option<PathBuf>,
    /// Most clients that seek, pause or change speed in a file.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub media_clients: usize,
    /// RTSP within TLS, on a port of its own.
    pub tls: RtspTls,
}

/// RTSP within TLS, which serves streams at `rtsps://HOST:PORT/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RtspTls {
    /// TCP address to listen on, `IP:PORT`; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// PEM file with the certificate chain. Null for both files takes the certificate of `tls`.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key, without a passphrase.
    pub key: Option<PathBuf>,
    /// Whether media is also sealed packet by packet (SRTP), which lets it go by UDP.
    pub srtp: Srtp,
}

/// SRTP within RTSPS (RFC 4567, keys in MIKEY messages).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Srtp {
    /// Media goes within the connection only.
    Off,
    /// Clients that ask for SRTP with `?srtp` behind the stream's name get it; others get media
    /// within the connection.
    #[default]
    Optional,
    /// Players get media by SRTP only; those that do not support it get nothing.
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

/// The multicast groups that streams are sent to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multicast {
    /// Network of the groups, like `239.255.42.0/24`, one group a track; an address means itself
    /// and those above it in its /24.
    #[schemars(with = "String")]
    pub group: Groups,
    /// First UDP port, even. The nth group has the nth pair of ports.
    #[serde(deserialize_with = "even_and_positive")]
    #[schemars(range(min = 2))]
    pub port: u16,
    /// Time to live of packets: 1 stays within the local network.
    #[serde(default = "local_ttl", deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub ttl: u8,
    /// Address of the interface; null leaves it to the routing table.
    #[serde(default)]
    pub interface: Option<Ipv4Addr>,
}

/// Returns the default of [`Multicast::ttl`].
const fn local_ttl() -> u8 {
    1
}

/// Consecutive addresses of multicast groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// First address of the range.
    pub first: Ipv4Addr,
    /// Number of addresses, at least 1.
    pub count: u32,
}

impl Groups {
    /// Parses `239.255.42.0/24`, or the first address alone.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let first: Ipv4Addr = address.parse().ok()?;
        let count = match bits {
            // All multicast addresses have their first four bits in common, so a shorter prefix is
            // invalid.
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

/// Parses an even port that is not 0, because receivers must know it beforehand.
fn even_and_positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match even(deserializer)? {
        0 => Err(D::Error::custom("must be an even port, not 0")),
        port => Ok(port),
    }
}

/// Parses an even port: RTP has the even port, RTCP the next (RFC 3550 §11).
fn even<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let port = u16::deserialize(deserializer)?;
    if !port.is_multiple_of(2) {
        return Err(D::Error::custom("must be an even port, or 0 for free ones"));
    }
    Ok(port)
}

impl Rtsp {
    /// Returns the delay after which a client skips.
    pub const fn lag(&self) -> Duration {
        Duration::from_millis(self.lag_ms)
    }

    /// Returns the most connections of one client address.
    pub fn clients_per_address(&self) -> usize {
        parts::per_address(self.clients_per_address, self.clients)
    }

    /// Returns the time without taking any byte after which a client is closed.
    pub const fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_s)
    }
}

impl Default for Rtsp {
    fn default() -> Self {
        Self {
            address: Some(loopback(8554)),
            clients: 10_000,
            clients_per_address: None,
            udp: true,
            udp_port: 0,
            camera_udp_ports: None,
            multicast: None,
            // A live frame that is later is of little use. A smaller value would punish a lost
            // packet on a long path, which takes a retransmission timeout or two.
            lag_ms: 1500,
            stall_s: 10,
            media_folder: None,
            // Each takes half a MiB, most of it data that the client has not read yet.
            media_clients: 1_000,
            tls: RtspTls::default(),
        }
    }
}

impl RtspTls {
    /// Returns the certificate's files; `None` if the listener uses the certificate of `tls`.
    ///
    /// # Errors
    /// Returns [`FilesError`] if only one of the two files is named.
    pub fn files(&self) -> Result<Option<PemFiles>, FilesError> {
        PemFiles::of("rtsp.tls", self.certificate.as_ref(), self.key.as_ref())
    }
}

/// Returns why the key `name` is heeded after a restart only, in words that follow the key and a colon;
/// `None` if the reason is one that other sections have, too.
pub(super) fn reason_for_restart(name: &str) -> Option<&'static str> {
    Some(match name {
        "media_folder" => {
            "the threads for files start with the server; another folder in place of one needs no \
             restart"
        }
        "udp" | "udp_port" => "each thread opens its UDP ports when it starts",
        "tls.srtp" => "the threads agree on it with each client from their start on",
        "camera_udp_ports" => "cameras learn their ports from the server's start on",
        name if name.starts_with("multicast") => {
            "receivers know the groups, and their sockets are opened when the server starts"
        }
        _ => return None,
    })
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
