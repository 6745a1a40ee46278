use std::net::SocketAddr;
use std::sync::Arc;

use glassline_net::UdpSocket;
use glassline_webrtc::Session;

/// A session and the socket that is its own.
#[derive(Debug)]
pub struct Line {
    pub(crate) session: Session,
    pub(crate) socket: Arc<UdpSocket>,
    /// Where the socket is reached, best first.
    pub(crate) local: SocketAddr,
    /// The offer was ours.
    pub(crate) offered: bool,
}

impl Line {
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

    /// The peer takes what we say.
    pub fn speaks(&self) -> bool {
        !self.session.senders().is_empty()
    }

    /// The peer says something.
    pub fn listens(&self) -> bool {
        !self.session.receivers().is_empty()
    }
}
