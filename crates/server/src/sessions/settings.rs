//! Settings of sessions: those of the start, and those that a reload changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_config::{Config, DataAccess, Fec, Limits};
use glassline_egress::webrtc::Delivery;
use glassline_messages::DataPolicy;
use glassline_runtime::{Clock, Current};
use glassline_webrtc::{Certificate, ControlPlan};

use super::admission::Bounds;

/// Settings for the answers to offers.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The process's DTLS certificate.
    pub(crate) certificate: Arc<Certificate>,
    /// UDP address that the shards listen on.
    pub(crate) media: SocketAddr,
    /// Whether the same port of TCP takes media, too.
    pub(crate) media_tcp: bool,
    /// Clock for the NTP times of sender reports. A session keeps the calendar of its beginning.
    pub(crate) clock: Clock,
    /// The settings that a reload may change.
    pub(crate) defaults: Current<SessionDefaults>,
}

/// Settings of sessions that begin from now on.
#[derive(Clone, Debug)]
pub(crate) struct SessionDefaults {
    /// Time that a peer has from its offer to the end of its handshake.
    pub(crate) handshake: Duration,
    /// Congestion control that paces viewers; `None` sends frames as they come.
    pub(crate) pacing: Option<ControlPlan>,
    /// Rules by which frames and repairs leave.
    pub(crate) delivery: Delivery,
    /// Rules for data channels next to streams; `None` where they are turned off.
    pub(crate) data: Option<DataPolicy>,
}

impl SessionDefaults {
    /// Returns what `config` says of sessions.
    pub(crate) fn of(config: &Config) -> Self {
        let data = &config.webrtc.data;
        Self {
            handshake: config.limits.handshake(),
            pacing: config.webrtc.pacing.control(),
            delivery: Delivery {
                lag: config.webrtc.lag(),
                is_protected: config.webrtc.fec == Fec::Auto,
            },
            data: data.bounds().map(|bounds| DataPolicy {
                bounds,
                viewers_send: data.viewers == DataAccess::Write,
            }),
        }
    }
}

impl Bounds {
    /// Returns what `limits` says of sessions.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            viewers: limits.viewers,
            half_open: limits.half_open,
            half_open_per_address: limits.half_open_per_address,
            handshake: limits.handshake(),
        }
    }
}
