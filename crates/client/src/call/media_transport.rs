use std::net::SocketAddr;
use std::sync::Arc;

use glassline_net::UdpSocket;
use glassline_webrtc::Session;

/// A session and its own socket.
#[derive(Debug)]
pub struct MediaTransport {
    pub(crate) session: Session,
    pub(crate) socket: Arc<UdpSocket>,
    /// Best address of the socket.
    pub(crate) local: SocketAddr,
    /// Whether we made the offer.
    pub(crate) offered: bool,
}

impl MediaTransport {
    pub(crate) fn new(
        session: Session,
        socket: UdpSocket,
        local: SocketAddr,
        offered: bool,
    ) -> Self {
        Self {
            offered,
            session,
            socket: Arc::new(socket),
            local,
        }
    }

    /// Whether the peer accepts our audio.
    pub fn speaks(&self) -> bool {
        !self.session.senders().is_empty()
    }

    /// Whether the peer sends audio.
    pub fn listens(&self) -> bool {
        !self.session.receivers().is_empty()
    }
}
