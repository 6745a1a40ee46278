//! What signalling threads are asked for, and what they bring.

use std::net::SocketAddr;
use std::time::Instant;

use glassline_net::UdpSocket;
use glassline_webrtc::Session;
use url::Url;

use super::{Id, Join, RtspTransport, rtsp};
use crate::whep;

/// Something that may take a while: name resolution, HTTP, connecting.
pub(super) enum Job {
    Join { id: Id, join: Join },
    Leave { location: Url },
    Farewell(Box<rtsp::Farewell>),
}

/// A viewer that the server answered.
pub(super) enum Dialled {
    WebRtc(Box<Answered>),
    Rtsp {
        connection: rtsp::Connection,
        url: Url,
        transport: RtspTransport,
    },
}

/// A viewer whose offer was answered.
pub(super) struct Answered {
    pub(super) url: Url,
    pub(super) socket: UdpSocket,
    /// Our addresses on that socket, as candidates.
    pub(super) local: Vec<SocketAddr>,
    pub(super) session: Session,
    /// When the POST began.
    pub(super) started: Instant,
    pub(super) answer: whep::Answer,
}
