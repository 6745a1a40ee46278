//! HTTP requests that the server itself sends, to services that the operator names.
//!
//! ```text
//! tls/acme: orders of certificates ─┐
//! auth: keys, questions about rights ├─► HttpClient ─► one connection a request, TLS by rustls
//! ```
//!
//! A request has a deadline, and its answer a bound. Redirects are not followed: an answer that
//! leads elsewhere could lead into the server's own network.

mod signing;
mod web_url;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{self, HeaderValue};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{Request, Response};
use bytes::Bytes;
use glassline_runtime::small_file;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use signing::{SIGNATURE, Signer};
pub use web_url::{WebUrl, WebUrlError};

/// Largest file of trusted certificates that is read. The bundles of systems have less than 1 MiB.
const ROOTS_BYTES_MAX: u64 = 16 << 20;

/// An error of a request, as the layers below report it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time until the whole answer is there, connecting included.
    pub time: Duration,
    /// Size of the answer's body, in bytes.
    pub body_bytes: usize,
}

/// Sends requests over HTTP and HTTPS, each on a connection of its own.
#[derive(Clone, derive_more::Debug)]
#[debug("HttpClient")]
pub struct HttpClient {
    tls: TlsConnector,
}

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of trusted certificates cannot be used.
    #[error("{}: {source}; name a PEM file with the root certificates", path.display())]
    Roots {
        /// File that the configuration names.
        path: PathBuf,
        /// The error that reading it returned.
        source: io::Error,
    },
    /// TLS does not start.
    #[error("TLS does not start: {0}")]
    Tls(#[from] rustls::Error),
}

impl HttpClient {
    /// Creates the client; `roots` is a PEM file of trusted certificates in place of Mozilla's.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the file cannot be used, or TLS does not start.
    pub fn new(roots: Option<&Path>) -> Result<Self, ClientError> {
        let mut store = RootCertStore::empty();
        match roots {
            None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let failed = |source| ClientError::Roots {
                    path: path.to_owned(),
                    source,
                };
                let text = small_file::read(path, ROOTS_BYTES_MAX).map_err(failed)?;
                let certificates = CertificateDer::pem_slice_iter(&text);
                let certificates = certificates.collect::<Result<Vec<_>, _>>();
                let no_pem = |error| failed(io::Error::other(error));
                store.add_parsable_certificates(certificates.map_err(no_pem)?);
                if store.is_empty() {
                    return Err(failed(io::Error::other("it has no usable certificate")));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Sends a request, and returns the answer with its body within `bounds`.
    ///
    /// # Errors
    /// Returns the first error of connecting, of TLS, or of HTTP, or which bound was reached.
    pub async fn fetch<B>(
        &self,
        request: Request<B>,
        bounds: Bounds,
    ) -> Result<Response<Bytes>, BoxError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let exchange = async {
            let (parts, body) = self.send(request).await?.into_parts();
            let body = Limited::new(body, bounds.body_bytes).collect().await?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        };
        let exchanged = tokio::time::timeout(bounds.time, exchange).await;
        exchanged.unwrap_or_else(|_| {
            Err(format!("no answer within {} ms", bounds.time.as_millis()).into())
        })
    }

    /// Sends a request, and returns the answer once its head is there. The caller bounds the time.
    ///
    /// # Errors
    /// Returns the first error of connecting, of TLS, or of HTTP.
    pub async fn send<B>(&self, mut request: Request<B>) -> Result<Response<Incoming>, BoxError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let uri = request.uri().clone();
        let authority = uri.authority().ok_or("the URL has no host")?;
        let host = authority.host().trim_matches(['[', ']']);
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(format!("{uri} is neither http:// nor https://").into()),
        };
        let port = authority.port_u16();
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        request
            .headers_mut()
            .insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
        let path = uri.path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        let server_name = ServerName::try_from(host.to_owned())?;
        let stream = TcpStream::connect((host, port)).await?;
        if is_secure {
            let stream = self.tls.connect(server_name, stream).await?;
            return exchange(stream, request).await;
        }
        exchange(stream, request).await
    }
}

/// Sends a request on a new connection.
async fn exchange<S, B>(stream: S, request: Request<B>) -> Result<Response<Incoming>, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with `sender`; failures of the connection are failures of the request.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}
