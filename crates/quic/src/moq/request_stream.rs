//! QUIC streams beside MoQ that carry a request of HTTP and its answer, between servers of one cluster.
//!
//! ```text
//! server that a request came to                     server whose session the request is about
//! Session::open_request ─ bidirectional stream: type, version ─► RequestStreams
//!   HTTP/1.1 request (RFC 9112) ───────────────────────────────►
//!   ◄─────────────────────────────────────────────── HTTP/1.1 response
//! ```
//!
//! A server takes such streams from servers of its cluster only. This file knows nothing of HTTP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// First bytes of a stream that carries a request; the version follows.
pub(super) const TYPE: [u8; 7] = *b"\xffreques";

/// Version of the streams.
pub(super) const VERSION: u8 = 1;

/// Most streams that wait for this server.
pub(super) const WAITING: usize = 64;

/// A stream that carries one request and its answer.
#[derive(derive_more::Debug)]
#[debug("RequestStream {{ .. }}")]
pub struct RequestStream {
    send: noq::SendStream,
    receive: noq::RecvStream,
}

impl RequestStream {
    pub(super) const fn new(send: noq::SendStream, receive: noq::RecvStream) -> Self {
        Self { send, receive }
    }
}

/// The streams with requests of another server.
#[derive(derive_more::Debug)]
#[debug("RequestStreams {{ .. }}")]
pub struct RequestStreams(pub(super) mpsc::Receiver<RequestStream>);

impl RequestStreams {
    /// Returns the next stream; `None` once the session is over.
    pub async fn next(&mut self) -> Option<RequestStream> {
        self.0.recv().await
    }
}

impl AsyncRead for RequestStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receive), context, into)
    }
}

impl AsyncWrite for RequestStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.send), context)
    }
}
