//! The section `rtsp`.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{loopback, parts};

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
    /// Milliseconds that a client may lag behind before it skips to the newest
    /// keyframe.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub lag_ms: u64,
    /// Seconds that a client may take nothing at all before it is closed.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub stall_s: u64,
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
            // A live picture that is later is of little use; less would punish a lost
            // packet on a long way, which takes a retransmission timeout or two.
            lag_ms: 1500,
            stall_s: 10,
        }
    }
}
