//! Opens streams for requests of HTTP, and tells of those that the peer opened.

use std::io;
use std::net::SocketAddr;

use super::request_stream::{self, RequestStream, RequestStreams};
use super::session::Session;

impl Session {
    /// Opens a stream for one request to the other server. A server that takes no such streams ends the
    /// stream.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn open_request(&self) -> io::Result<RequestStream> {
        let opened = self.link.open_bi().await.map_err(io::Error::other);
        let (mut send, receive) = opened?;
        let header = [&request_stream::TYPE[..], &[request_stream::VERSION]].concat();
        send.write_all(&header).await.map_err(io::Error::other)?;
        Ok(RequestStream::new(send, receive))
    }

    /// Returns the streams with requests of the peer, once; `None` if the peer is no server of the same
    /// cluster that reads streams.
    pub fn take_request_streams(&self) -> Option<RequestStreams> {
        self.request_streams.take()
    }

    /// Returns the address of this end of the connection, as far as the system tells; its port is 0.
    pub fn local(&self) -> Option<SocketAddr> {
        let path = self.link.connection.path(noq::PathId::ZERO)?;
        Some(SocketAddr::new(path.local_ip().ok()??, 0))
    }
}
