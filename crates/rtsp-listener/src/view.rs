//! RTSP clients as the API shows them.

use std::net::SocketAddr;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

/// A client with a session, at the time of the request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RtspClient")]
pub struct ClientView {
    /// Name of the client's stream, or path of its file in the media folder.
    pub stream: String,
    /// Whether the client plays the file on its own, because it sought in it or changed its speed.
    pub private: bool,
    /// Address of the client.
    pub address: SocketAddr,
    /// Name of the user, if the client had to authenticate.
    pub user: Option<String>,
    /// Transport of the client's media: `tcp`, `tls`, `http`, `udp` or `multicast`.
    pub transport: &'static str,
    /// Whether the client's packets are SRTP.
    pub srtp: bool,
    /// State of the session: `playing`, `recording` or `ready`.
    pub state: &'static str,
    /// Delay of the client behind the stream, in ms.
    pub lag_ms: u64,
    /// Number of times that the client skipped to a keyframe because it lagged.
    pub skips: u32,
    /// Number of frames and packets of audio that the client missed by skipping.
    pub skipped_frames: u64,
    /// Bytes sent to the client, or published by it.
    pub bytes: u64,
    /// When the client connected.
    #[serde(skip)]
    pub since: Instant,
}

impl ClientView {
    /// Returns whether the client has set up a stream to play, and does not publish.
    pub(crate) fn is_player(&self) -> bool {
        self.state != "recording"
    }
}
