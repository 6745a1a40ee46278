//! Where WebRTC media arrives, and what clients are told about it.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{loopback, parts};
use crate::AdvertisedAddress;

/// WebRTC media over UDP, and over TCP for viewers and publishers that UDP does not reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Media {
    /// Where to listen, `IP:PORT`; port 0 takes a free one.
    pub address: SocketAddr,
    /// Addresses that clients send to (port forwarding, clouds): IP addresses, host names, and
    /// `stun:HOST[:PORT]` for the address that this STUN server sees. Names and STUN servers are
    /// asked every minute. If empty: the address listened on, or, if that is unspecified, the one
    /// that the client's request arrived at.
    pub advertise: Vec<AdvertisedAddress>,
    /// Whether the same port of TCP takes media, too (ICE-TCP). Browsers prefer UDP.
    pub tcp: bool,
    /// Most connections of that port, a quarter of them from one IPv4 address or IPv6 /64.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub tcp_connections: usize,
}

impl Media {
    /// Returns the entries of `advertise` that are IP addresses.
    pub fn advertised_ips(&self) -> Vec<IpAddr> {
        let ips = self.advertise.iter().filter_map(|entry| match entry {
            AdvertisedAddress::Ip(ip) => Some(*ip),
            _ => None,
        });
        ips.collect()
    }
}

impl Default for Media {
    fn default() -> Self {
        Self {
            address: loopback(8189),
            advertise: Vec::new(),
            tcp: true,
            tcp_connections: 4_096,
        }
    }
}
