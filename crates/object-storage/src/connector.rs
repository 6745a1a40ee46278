//! The connections of the server under `object_store`, in place of a second HTTP client.

use std::time::Duration;

use async_trait::async_trait;
use glassline_access::outbound::{Bounds, HttpClient};
use http_body_util::{BodyExt, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient as StoreClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};

/// Bounds of one exchange: a part of 8 MiB over one Mbit/s takes 67 s, and no answer has more bytes
/// than a part.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(120),
    body_bytes: 16 << 20,
};

/// Hands `object_store` the connections of the server.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<StoreClient> {
        Ok(StoreClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let request = axum::http::Request::from_parts(parts, Full::new(body));
        match self.0.fetch(request, BOUNDS).await {
            Ok(answer) => Ok(answer.map(|body| {
                HttpResponseBody::new(Full::new(body).map_err(|never| match never {}))
            })),
            Err(error) => Err(HttpError::new(
                HttpErrorKind::Connect,
                Failed(error.to_string()),
            )),
        }
    }
}

/// The text of a failed exchange.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);
