//! The addresses that the server listens on, as the configuration gives them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::Config;

/// Transport protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The listener accepts connections of TCP.
    Tcp,
    /// The listener receives datagrams of UDP.
    Udp,
}

/// A listener of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfiguredListener {
    /// Key of the address.
    pub key: &'static str,
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// Address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
}

/// Key that turns media over TCP on, at the same address as media over UDP.
const MEDIA_TCP: &str = "media.tcp";

/// Two listeners want the same port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{first} and {second} both want {protocol} port {port}: give each a port of its own",
    first = .0.key, second = .1.key, protocol = .1.protocol, port = .1.address.port()
)]
pub struct Collision(ConfiguredListener, ConfiguredListener);

impl Config {
    /// Returns all listeners that are turned on.
    pub fn configured_listeners(&self) -> Vec<ConfiguredListener> {
        let tcp = [
            ("http.address", Some(self.http.address)),
            ("https.address", self.https_address()),
            ("admin.address", Some(self.admin.address)),
            ("admin.https", self.admin.https),
            ("rtsp.address", self.rtsp.address),
            ("rtsp.tls.address", self.rtsp.tls.address),
        ];
        let udp = [
            ("media.address", Some(self.media.address)),
            ("quic.address", self.quic.address),
        ];
        let of = |protocol| {
            move |(key, address): (&'static str, Option<SocketAddr>)| {
                Some(ConfiguredListener {
                    key,
                    protocol,
                    address: address?,
                })
            }
        };
        let media_tcp = (MEDIA_TCP, self.media.tcp.then_some(self.media.address));
        let tcp = tcp.into_iter().filter_map(of(Protocol::Tcp));
        let udp = udp.into_iter().filter_map(of(Protocol::Udp));
        let media_tcp = std::iter::once(media_tcp).filter_map(of(Protocol::Tcp));
        tcp.chain(udp).chain(media_tcp).collect()
    }

    /// Checks that no two listeners want the same port.
    ///
    /// # Errors
    /// Returns [`Collision`] with the keys of two of them.
    pub fn check_ports(&self) -> Result<(), Collision> {
        let listeners = self.configured_listeners();
        for (place, second) in listeners.iter().enumerate() {
            let before = listeners[..place].iter();
            if let Some(first) = before.clone().find(|first| collide(first, second)) {
                return Err(Collision(*first, *second));
            }
        }
        Ok(())
    }
}

fn collide(first: &ConfiguredListener, second: &ConfiguredListener) -> bool {
    let port = first.address.port();
    let same_port = port != 0 && port == second.address.port();
    let [a, b] = [first, second].map(|it| it.address.ip().to_canonical());
    // `[::]` also takes the addresses of IPv4.
    let covers =
        |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    first.protocol == second.protocol && same_port && (covers(a, b) || covers(b, a))
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Result<(), String> {
        let config = Config::from_yaml(yaml, "test.yml").expect("each address is good");
        config.check_ports().map_err(|error| error.to_string())
    }

    #[test]
    fn two_listeners_on_one_port_are_named() {
        for (yaml, keys) in [
            (
                "{http: {address: '0.0.0.0:90'}, rtsp: {address: '127.0.0.1:90'}}",
                ["http", "rtsp"],
            ),
            (
                "{http: {address: '127.0.0.1:90'}, rtsp: {address: '[::]:90'}}",
                ["http", "rtsp"],
            ),
            (
                "{media: {address: '127.0.0.1:90'}, quic: {address: '127.0.0.1:90'}}",
                ["media", "quic"],
            ),
            ("{admin: {address: '127.0.0.1:8554'}}", ["admin", "rtsp"]),
            (
                "{http: {address: '0.0.0.0:90'}, media: {address: '0.0.0.0:90'}}",
                ["http", "media.tcp"],
            ),
        ] {
            let error = check(yaml).expect_err(yaml);
            assert!(keys.iter().all(|key| error.contains(key)), "{error}");
        }
    }

    #[test]
    fn ports_of_other_addresses_and_protocols_are_free() {
        for yaml in [
            "{}",
            "{http: {address: '127.0.0.1:90'}, rtsp: {address: '127.0.0.2:90'}}",
            "{http: {address: '0.0.0.0:90'}, rtsp: {address: '[::1]:90'}}",
            "{http: {address: '0.0.0.0:90'}, media: {address: '0.0.0.0:90', tcp: false}}",
            "{http: {address: '0.0.0.0:0'}, rtsp: {address: '0.0.0.0:0'}}",
        ] {
            assert_eq!(check(yaml), Ok(()), "{yaml}");
        }
    }
}
