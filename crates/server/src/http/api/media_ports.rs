//! The ports of other protocols, as the server's configuration names them.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;

use glassline_config::Config;

use super::super::openapi::Argument;
use crate::sessions::ConnectionAddresses;

/// Ports of other protocols that the client reaches, if the configuration names them: one that listens
/// on loopback alone is for clients of this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MediaPorts {
    rtsp: Option<u16>,
    rtsps: Option<u16>,
    /// UDP port of MoQ.
    quic: Option<u16>,
    /// Port for operators; for clients of this machine only.
    admin: Option<u16>,
}

/// Tells whether a client is on this machine. A proxy on this machine asks for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsHere(pub(super) bool);

impl<S: Sync> FromRequestParts<S> for IsHere {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut signs = ["x-forwarded-for", "forwarded"].into_iter();
        let is_forwarded = signs.any(|sign| parts.headers.contains_key(sign));
        let connection = parts.extensions.get::<ConnectInfo<ConnectionAddresses>>();
        let is_loopback =
            connection.is_some_and(|ConnectInfo(it)| it.peer.ip().to_canonical().is_loopback());
        Ok(Self(is_loopback && !is_forwarded))
    }
}

impl Argument for IsHere {}

impl MediaPorts {
    /// Returns the ports for a client that is on this machine, or is not.
    pub(super) fn of(config: &Config, is_here: bool) -> Self {
        let port = |address: Option<SocketAddr>| {
            let address = address.filter(|it| is_here || !it.ip().is_loopback());
            address.map(|it| it.port()).filter(|port| *port != 0)
        };
        Self {
            rtsp: port(config.rtsp.address),
            rtsps: port(config.rtsp.tls.address),
            quic: port(config.quic.address),
            admin: port(Some(config.admin.address)).filter(|_| is_here),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_loopback_are_for_clients_of_this_machine() {
        let yaml = "{rtsp: {address: '127.0.0.1:22554'}, quic: {address: '0.0.0.0:4443'}}";
        let config = Config::from_yaml(yaml, "t.yml").expect("a good file");
        let here = MediaPorts::of(&config, true);
        assert_eq!(
            (here.rtsp, here.rtsps, here.quic),
            (Some(22554), None, Some(4443))
        );
        assert_eq!(here.admin, Some(9997));
        let elsewhere = MediaPorts::of(&config, false);
        assert_eq!((elsewhere.rtsp, elsewhere.quic), (None, Some(4443)));
        assert_eq!(elsewhere.admin, None);
    }
}
