//! What the laboratory's small HTTP servers have in common.

use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::IncomingStream;
use tokio::net::TcpListener;

/// Both ends of an HTTP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    /// Which of our addresses the peer reached: one that it can reach for media too.
    pub(crate) local: SocketAddr,
}

impl Connected<IncomingStream<'_, TcpListener>> for Ends {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            peer: *stream.remote_addr(),
            local: stream.io().local_addr().unwrap_or(unknown),
        }
    }
}

/// Only this server's own script runs in a page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of a page.
pub(crate) fn asset(kind: &'static str, body: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    (headers, body).into_response()
}
