//! A small HTTP server, for ends that can be called and for tools with an HTTP interface.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::extract::connect_info::Connected;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::IncomingStream;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Largest request body, in bytes: an offer has a few kilobytes, with a plan a few more.
const BODY_BYTES_MAX: usize = 128 << 10;

/// An HTTP server with a thread of its own; it runs until it is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Listening {
    /// Serves `routes` at `address`, on a thread called `name`.
    ///
    /// # Errors
    /// If the address is taken or not ours, or the system refuses a thread.
    pub fn start(address: SocketAddr, name: &'static str, routes: Router) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let service = routes
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .into_make_service_with_connect_info::<Ends>();
        runtime.spawn(async move {
            if let Err(error) = axum::serve(listener, service).await {
                tracing::error!(%error, "{name}: the HTTP server stopped; requests get no answer");
            }
        });
        Ok(Self {
            address,
            runtime: Some(runtime),
        })
    }

    /// Address at which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Clients that still wait for a response lose their connection.
            runtime.shutdown_background();
        }
    }
}

/// Whether a request says that its body is of type `expected`.
pub fn is_of_type(headers: &HeaderMap, expected: &str) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(expected))
}

/// A refusal: status code and text.
pub type Refusal = (StatusCode, String);

/// Runs `work` on a thread that may block, and returns its result; a refusal becomes a
/// response.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Response> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err((status, reason))) => Err((status, reason + "\n").into_response()),
        Err(error) => {
            let text = format!("{error}\n");
            Err((StatusCode::INTERNAL_SERVER_ERROR, text).into_response())
        }
    }
}

/// Addresses of both ends of an HTTP connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Our address that the client reached; the client can reach it for media too.
    pub local: SocketAddr,
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

/// Content security policy: only this server's own script runs in a page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Response with a file of a page.
pub fn asset(kind: &'static str, body: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    (headers, body).into_response()
}
