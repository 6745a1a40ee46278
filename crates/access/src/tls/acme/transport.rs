//! HTTPS requests to an authority, with deadlines, limits and the TLS of the rest of the server.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use axum::http::header;
use bytes::Bytes;
use instant_acme::{BodyWrapper, BytesResponse, Error};
use parking_lot::Mutex;

use super::AcmeError;
use crate::outbound::{Bounds, ClientError, HttpClient};

/// Most that one request may take; a chain of certificates has less than 20 kB.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(30),
    body_bytes: 1 << 20,
};

/// Makes one connection for each request: an order has some twelve, months apart from the next.
#[derive(Clone, derive_more::Debug)]
#[debug("Transport")]
pub(super) struct Transport {
    client: HttpClient,
    /// The pause that the latest refusal asked for.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Transport {
    /// Creates the transport; `roots` is a PEM file of trusted certificates in place of Mozilla's.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the file cannot be used, or TLS does not start.
    pub(super) fn new(roots: Option<&Path>) -> Result<Self, AcmeError> {
        let client = HttpClient::new(roots).map_err(|error| match error {
            ClientError::Roots { path, source } => AcmeError::Roots { path, source },
            ClientError::Tls(error) => AcmeError::from(error),
        })?;
        Ok(Self {
            client,
            retry_after: Arc::default(),
        })
    }

    /// Returns the pause that the latest refusal asked for, once.
    pub(super) fn take_retry_after(&self) -> Option<Duration> {
        let mut retry_after = self.retry_after.lock();
        retry_after.take()
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        if request.uri().scheme_str() != Some("https") {
            return Err(Error::Other(
                format!("{} is no https:// URL", request.uri()).into(),
            ));
        }
        let response = self.client.fetch(request, BOUNDS).await;
        let (parts, body) = response.map_err(Error::Other)?.into_parts();
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let seconds = parts.headers.get(header::RETRY_AFTER);
            let seconds = seconds.and_then(|it| it.to_str().ok()?.trim().parse().ok());
            let mut asked = self.retry_after.lock();
            *asked = seconds.map(Duration::from_secs);
        }
        Ok(BytesResponse {
            parts,
            body: Box::new(body),
        })
    }
}

impl instant_acme::HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().exchange(request))
    }
}
