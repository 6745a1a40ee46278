//! HTTPS requests to an authority, with deadlines, limits and the TLS of the rest of the server.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::{self, HeaderValue};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::AcmeError;
use crate::tls::certificate::provider;

/// Longest time that one request may take, connecting included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Largest body of an answer, in bytes; a chain of certificates has less than 20 kB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Makes one connection for each request: an order has some twelve, months apart from the next.
#[derive(Clone)]
pub(super) struct Transport {
    tls: TlsConnector,
    /// The pause that the latest refusal asked for.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Transport {
    /// Creates the transport; `roots` is a PEM file of trusted certificates in place of Mozilla's.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the file cannot be used, or TLS does not start.
    pub(super) fn new(roots: Option<&Path>) -> Result<Self, AcmeError> {
        let mut store = RootCertStore::empty();
        match roots {
            None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let failed = |source| AcmeError::Roots {
                    path: path.to_owned(),
                    source,
                };
                let text = std::fs::read(path).map_err(failed)?;
                let certificates = CertificateDer::pem_slice_iter(&text);
                let certificates = certificates.collect::<Result<Vec<_>, _>>();
                let no_pem = |error| failed(io::Error::other(error));
                store.add_parsable_certificates(certificates.map_err(no_pem)?);
                if store.is_empty() {
                    return Err(failed(io::Error::other("it has no usable certificate")));
                }
            }
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            retry_after: Arc::default(),
        })
    }

    /// Returns the pause that the latest refusal asked for, once.
    pub(super) fn take_retry_after(&self) -> Option<Duration> {
        let mut retry_after = self
            .retry_after
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        retry_after.take()
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let response = self.send(request).await.map_err(Error::Other)?;
        let (parts, body) = response.into_parts();
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let seconds = parts.headers.get(header::RETRY_AFTER);
            let seconds = seconds.and_then(|it| it.to_str().ok()?.trim().parse().ok());
            let mut asked = self
                .retry_after
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *asked = seconds.map(Duration::from_secs);
        }
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(Error::Other)?.to_bytes();
        Ok(BytesResponse {
            parts,
            body: Box::new(body),
        })
    }

    async fn send(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let uri = request.uri().clone();
        if uri.scheme_str() != Some("https") {
            return Err(format!("{uri} is no https:// URL").into());
        }
        let authority = uri.authority().ok_or("the URL has no host")?;
        let host = authority.host().trim_matches(['[', ']']);
        let server_name = ServerName::try_from(host.to_owned())?;
        let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(443))).await?;
        let stream = self.tls.connect(server_name, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The task ends with `sender`; failures of the connection are failures of the request.
        tokio::spawn(connection);
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().insert(header::HOST, host);
        let path = uri.path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        Ok(sender.send_request(request).await?)
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let exchange = self.clone().exchange(request);
        Box::pin(async {
            let exchanged = tokio::time::timeout(REQUEST_TIME_MAX, exchange).await;
            exchanged.unwrap_or_else(|_| {
                let seconds = REQUEST_TIME_MAX.as_secs();
                Err(Error::Other(format!("no answer within {seconds} s").into()))
            })
        })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}
