//! The ports of other protocols, as the server's configuration names them.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Config;

/// Ports of other protocols that other machines reach, if the configuration names them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MediaPorts {
    rtsp: Option<u16>,
    rtsps: Option<u16>,
    /// UDP port of MoQ.
    quic: Option<u16>,
}

impl MediaPorts {
    pub(super) fn of(config: &Config) -> Self {
        let port = |address: Option<SocketAddr>| {
            let address = address.filter(|it| !it.ip().is_loopback() && it.port() != 0);
            address.map(|it| it.port())
        };
        Self {
            rtsp: port(config.rtsp.address),
            rtsps: port(config.rtsp.tls.address),
            quic: port(config.quic.address),
        }
    }
}
