//! What the API says of RTSP clients.

use std::net::SocketAddr;

use serde::Serialize;

/// A client with a session, at the time of the question.
#[derive(Clone, Debug, Serialize)]
pub struct ClientView {
    /// What it watches: a stream's name, or a file's path in the media folder.
    pub stream: String,
    /// It plays that file on its own, since it sought in it or changed its speed.
    pub private: bool,
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is, where it had to say so.
    pub user: Option<String>,
    /// `tcp`, `tls`, `http`, `udp` or `multicast`.
    pub transport: &'static str,
    /// Its packets are sealed by themselves.
    pub srtp: bool,
    /// `playing`, `recording` or `ready`.
    pub state: &'static str,
    /// How far behind the stream it is.
    pub lag_ms: u64,
    /// Times that it skipped to a keyframe because it lagged.
    pub skips: u32,
    /// Frames and packets of audio that it did not get.
    pub skipped_frames: u64,
    /// Bytes sent to it, or that it published.
    pub bytes: u64,
}
