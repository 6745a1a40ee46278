//! Datagrams of an end: its socket, its connection to a TURN server, and the datagrams that the
//! kernel has not accepted yet.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use glassline_client::relay::Connection;
use glassline_net::{ReceiveBatch, SendError, UdpSocket};
use glassline_webrtc::Session;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use super::error::{EndError, system};

const SOCKET: Token = Token(0);
const CONNECTION: Token = Token(1);

/// Transport of a session's datagrams.
pub(super) struct Transport {
    socket: UdpSocket,
    /// Address of the socket.
    local: SocketAddr,
    /// Connection to the TURN server, if that is reached over TCP or TLS.
    connection: Option<Connection>,
    /// Datagrams that the kernel did not accept yet.
    backlog: Vec<u8>,
    /// Destination of the backlog, and the length of its datagrams.
    backlog_to: Option<(SocketAddr, usize)>,
    scratch: Vec<u8>,
}

impl Transport {
    pub(super) const fn new(
        socket: UdpSocket,
        local: SocketAddr,
        connection: Option<Connection>,
    ) -> Self {
        Self {
            socket,
            local,
            connection,
            backlog: Vec::new(),
            backlog_to: None,
            scratch: Vec::new(),
        }
    }

    /// Registers the socket and the connection with `poll`.
    pub(super) fn register(&self, poll: &Poll) -> Result<(), EndError> {
        let descriptor = self.socket.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut SourceFd(&descriptor), SOCKET, interest)
            .map_err(system("waiting for the socket"))?;
        if let Some(connection) = &self.connection {
            let descriptor = connection.as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&descriptor), CONNECTION, interest)
                .map_err(system("waiting for the TURN server"))?;
        }
        Ok(())
    }

    /// Reads one batch of datagrams into `session`; returns their bytes, or `None` if there were
    /// none.
    pub(super) fn receive(
        &self,
        session: &mut Session,
        batch: &mut ReceiveBatch,
    ) -> Result<Option<usize>, EndError> {
        let count = self
            .socket
            .receive_batch(batch)
            .map_err(system("receiving datagrams"))?;
        if count == 0 {
            return Ok(None);
        }
        let now = Instant::now();
        let mut bytes_read = 0;
        for datagram in batch.iter_mut() {
            bytes_read += datagram.bytes.len();
            let to = self.arrived_at(datagram.destination);
            let size = datagram
                .segment
                .map_or(datagram.bytes.len(), usize::from)
                .max(1);
            for bytes in datagram.bytes.chunks_mut(size) {
                // Datagrams that the session drops have no effect, and the session counts them.
                let _ = session.handle_datagram(now, datagram.source, to, bytes);
            }
        }
        session.end_batch(now);
        Ok(Some(bytes_read))
    }

    /// Reads frames from the TURN server's connection; returns `false` if there were none.
    pub(super) fn receive_frames(&mut self, session: &mut Session) -> Result<bool, EndError> {
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let (now, from) = (Instant::now(), connection.address());
        let local = self.local;
        let any = connection
            .read(|frame| {
                // Frames that the session drops have no effect, as with datagrams.
                let _ = session.handle_datagram(now, from, local, frame);
            })
            .map_err(system("the connection to the TURN server"))?;
        if any {
            session.end_batch(now);
        }
        Ok(any)
    }

    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        ip.map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()))
    }

    /// Sends the session's datagrams as far as the kernel accepts them; returns `false` if none
    /// was sent.
    pub(super) fn transmit(
        &mut self,
        session: &mut Session,
        now: Instant,
    ) -> Result<bool, EndError> {
        let mut any = false;
        loop {
            if let Some((to, segment)) = self.backlog_to {
                let sent = self.socket.send_segmented(&self.backlog, segment, to);
                any |= sent.bytes > 0;
                match sent.stopped {
                    Some(SendError::WouldBlock) => {
                        self.backlog.drain(..sent.bytes);
                        return Ok(any);
                    }
                    // The peer or the route is gone: ICE and SCTP will notice.
                    Some(error) => tracing::debug!(%error, %to, "datagrams were not sent"),
                    None => {}
                }
                self.backlog_to = None;
            }
            let Some((to, segment)) = session.poll_transmit_batch(now, &mut self.scratch) else {
                return Ok(any);
            };
            let next = (to.socket, segment);
            if let Some(connection) = &mut self.connection
                && connection.address() == next.0
            {
                connection
                    .write(&self.scratch)
                    .map_err(system("the connection to the TURN server"))?;
                any = true;
                continue;
            }
            std::mem::swap(&mut self.backlog, &mut self.scratch);
            self.backlog_to = Some(next);
        }
    }
}
