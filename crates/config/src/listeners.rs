//! The addresses that the server listens on, as the configuration gives them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::Config;

/// Transport protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Protocol {
    /// The listener accepts connections of TCP.
    #[display("TCP")]
    Tcp,
    /// The listener receives datagrams of UDP.
    #[display("UDP")]
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

/// Listeners want the same ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: give each a port of its own", Pairs(.0))]
pub struct Collisions(Vec<(ConfiguredListener, ConfiguredListener)>);

struct Pairs<'a>(&'a [(ConfiguredListener, ConfiguredListener)]);

impl fmt::Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, second)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            let (protocol, port) = (second.protocol, second.address.port());
            let (first, second) = (first.key, second.key);
            write!(f, "{first} and {second} both want {protocol} port {port}")?;
        }
        Ok(())
    }
}

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
    /// Returns [`Collisions`] with the keys of all of them, each with the first listener that has its
    /// port.
    pub fn check_ports(&self) -> Result<(), Collisions> {
        let listeners = self.configured_listeners();
        let pairs = listeners.iter().enumerate().filter_map(|(place, second)| {
            let mut before = listeners[..place].iter();
            let first = before.find(|first| collide(first, second))?;
            Some((*first, *second))
        });
        let pairs: Vec<_> = pairs.collect();
        match pairs.is_empty() {
            true => Ok(()),
            false => Err(Collisions(pairs)),
        }
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
    fn all_listeners_without_a_port_of_their_own_are_named_at_once() {
        let yaml = "{http: {address: '0.0.0.0:90'}, admin: {address: '127.0.0.1:90'}, \
             rtsp: {address: '127.0.0.1:91', tls: {address: '127.0.0.1:91'}}, \
             media: {address: '127.0.0.1:92', tcp: false}, quic: {address: '127.0.0.1:92'}}";
        let wanted = "http.address and admin.address both want TCP port 90, \
             rtsp.address and rtsp.tls.address both want TCP port 91, \
             media.address and quic.address both want UDP port 92: give each a port of its own";
        assert_eq!(check(yaml), Err(wanted.to_owned()));
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
