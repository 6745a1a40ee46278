//! The section `rtsp`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{loopback, parts};
use crate::rtsp::{Identity, IdentityError};

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
            // A live picture that is later is of little use; less would punish a lost
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
